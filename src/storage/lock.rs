//! One process a directory.

use std::fs::File;
use std::path::Path;

use super::StorageError;

/// The directory belongs to this process until this is dropped (or the process ends, however).
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the file `lock` of an existing directory, creating it.
    ///
    /// # Errors
    /// [`StorageError::Locked`] when another process has it; [`StorageError::Io`].
    pub fn acquire(directory: &Path) -> Result<Self, StorageError> {
        todo!()
    }
}
