//! Arrays in files: read item by item, with what the owner of the files verifies.
//!
//! The index knows no disk; who opens its parts brings the files ([`FileBody`]), and where merges
//! put results that do not fit into memory ([`TemporaryFiles`]).
//!
//! Look-ups, merges and listings have no errors of their own, since memory has none. A file that
//! cannot be read ends them by unwinding, like a panic but without its message, up to whoever
//! called [`catch_unreadable`]: nothing is decided and nothing is changed on the way. (The query
//! engine of rust-analyzer cancels queries in the same way.)

use std::fmt;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use bytemuck::Pod;

/// The bytes of a file.
pub trait FileBody: fmt::Debug + Send + Sync {
    /// Reads bytes from an offset on.
    ///
    /// # Errors
    /// They cannot be read, or are not those that were written.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Says that bytes will be read soon. Waits for nothing.
    fn will_need(&self, bytes: Range<u64>);

    /// Whether it is one of [`TemporaryFiles`].
    fn is_temporary(&self) -> bool;
}

/// Where files are made that nobody else knows of.
pub trait TemporaryFiles: fmt::Debug + Send + Sync {
    /// A new file.
    ///
    /// # Errors
    /// Those of the disk.
    fn create(&self) -> io::Result<Box<dyn TemporaryWriter>>;
}

/// A temporary file that is being written.
pub trait TemporaryWriter: Write + fmt::Debug + Send + Sync {
    /// What was written, to be read. The file goes away with it.
    ///
    /// # Errors
    /// Those of the disk.
    fn into_body(self: Box<Self>) -> io::Result<Arc<dyn FileBody>>;
}

/// Runs work that may read files of the index, and what it makes of them.
///
/// # Errors
/// A file could not be read or written.
pub fn catch_unreadable<T>(work: impl FnOnce() -> T) -> io::Result<T> {
    // The index does not change while it is read, and what the work has begun is dropped.
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| match payload.downcast() {
        Ok(unreadable) => {
            let Unreadable(error) = *unreadable;
            error
        }
        Err(panic) => resume_unwind(panic),
    })
}

/// What work unwinds with that cannot read or write a file.
struct Unreadable(io::Error);

/// Ends the work up to [`catch_unreadable`].
pub(crate) fn unwind(error: io::Error) -> ! {
    resume_unwind(Box::new(Unreadable(error)))
}

/// A fixed array of numbers in a file.
#[derive(Debug)]
pub(crate) struct FileArray<T> {
    file: Arc<dyn FileBody>,
    /// Where it begins, in bytes.
    offset: u64,
    len: usize,
    items: PhantomData<fn() -> T>,
}

impl<T: Pod> FileArray<T> {
    pub(crate) fn new(file: Arc<dyn FileBody>, offset: u64, len: usize) -> Self {
        Self { file, offset, len, items: PhantomData }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The item at a place.
    ///
    /// # Panics
    /// When there is none.
    pub(crate) fn get(&self, at: usize) -> T {
        let mut item = [T::zeroed()];
        self.read(at, &mut item);
        let [item] = item;
        item
    }

    /// The items from a place on.
    ///
    /// # Panics
    /// When there are not so many.
    pub(crate) fn read(&self, at: usize, into: &mut [T]) {
        assert!(at + into.len() <= self.len, "an array has these places");
        let read = self.file.read(self.byte(at), bytemuck::cast_slice_mut(into));
        read.unwrap_or_else(|error| unwind(error));
    }

    /// Says that items will be read soon; those that there are.
    pub(crate) fn will_need(&self, range: Range<usize>) {
        let (start, end) = (range.start.min(self.len), range.end.min(self.len));
        if start < end {
            self.file.will_need(self.byte(start)..self.byte(end));
        }
    }

    /// A part of it.
    pub(crate) fn part(&self, range: &Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "a part lies within");
        Self::new(Arc::clone(&self.file), self.byte(range.start), range.len())
    }

    /// Whether its file is a temporary one.
    pub(crate) fn is_temporary(&self) -> bool {
        self.file.is_temporary()
    }

    /// The bytes that it takes in its file.
    pub(crate) fn bytes(&self) -> u64 {
        (self.len * size_of::<T>()) as u64
    }

    fn byte(&self, at: usize) -> u64 {
        self.offset + (at * size_of::<T>()) as u64
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Files in memory, which can be made unreadable.
    #[derive(Debug, Clone, Default)]
    pub(crate) struct FilesInMemory {
        pub(crate) broken: Arc<AtomicBool>,
    }

    #[derive(Debug, Default)]
    struct FileInMemory {
        bytes: Vec<u8>,
        broken: Arc<AtomicBool>,
        temporary: bool,
    }

    impl FilesInMemory {
        /// A file with these bytes.
        pub(crate) fn file_of(&self, bytes: Vec<u8>) -> Arc<dyn FileBody> {
            let broken = Arc::clone(&self.broken);
            Arc::new(FileInMemory { bytes, broken, temporary: false })
        }
    }

    impl FileInMemory {
        fn check(&self) -> io::Result<()> {
            let broken = self.broken.load(Ordering::Relaxed);
            if broken { Err(io::Error::other("the file is broken")) } else { Ok(()) }
        }
    }

    impl FileBody for FileInMemory {
        fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
            self.check()?;
            let from = self.bytes.get(offset as usize..).unwrap_or_default();
            let from = from.get(..into.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
            into.copy_from_slice(from);
            Ok(())
        }

        fn will_need(&self, bytes: Range<u64>) {
            assert!(bytes.end <= self.bytes.len() as u64, "only what there is");
        }

        fn is_temporary(&self) -> bool {
            self.temporary
        }
    }

    impl TemporaryFiles for FilesInMemory {
        fn create(&self) -> io::Result<Box<dyn TemporaryWriter>> {
            let (bytes, broken) = (Vec::new(), Arc::clone(&self.broken));
            Ok(Box::new(FileInMemory { bytes, broken, temporary: true }))
        }
    }

    impl Write for FileInMemory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.check()?;
            self.bytes.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl TemporaryWriter for FileInMemory {
        fn into_body(self: Box<Self>) -> io::Result<Arc<dyn FileBody>> {
            self.check()?;
            Ok(Arc::from(self as Box<dyn FileBody>))
        }
    }

    #[test]
    fn what_cannot_be_read_ends_the_work_and_other_panics_go_on() {
        let files = FilesInMemory::default();
        let array = FileArray::<u64>::new(files.file_of(vec![1; 32]), 8, 3);
        let sum = || (0..3).map(|at| array.get(at)).sum::<u64>();
        assert_eq!(catch_unreadable(sum).unwrap(), 3 * 0x0101_0101_0101_0101);
        files.broken.store(true, Ordering::Relaxed);
        assert_eq!(catch_unreadable(sum).unwrap_err().to_string(), "the file is broken");
        let panics = || catch_unreadable(|| resume_unwind(Box::new(7)));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err_and(|payload| payload.is::<i32>()));
    }
}
