//! Makes sure that one process uses a data directory: a lock of the operating system on the
//! directory.
//!
//! There is no lock file that somebody could remove, and the lock ends with the process.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use super::error::StorageError;

/// While this exists, no other process can lock the directory.
#[derive(Debug)]
pub struct DirectoryLock {
    _directory: File,
}

impl DirectoryLock {
    /// Locks an existing directory. Does not wait.
    ///
    /// # Errors
    /// [`StorageError::Locked`] if another process has the lock; [`StorageError::Io`], also if the
    /// filesystem cannot lock a directory.
    pub fn acquire(directory: &Path) -> Result<Self, StorageError> {
        Self::lock(directory, File::try_lock)
    }

    /// Locks an existing directory for reading: other readers may lock it too, but no service runs
    /// on it meanwhile. Needs no permission to write.
    ///
    /// # Errors
    /// As [`Self::acquire`].
    pub fn acquire_to_read(directory: &Path) -> Result<Self, StorageError> {
        Self::lock(directory, File::try_lock_shared)
    }

    fn lock(
        directory: &Path,
        lock: impl FnOnce(&File) -> Result<(), TryLockError>,
    ) -> Result<Self, StorageError> {
        let path = directory.to_path_buf();
        let opened = OpenOptions::new().read(true).open(directory);
        let directory = match opened {
            Ok(directory) => directory,
            Err(source) => return Err(StorageError::Io { operation: "open", path, source }),
        };
        match lock(&directory) {
            Ok(()) => Ok(Self { _directory: directory }),
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
        let error = DirectoryLock::acquire_to_read(directory.path()).unwrap_err();
        assert!(matches!(error, StorageError::Locked { .. }), "{error}");
        drop(lock);
        let reader = DirectoryLock::acquire_to_read(directory.path()).unwrap();
        let another = DirectoryLock::acquire_to_read(directory.path()).unwrap();
        DirectoryLock::acquire(directory.path()).unwrap_err();
        drop((reader, another));
        DirectoryLock::acquire(directory.path()).unwrap();
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "files of the test")]
    fn a_directory_keeps_its_owner_when_all_its_files_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        File::create(directory.path().join("lock")).unwrap();
        let _lock = DirectoryLock::acquire(directory.path()).unwrap();
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let error = DirectoryLock::acquire(directory.path()).unwrap_err();
        assert!(matches!(error, StorageError::Locked { .. }), "{error}");
    }
}
