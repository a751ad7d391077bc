//! A directory that is only read, for commands that change nothing: it may lie on a file system
//! that cannot be written, and belong to somebody else.
//!
//! Opening a directory makes durable what it read and removes leftovers. Here that does nothing:
//! what is written, renamed or removed is dropped. So nothing may be stored in such a directory;
//! [`Disk::fault`] says so from the beginning.

use std::path::Path;

use crate::disk::real::RealDisk;
use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;

/// A directory of the operating system, to be read only.
#[derive(Debug)]
pub struct ReadingDisk {
    real: RealDisk,
}

/// A file of it; one without a file in it is empty.
#[derive(Debug)]
struct ReadingFile(Option<Box<dyn DiskFile>>);

impl ReadingDisk {
    /// Opens an existing directory.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        Ok(Self { real: RealDisk::open_existing(path)? })
    }
}

impl Disk for ReadingDisk {
    fn create(&self, _: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        Ok(Box::new(ReadingFile(None)))
    }

    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError> {
        Ok(Box::new(ReadingFile(Some(self.real.open_to_read(name)?))))
    }

    fn list(&self) -> Result<Vec<String>, StorageError> {
        self.real.list()
    }

    fn rename(&self, _: &str, _: &str) -> Result<(), StorageError> {
        Ok(())
    }

    fn remove(&self, _: &str) -> Result<(), StorageError> {
        Ok(())
    }

    fn sync_directory(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn fault(&self) -> Option<String> {
        Some("it was opened to be read only, because it cannot be written".to_owned())
    }

    fn free_bytes(&self) -> Result<u64, StorageError> {
        self.real.free_bytes()
    }
}

impl DiskFile for ReadingFile {
    fn write_at(&self, _: u64, _: &[u8]) -> Result<(), StorageError> {
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StorageError> {
        self.0.as_ref().map_or(Ok(0), |file| file.read_at(offset, buffer))
    }

    fn read_in_memory(&self, offset: u64, buffer: &mut [u8]) -> Option<usize> {
        self.0.as_ref().map_or(Some(0), |file| file.read_in_memory(offset, buffer))
    }

    fn will_need(&self, offset: u64, bytes: u64) {
        self.0.iter().for_each(|file| file.will_need(offset, bytes));
    }

    fn sync_data(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn truncate(&self, _: u64) -> Result<(), StorageError> {
        Ok(())
    }

    fn len(&self) -> Result<u64, StorageError> {
        self.0.as_ref().map_or(Ok(0), |file| file.len())
    }

    fn reserve(&self, _: u64, _: u64) -> Result<(), StorageError> {
        Ok(())
    }
}
