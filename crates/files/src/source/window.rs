//! A sliding window over a source: the bytes that a reader has not taken yet.
//!
//! A reader looks for the end of a record in the window, lets the window grow until the end is in
//! it, and takes the record without a copy. The reader compares the length of the window with its
//! limit, so a window is never much longer than one record.

use std::io::{self, BufRead as _};

use bytes::{Buf as _, Bytes, BytesMut};

use super::compression::ByteSource;

/// The bytes of a source that were read and not taken.
pub(crate) struct Window {
    source: ByteSource,
    bytes: BytesMut,
    /// Where the window begins in the source.
    offset: u64,
}

impl Window {
    pub(crate) fn new(source: ByteSource) -> Self {
        Self { source, bytes: BytesMut::new(), offset: 0 }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of bytes taken so far.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads some more bytes; `false` at the end of the source.
    ///
    /// # Errors
    /// The source is damaged here, or cannot be read. What is in the window may lack its end. The
    /// next call continues after the damage, or says that the source ends.
    pub(crate) fn grow(&mut self) -> io::Result<bool> {
        loop {
            match self.source.fill_buf() {
                Ok(data) => {
                    let count = data.len();
                    self.bytes.extend_from_slice(data);
                    self.source.consume(count);
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the first `count` bytes of the window.
    pub(crate) fn take(&mut self, count: usize) -> Bytes {
        self.offset += count as u64;
        self.bytes.split_to(count).freeze()
    }

    /// Drops the first `count` bytes of the window.
    pub(crate) fn skip(&mut self, count: usize) {
        self.offset += count as u64;
        self.bytes.advance(count);
    }

    /// Drops all bytes of the window but the last `count`.
    pub(crate) fn skip_all_but(&mut self, count: usize) {
        self.skip(self.bytes.len().saturating_sub(count));
    }
}
