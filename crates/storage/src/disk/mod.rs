//! The only access to the disk: files with flat names in one directory.
//!
//! Knows no format. Names are relative to the data directory and have no separators. The bytes and
//! the length of a file are durable after [`DiskFile::sync_data`], its name after
//! [`Disk::sync_directory`]. Until then a power cut may keep, lose, tear or reorder changes.
//!
//! [`super::RealDisk`] is the operating system. The tests have another disk, which forgets what was
//! not synced (`storage/tests/simulated`); `storage/tests/disks.rs` runs on both.

pub(crate) mod reading;
pub(crate) mod real;

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use super::error::StorageError;

/// A directory of files.
pub trait Disk: Send + Sync + Debug {
    /// Creates an empty file for reading and writing. Its name is not durable yet.
    ///
    /// # Errors
    /// [`StorageError::Io`], also if a file of this name exists.
    fn create(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError>;

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// [`StorageError::Io`]; see [`StorageError::is_not_found`].
    fn open(&self, name: &str) -> Result<Box<dyn DiskFile>, StorageError>;

    /// The names of all entries, sorted. Opening one that is not a file fails.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    fn list(&self) -> Result<Vec<String>, StorageError>;

    /// Renames a file, replacing a file with the new name. Not durable yet.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    fn rename(&self, from: &str, to: &str) -> Result<(), StorageError>;

    /// Removes a name; open handles stay readable. Not durable yet.
    ///
    /// # Errors
    /// [`StorageError::Io`]; see [`StorageError::is_not_found`].
    fn remove(&self, name: &str) -> Result<(), StorageError>;

    /// Removes a name if it exists.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    fn remove_if_present(&self, name: &str) -> Result<(), StorageError> {
        match self.remove(name) {
            Err(error) if !error.is_not_found() => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Makes all creations, renames and removals so far durable.
    ///
    /// # Errors
    /// [`StorageError::Io`]. Never retry: the second try may succeed although the data is lost.
    fn sync_directory(&self) -> Result<(), StorageError>;

    /// Why nothing that is written can be found again: the directory was removed or moved away, or
    /// its file system cannot be written. `None` if all is well.
    fn fault(&self) -> Option<String> {
        None
    }

    /// How many journal files and packs there may be before the newest journal file grows instead:
    /// each of them stays open.
    fn record_files_max(&self) -> u64 {
        u64::MAX
    }

    /// How many bytes this process can still write.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    fn free_bytes(&self) -> Result<u64, StorageError>;
}

/// An open file, shared by readers and one writer. There is no cursor.
#[expect(clippy::len_without_is_empty, reason = "the length of a file is an operation that fails")]
pub trait DiskFile: Send + Sync + Debug {
    /// Writes all bytes at `offset`, extending the file as needed. After an error any part of them
    /// may be in the file.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), StorageError>;

    /// Reads into the buffer from `offset` and returns the number of bytes, which is less than the
    /// buffer's length only at the end of the file.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StorageError>;

    /// The same without waiting for the disk: `None` if not all of it is in memory, or if it cannot
    /// be read.
    fn read_in_memory(&self, offset: u64, buffer: &mut [u8]) -> Option<usize>;

    /// Says that bytes will be read soon: the disk begins to read them, and nobody waits.
    fn will_need(&self, _offset: u64, _bytes: u64) {}

    /// Makes the length and all bytes written so far durable.
    ///
    /// # Errors
    /// [`StorageError::Io`]. Never retry: the second try may succeed although the data is lost.
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

    /// Reserves disk space for `bytes` bytes from `offset` without changing the length, so that a
    /// full disk is noticed before anything is decided. Succeeds on a filesystem that cannot
    /// reserve.
    ///
    /// # Errors
    /// [`StorageError::Io`]; see [`StorageError::is_full`].
    fn reserve(&self, offset: u64, bytes: u64) -> Result<(), StorageError>;
}

/// A file to export. Its first `bytes` bytes no longer change.
#[derive(Debug, Clone)]
pub struct ExportFile {
    /// Its name in the directory.
    pub name: String,
    pub file: Arc<dyn DiskFile>,
    /// How many of its bytes are exported.
    pub bytes: u64,
}

/// Refuses what needs this many bytes if fewer are free; `what` begins a sentence.
///
/// # Errors
/// [`StorageError::is_full`], with both numbers; [`StorageError::Io`].
pub fn require_space(disk: &dyn Disk, bytes: u64, what: &str) -> Result<(), StorageError> {
    let free = disk.free_bytes()?;
    if bytes <= free {
        return Ok(());
    }
    let why = format!("about {bytes} bytes of disk are needed, and {free} are free");
    let full = std::io::Error::new(std::io::ErrorKind::StorageFull, why);
    Err(StorageError::from_io(full, "write", what))
}

/// The size of a read of [`read_in_pieces`].
const PIECE_BYTES: usize = 256 << 10;

/// Passes the bytes of a range to `take`, in pieces with their offsets. Returns where it ended,
/// which is before the end of the range only if the file is shorter.
pub(crate) fn read_in_pieces<E: From<StorageError>>(
    file: &dyn DiskFile,
    range: Range<u64>,
    mut take: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<u64, E> {
    let mut buffer = vec![0; PIECE_BYTES];
    let mut offset = range.start;
    while offset < range.end {
        let wanted = range.end.saturating_sub(offset).min(PIECE_BYTES as u64) as usize;
        let piece = buffer.get_mut(..wanted).unwrap_or_default();
        let read = file.read_at(offset, piece)?;
        if read == 0 {
            break;
        }
        take(offset, piece.get(..read).unwrap_or_default())?;
        offset += read as u64;
    }
    Ok(offset)
}
