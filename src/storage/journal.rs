//! The single writer of the journal.

use std::sync::Arc;

use super::{Disk, Identity, Records, StorageError, Tail};

/// The settings of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalOptions {
    /// A file is closed by the flush that brings it to this size; it is larger by at most a group.
    pub file_bytes: u64,
}

/// The single writer. After a failed write or sync every later call fails
/// ([`StorageError::Poisoned`]); a full disk met by [`Journal::reserve`] poisons nothing.
#[derive(Debug)]
pub struct Journal {}

impl Journal {
    /// Continues after what [`super::scan`] found: cuts the torn tail, makes everything before it
    /// durable, creates the first file of an empty directory.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn open(
        disk: Arc<dyn Disk>,
        identity: Identity,
        tail: Tail,
        options: JournalOptions,
    ) -> Result<Self, StorageError> {
        todo!()
    }

    /// A reader of all flushed records; cheap to clone and to send to other threads.
    pub fn records(&self) -> Records {
        todo!()
    }

    /// Puts a record into the buffer and returns the sequence of the first of its `count` changes.
    /// No input or output.
    ///
    /// # Errors
    /// [`StorageError::PayloadTooLarge`], [`StorageError::Poisoned`]; nothing was appended.
    ///
    /// # Panics
    /// When `count` is 0.
    pub fn append(&mut self, payload: &[u8], count: u32) -> Result<u64, StorageError> {
        todo!()
    }

    /// Writes the buffer with one write; from then on the records can be read. Begins a new file
    /// when this one has reached its size (that syncs the old one first).
    ///
    /// # Errors
    /// [`StorageError::Io`], [`StorageError::Poisoned`].
    pub fn flush(&mut self) -> Result<(), StorageError> {
        todo!()
    }

    /// Flushes, and makes every record durable. Free when nothing was flushed since the last sync.
    /// Returns the last durable sequence.
    ///
    /// # Errors
    /// [`StorageError::Io`], [`StorageError::Poisoned`].
    pub fn sync(&mut self) -> Result<u64, StorageError> {
        todo!()
    }

    /// Writes a seal, which says that everything before it is durable; does not sync it. Call it
    /// after a sync when no record waits, so that a later flip in the last record is told from a
    /// torn tail. Does nothing when the last durable sequence is written down already.
    ///
    /// # Errors
    /// [`StorageError::Io`], [`StorageError::Poisoned`].
    pub fn seal(&mut self) -> Result<(), StorageError> {
        todo!()
    }

    /// Asks for room for a group of `records` records with payloads of `payload_bytes` together.
    ///
    /// # Errors
    /// [`StorageError::Io`]: when [`StorageError::is_full`], nothing is poisoned and the group can
    /// be refused; [`StorageError::Poisoned`].
    pub fn reserve(&mut self, records: u64, payload_bytes: u64) -> Result<(), StorageError> {
        todo!()
    }

    /// The sequence the next change will get.
    pub fn next_sequence(&self) -> u64 {
        todo!()
    }

    /// The last sequence known to be durable; 0 for none.
    pub fn durable_upto(&self) -> u64 {
        todo!()
    }
}
