//! A sliding window over a file: few large reads instead of many small ones.

use crate::storage::{DiskFile, StorageError};

/// The part of a file that is in memory.
#[derive(Debug)]
pub(crate) struct Window<'a> {
    file: &'a dyn DiskFile,
    chunk_bytes: usize,
    buffer: Vec<u8>,
    offset: u64,
    filled: usize,
}

impl<'a> Window<'a> {
    /// An empty window that reads at least `chunk_bytes` at a time.
    pub(crate) fn new(file: &'a dyn DiskFile, chunk_bytes: usize) -> Self {
        Self { file, chunk_bytes, buffer: Vec::new(), offset: 0, filled: 0 }
    }

    /// The bytes from `offset`: at least `needed`, less only at the end of the file. Reads when
    /// the window does not hold them.
    pub(crate) fn at(&mut self, offset: u64, needed: usize) -> Result<&[u8], StorageError> {
        if self.held(offset).len() < needed {
            let bytes = needed.max(self.chunk_bytes);
            if self.buffer.len() < bytes {
                self.buffer.resize(bytes, 0);
            }
            let room = self.buffer.get_mut(..bytes).unwrap_or_default();
            self.filled = 0;
            self.filled = self.file.read_at(offset, room)?;
            self.offset = offset;
        }
        Ok(self.held(offset))
    }

    /// What the window holds from `offset`.
    pub(crate) fn held(&self, offset: u64) -> &[u8] {
        let filled = self.buffer.get(..self.filled).unwrap_or_default();
        offset
            .checked_sub(self.offset)
            .and_then(|skip| filled.get(usize::try_from(skip).ok()?..))
            .unwrap_or_default()
    }

    /// The buffer, for a caller who takes a part of it; it begins at the offset last asked for
    /// when that had to be read, else before it.
    pub(crate) fn into_bytes_from(mut self, offset: u64, skip: usize, bytes: usize) -> Vec<u8> {
        let start = (offset.saturating_sub(self.offset) as usize).saturating_add(skip);
        self.buffer.truncate(start.saturating_add(bytes).min(self.filled));
        self.buffer.drain(..start.min(self.buffer.len()));
        self.buffer
    }
}
