//! A sliding window over a file: a few large reads instead of many small ones.

use crate::disk::DiskFile;
use crate::error::{BadFrame, StorageError};
use crate::frame::{FRAME_HEADER_BYTES, Frame, decode, decode_header};
use crate::header::Seed;

/// Where bytes of a file are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadFrom {
    /// The disk, unless they are in memory.
    Disk,
    /// What the operating system has in memory, and nothing else.
    Memory,
}

/// The part of a file that is in memory.
#[derive(Debug)]
pub struct FileWindow<'a> {
    file: &'a dyn DiskFile,
    read_from: ReadFrom,
    chunk_bytes: usize,
    buffer: Vec<u8>,
    offset: u64,
    filled: usize,
}

impl<'a> FileWindow<'a> {
    /// An empty window that reads at least `chunk_bytes` at a time.
    pub fn new(file: &'a dyn DiskFile, chunk_bytes: usize) -> Self {
        let read_from = ReadFrom::Disk;
        Self { file, read_from, chunk_bytes, buffer: Vec::new(), offset: 0, filled: 0 }
    }

    /// The same window, which reads from there.
    pub(crate) fn from(mut self, read_from: ReadFrom) -> Self {
        self.read_from = read_from;
        self
    }

    /// The bytes from `offset`: at least `needed`, fewer only at the end of the file. Reads if they
    /// are not in memory.
    ///
    /// # Errors
    /// [`StorageError::Io`]; [`StorageError::NotInMemory`] if it reads from memory alone.
    pub fn at(&mut self, offset: u64, needed: usize) -> Result<&[u8], StorageError> {
        if self.loaded(offset).len() < needed {
            let bytes = needed.max(self.chunk_bytes);
            if self.buffer.len() < bytes {
                self.buffer.resize(bytes, 0);
            }
            let target = self.buffer.get_mut(..bytes).unwrap_or_default();
            self.filled = 0;
            self.filled = match self.read_from {
                ReadFrom::Disk => self.file.read_at(offset, target)?,
                ReadFrom::Memory => {
                    let read = self.file.read_in_memory(offset, target);
                    read.ok_or(StorageError::NotInMemory)?
                }
            };
            self.offset = offset;
        }
        Ok(self.loaded(offset))
    }

    /// The verified frame that begins at `offset`, or what is wrong with it.
    ///
    /// # Errors
    /// [`StorageError::Io`].
    pub fn frame(
        &mut self,
        offset: u64,
        seed: Seed,
    ) -> Result<Result<Frame<'_>, BadFrame>, StorageError> {
        match decode_header(self.at(offset, FRAME_HEADER_BYTES)?, seed) {
            Ok(header) => Ok(decode(self.at(offset, header.frame_bytes())?, seed)),
            Err(bad) => Ok(Err(bad)),
        }
    }

    fn loaded(&self, offset: u64) -> &[u8] {
        let filled = self.buffer.get(..self.filled).unwrap_or_default();
        offset
            .checked_sub(self.offset)
            .and_then(|skip| filled.get(usize::try_from(skip).ok()?..))
            .unwrap_or_default()
    }
}
