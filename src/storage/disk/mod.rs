//! The one seam to the disk: flat file names in one directory.
//!
//! Knows no format. Names are relative to the data directory and have no separators. What is
//! durable when: the bytes and the length of a file after [`DiskFile::sync_data`]; its name after
//! [`Disk::sync_directory`]. Until then a power cut may keep, lose, tear or reorder them.
//!
//! [`super::RealDisk`] is the operating system; [`super::SimulatedDisk`] forgets what was not
//! synced. The tests of `simulated` run the same expectations on both.

use std::fmt::Debug;

use super::StorageError;

/// A directory of files.
pub trait Disk: Send + Sync + Debug {
    /// Makes an empty file for reading and writing; its name is not durable yet.
    ///
    /// # Errors
    /// [`StorageError::Io`], also when a file of this name exists.
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError>;

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// [`StorageError::Io`]; see [`StorageError::is_not_found`].
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError>;

    /// The names of all entries, sorted. One that is not a file is refused when it is opened.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    fn list(&self) -> Result<Vec<String>, StorageError>;

    /// Gives a file another name, replacing a file that has it. Not durable yet.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    fn rename(&self, from: &str, to: &str) -> Result<(), StorageError>;

    /// Removes a name; open handles stay readable. Not durable yet.
    ///
    /// # Errors
    /// [`StorageError::Io`]; see [`StorageError::is_not_found`].
    fn remove(&self, name: &str) -> Result<(), StorageError>;

    /// Makes all creations, renames and removals so far durable.
    ///
    /// # Errors
    /// [`StorageError::Io`]; never retried, since the second try may succeed without the data.
    fn sync_directory(&self) -> Result<(), StorageError>;

    /// How many bytes can still be written by this process.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    fn free_bytes(&self) -> Result<u64, StorageError>;
}

/// An open file. Shared by readers and one writer; no operation moves a cursor.
#[expect(clippy::len_without_is_empty, reason = "the length of a file is an operation that fails")]
pub trait DiskFile: Send + Sync + Debug {
    /// Writes all bytes at `offset`, extending the file as needed. On an error any part of them
    /// may have been written.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StorageError>;

    /// Fills the buffer from `offset`; returns how many bytes, less than asked only at the end of
    /// the file.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StorageError>;

    /// Makes all bytes written so far, and the length, durable.
    ///
    /// # Errors
    /// [`StorageError::Io`]; never retried, since the second try may succeed without the data.
    fn sync_data(&self) -> Result<(), StorageError>;

    /// Sets the length in bytes; new bytes are zeros.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    fn truncate(&self, bytes: u64) -> Result<(), StorageError>;

    /// The length in bytes.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    fn len(&self) -> Result<u64, StorageError>;

    /// Asks for room for `bytes` bytes from `offset` without changing the length, so that a full
    /// disk is met before anything is decided. A filesystem that cannot promise room says yes.
    ///
    /// # Errors
    /// [`StorageError::Io`]; see [`StorageError::is_full`].
    fn reserve(&self, offset: u64, bytes: u64) -> Result<(), StorageError>;
}
pub(crate) mod real;
pub mod simulated;
