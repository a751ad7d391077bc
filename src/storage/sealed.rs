//! Files written once: checksummed in blocks and as a whole.

use std::io::{self, Read, Write};
use std::sync::Arc;

use super::{Disk, Identity, StorageError};

/// What a sealed file is for; the numbers are given out by the floor above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileKind(pub u32);

/// The facts of a finished sealed file, such as a manifest lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    /// The length of the body.
    pub body_bytes: u64,
    /// The length of the file.
    pub file_bytes: u64,
    /// XXH3-128 of the header and the body.
    pub checksum: u128,
}

/// Writes `<name>.tmp`; [`SealedWriter::finish`] makes it durable under its name.
#[derive(Debug)]
pub struct SealedWriter {}

impl SealedWriter {
    /// Begins a file; a leftover `<name>.tmp` is removed.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn create(
        disk: Arc<dyn Disk>,
        name: &str,
        kind: FileKind,
        identity: Identity,
    ) -> Result<Self, StorageError> {
        todo!()
    }

    /// Writes the trailer, syncs, renames to the name, syncs the directory. Then it is durable.
    ///
    /// # Errors
    /// [`StorageError::Io`]; the temporary file may be left and is no harm.
    pub fn finish(self) -> Result<Sealed, StorageError> {
        todo!()
    }

    /// Gives up and removes the temporary file.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn abandon(self) -> Result<(), StorageError> {
        todo!()
    }
}

impl Write for SealedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        todo!()
    }

    fn flush(&mut self) -> io::Result<()> {
        todo!()
    }
}

/// Reads a sealed file; every block is verified before a byte of it is handed out, the whole before
/// the last block is.
#[derive(Debug)]
pub struct SealedReader {}

impl SealedReader {
    /// Opens a file of this kind and identity; header and trailer are verified.
    ///
    /// # Errors
    /// [`StorageError::Refused`], [`StorageError::Damaged`], [`StorageError::Io`].
    pub fn open(
        disk: &dyn Disk,
        name: &str,
        kind: FileKind,
        identity: &Identity,
    ) -> Result<Self, StorageError> {
        todo!()
    }

    /// Opens a file whose identity is not known yet: the one that tells the directory's.
    ///
    /// # Errors
    /// As [`SealedReader::open`], without the refusals of another directory or recipe.
    pub fn open_first(disk: &dyn Disk, name: &str, kind: FileKind) -> Result<Self, StorageError> {
        todo!()
    }

    /// The identity in the header.
    pub fn identity(&self) -> Identity {
        todo!()
    }

    /// Length and checksum, as [`SealedWriter::finish`] returned them.
    pub fn sealed(&self) -> Sealed {
        todo!()
    }

    /// The next verified block (64 KiB but for the last one); `None` after the last.
    ///
    /// # Errors
    /// [`StorageError::Damaged`], [`StorageError::Io`].
    pub fn next_block(&mut self) -> Result<Option<&[u8]>, StorageError> {
        todo!()
    }

    /// The rest of the body, at most `bytes_max` bytes.
    ///
    /// # Errors
    /// As [`SealedReader::next_block`]; [`StorageError::PayloadTooLarge`] above `bytes_max`.
    pub fn read_rest(&mut self, bytes_max: u64) -> Result<Vec<u8>, StorageError> {
        todo!()
    }
}

/// Errors carry the [`StorageError`]; [`StorageError::from_io`] takes it out.
impl Read for SealedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        todo!()
    }
}

/// Removes every `*.tmp`, left by a process that ended before it finished a file.
///
/// # Errors
/// [`StorageError::Io`].
pub fn remove_leftovers(disk: &dyn Disk) -> Result<(), StorageError> {
    todo!()
}
