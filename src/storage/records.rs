//! The readers of the journal.

use super::StorageError;

/// A record read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The sequence of its first change.
    pub first: u64,
    /// How many consecutive changes it stands for, at least 1.
    pub count: u32,
    /// The bytes as they were appended.
    pub payload: Vec<u8>,
}

/// Reads flushed records by sequence, from any thread, beside the writer. Cloning is shallow.
#[derive(Debug, Clone)]
pub struct Records {}

impl Records {
    /// The record that covers `sequence`, its checksums verified now.
    ///
    /// Cost: one read of about 4 KiB from the page cache or the disk; the first read of a file that
    /// recovery did not scan goes once over its headers.
    ///
    /// # Errors
    /// [`StorageError::NoRecord`], [`StorageError::Damaged`], [`StorageError::Io`].
    pub fn read(&self, sequence: u64) -> Result<Record, StorageError> {
        todo!()
    }

    /// How many journal files there are, and their bytes together.
    pub fn extent(&self) -> Extent {
        todo!()
    }
}

/// The size of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of files.
    pub files: u64,
    /// Their bytes together.
    pub bytes: u64,
}
