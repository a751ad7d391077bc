//! A stream of bytes in chunks with checksums, so that no byte is decoded before it is verified.
//!
//! ```text
//!   chunk   length: u32, XXH3-64 of the bytes under the number of the chunk: u64, bytes
//!   end     a chunk without bytes
//! ```
//!
//! A stream that was cut off has no end. Numbers are little-endian.

use std::io::{self, Read, Write};

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The bytes of a full chunk.
const CHUNK_BYTES: usize = 1 << 20;

/// Writes what it is given in chunks; [`Self::finish`] writes the end.
pub(super) struct ChunkWriter<W: Write> {
    sink: W,
    chunk: Vec<u8>,
    number: u64,
}

impl<W: Write> ChunkWriter<W> {
    pub(super) fn new(sink: W) -> Self {
        Self { sink, chunk: Vec::with_capacity(CHUNK_BYTES), number: 0 }
    }

    /// Writes what is left, and the end.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if !self.chunk.is_empty() {
            self.write_chunk()?;
        }
        self.write_chunk()?;
        self.sink.flush()
    }

    fn write_chunk(&mut self) -> io::Result<()> {
        let length = u32::try_from(self.chunk.len()).expect("a chunk is short");
        self.sink.write_all(&length.to_le_bytes())?;
        self.sink.write_all(&xxh3_64_with_seed(&self.chunk, self.number).to_le_bytes())?;
        self.sink.write_all(&self.chunk)?;
        self.number += 1;
        self.chunk.clear();
        Ok(())
    }
}

impl<W: Write> Write for ChunkWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(CHUNK_BYTES - self.chunk.len());
        self.chunk.extend_from_slice(&bytes[..taken]);
        if self.chunk.len() == CHUNK_BYTES {
            self.write_chunk()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads what a [`ChunkWriter`] has written.
pub(super) struct ChunkReader<R: Read> {
    source: R,
    chunk: Vec<u8>,
    read: usize,
    number: u64,
    is_at_end: bool,
}

impl<R: Read> ChunkReader<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, chunk: Vec::new(), read: 0, number: 0, is_at_end: false }
    }

    /// Whether the end comes next.
    pub(super) fn ends(&mut self) -> io::Result<bool> {
        Ok(self.read(&mut [0])? == 0)
    }

    fn read_chunk(&mut self) -> io::Result<()> {
        let (mut length, mut checksum) = ([0; 4], [0; 8]);
        self.source.read_exact(&mut length)?;
        self.source.read_exact(&mut checksum)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > CHUNK_BYTES {
            return Err(self.damaged());
        }
        self.chunk.resize(length, 0);
        self.source.read_exact(&mut self.chunk)?;
        if xxh3_64_with_seed(&self.chunk, self.number) != u64::from_le_bytes(checksum) {
            return Err(self.damaged());
        }
        self.number += 1;
        self.read = 0;
        self.is_at_end = length == 0;
        Ok(())
    }

    fn damaged(&self) -> io::Error {
        let what = match self.number {
            0 => "this is not an index, or its beginning is damaged",
            _ => "a checksum does not hold: the file is damaged",
        };
        io::Error::new(io::ErrorKind::InvalidData, what)
    }
}

impl<R: Read> Read for ChunkReader<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.read == self.chunk.len() && !self.is_at_end {
            self.read_chunk()?;
        }
        let left = &self.chunk[self.read..];
        let taken = bytes.len().min(left.len());
        bytes[..taken].copy_from_slice(&left[..taken]);
        self.read += taken;
        Ok(taken)
    }
}
