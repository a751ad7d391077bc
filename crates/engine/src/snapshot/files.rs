//! The files that parts of the index lie in beyond memory: those of snapshots, and the temporary
//! files of merges.

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nearprint_index::memory::file::{FileBody, TemporaryFiles, TemporaryWriter};
use nearprint_storage::{Disk, Identity, SealedPages, SealedWriter};

/// A file in pages.
#[derive(Debug)]
pub(super) struct PartPages {
    pub(super) pages: SealedPages,
    pub(super) is_temporary: bool,
}

impl FileBody for PartPages {
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        Ok(self.pages.read(offset, into)?)
    }

    fn will_need(&self, bytes: Range<u64>) {
        self.pages.will_need(bytes);
    }

    fn is_temporary(&self) -> bool {
        self.is_temporary
    }
}

/// Counts the bytes that reach a sink, while another thread looks at the count.
pub(super) struct Counted<'a, W> {
    pub(super) sink: &'a mut W,
    pub(super) bytes: &'a AtomicU64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.sink.write(bytes)?;
        self.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

/// Makes temporary files in the data directory, which are unlinked at once.
#[derive(Debug)]
pub(crate) struct MergeFiles {
    disk: Arc<dyn Disk>,
    identity: Identity,
    made: AtomicU64,
}

impl MergeFiles {
    pub(crate) fn new(disk: Arc<dyn Disk>, identity: Identity) -> Self {
        Self { disk, identity, made: AtomicU64::new(0) }
    }
}

impl TemporaryFiles for MergeFiles {
    fn create(&self) -> io::Result<Box<dyn TemporaryWriter>> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let (disk, name) = (Arc::clone(&self.disk), format!("merge-{number}"));
        Ok(Box::new(MergeFile(SealedWriter::create_unlinked(disk, &name, self.identity)?)))
    }
}

/// A temporary file that is being written.
#[derive(Debug)]
struct MergeFile(SealedWriter);

impl Write for MergeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl TemporaryWriter for MergeFile {
    fn into_body(self: Box<Self>) -> io::Result<Arc<dyn FileBody>> {
        Ok(Arc::new(PartPages { pages: self.0.into_pages()?, is_temporary: true }))
    }
}
