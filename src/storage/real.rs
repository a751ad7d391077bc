//! The disk of the operating system.

use std::path::{Path, PathBuf};

use super::{Disk, DiskFile, StorageError};

/// A directory of the operating system.
#[derive(Debug)]
pub struct RealDisk {
    path: PathBuf,
}

impl RealDisk {
    /// Opens a directory, creating it (and making its name durable) when it is not there.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        todo!()
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Disk for RealDisk {
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        todo!()
    }
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        todo!()
    }
    fn list(&self) -> Result<Vec<String>, StorageError> {
        todo!()
    }
    fn rename(&self, from: &str, to: &str) -> Result<(), StorageError> {
        todo!()
    }
    fn remove(&self, name: &str) -> Result<(), StorageError> {
        todo!()
    }
    fn sync_directory(&self) -> Result<(), StorageError> {
        todo!()
    }
    fn free_bytes(&self) -> Result<u64, StorageError> {
        todo!()
    }
}
