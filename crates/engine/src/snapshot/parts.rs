//! The parts of a snapshot: how each is written and read, and which have a file already.

use std::any::Any;
use std::io::{self, Read, Write};
use std::sync::{Arc, Weak};

use nearprint_index::image;
use nearprint_index::levels::segment::Segment;
use nearprint_index::memory::file::FileBody;
use nearprint_index::plan::Plans;
use nearprint_index::tables::table::Table;

use crate::snapshot::manifest::{PartFile, PartKind};
use crate::snapshot::state_file::StateFile;

/// Smaller arrays are read into memory. The tests have small ones.
const STAY_BYTES_MIN: u64 = if cfg!(test) { 1 } else { 64 << 10 };

/// The parts in memory that have a file already.
#[derive(Debug, Default)]
pub(super) struct WrittenParts(pub(super) Vec<(Weak<dyn Any + Send + Sync>, PartFile)>);

/// A part of a snapshot: a segment, a table or the rest of the state.
pub(super) trait Part: Sized + Send + Sync + 'static {
    const KIND: PartKind;

    fn write(&self, sink: &mut dyn Write) -> io::Result<()>;

    fn read(source: &mut dyn Read, plans: &Plans) -> io::Result<Self>;
}

/// A part whose large arrays may stay in its file.
pub(super) trait PlacedPart: Part {
    fn open(file: Arc<dyn FileBody>, plans: &Plans) -> io::Result<Self>;
}

impl PlacedPart for Segment {
    fn open(file: Arc<dyn FileBody>, plans: &Plans) -> io::Result<Self> {
        image::open_segment(file, plans, STAY_BYTES_MIN)
    }
}

impl PlacedPart for Table {
    fn open(file: Arc<dyn FileBody>, plans: &Plans) -> io::Result<Self> {
        image::open_table(file, &plans.large, STAY_BYTES_MIN)
    }
}

impl Part for Segment {
    const KIND: PartKind = PartKind::Segment;

    fn write(&self, sink: &mut dyn Write) -> io::Result<()> {
        image::write_segment(self, sink)
    }

    fn read(source: &mut dyn Read, plans: &Plans) -> io::Result<Self> {
        image::read_segment(source, plans)
    }
}

impl Part for Table {
    const KIND: PartKind = PartKind::Table;

    fn write(&self, sink: &mut dyn Write) -> io::Result<()> {
        image::write_table(self, sink)
    }

    fn read(source: &mut dyn Read, plans: &Plans) -> io::Result<Self> {
        image::read_table(source, &plans.large)
    }
}

impl Part for StateFile {
    const KIND: PartKind = PartKind::State;

    fn write(&self, sink: &mut dyn Write) -> io::Result<()> {
        Self::write(self, sink)
    }

    fn read(source: &mut dyn Read, _: &Plans) -> io::Result<Self> {
        Self::read(source)
    }
}

impl WrittenParts {
    /// The file of a part, if it has one.
    pub(super) fn known<T: Part>(&self, part: &Arc<T>) -> Option<PartFile> {
        let is_part = |known: &Weak<_>| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(part));
        self.0.iter().find(|(known, _)| is_part(known)).map(|(_, file)| *file)
    }

    /// The file of a part, or the part if it has none. A part with a file is dropped: otherwise, if
    /// it were merged meanwhile, it would stay in memory together with the result.
    pub(super) fn file_of<T: Part>(&self, part: Arc<T>) -> Result<PartFile, Arc<T>> {
        self.known(&part).ok_or(part)
    }

    pub(super) fn add<T: Part>(&mut self, part: Arc<T>, file: PartFile) {
        let part: Arc<dyn Any + Send + Sync> = part;
        self.0.push((Arc::downgrade(&part), file));
    }

    pub(super) fn forget<T: Part>(&mut self, part: &Arc<T>) {
        self.0.retain(|(known, _)| !std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(part)));
    }

    pub(super) fn forget_dropped(&mut self) {
        self.0.retain(|(part, _)| part.strong_count() > 0);
    }
}

#[cfg(test)]
mod tests {
    use nearprint_storage::Sealed;

    use super::*;
    use crate::snapshot::manifest::Contents;

    #[test]
    fn a_part_that_has_a_file_is_dropped() {
        let (part, mut written) = (Arc::new(Nothing), WrittenParts::default());
        drop(written.file_of(Arc::clone(&part)).unwrap_err());
        let contents = Contents::from(Sealed { body_bytes: 1, file_bytes: 2, checksum: 3 });
        let file = PartFile { number: 1, contents };
        written.add(Arc::clone(&part), file);
        assert_eq!(written.file_of(Arc::clone(&part)).unwrap(), file);
        assert_eq!(Arc::strong_count(&part), 1);
    }

    #[derive(Debug)]
    struct Nothing;

    impl Part for Nothing {
        const KIND: PartKind = PartKind::Table;

        fn write(&self, _: &mut dyn Write) -> io::Result<()> {
            Ok(())
        }

        fn read(_: &mut dyn Read, _: &Plans) -> io::Result<Self> {
            Ok(Self)
        }
    }
}
