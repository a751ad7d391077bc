//! One process a directory: a lock of the operating system on the file `lock`.
//!
//! The lock ends with the process, however it ends, so a file left behind means nothing.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use super::StorageError;

/// The name of the lock file.
pub const LOCK_FILE: &str = "lock";

/// The directory belongs to this process until this is dropped (or the process ends, however).
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the file `lock` of an existing directory, creating it. Does not wait.
    ///
    /// # Errors
    /// [`StorageError::Locked`] when another process has it; [`StorageError::Io`].
    pub fn acquire(directory: &Path) -> Result<Self, StorageError> {
        let path = directory.join(LOCK_FILE);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(|source| StorageError::Io {
            operation: "open",
            path: path.clone(),
            source,
        })?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StorageError::Locked { path }),
            Err(TryLockError::Error(source)) => {
                Err(StorageError::Io { operation: "lock", path, source })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_one_owner_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::acquire(directory.path()).unwrap();
        let error = DirectoryLock::acquire(directory.path()).unwrap_err();
        assert!(matches!(error, StorageError::Locked { .. }), "{error}");
        drop(lock);
        DirectoryLock::acquire(directory.path()).unwrap();
    }
}
