//! Which segments and tables are in memory, and which in their files.
//!
//! The largest leave memory first, once they have a file. A start reads the others.

use std::cmp::Reverse;
use std::io::{BufReader, Read as _};
use std::sync::Arc;

use nearprint_index::compaction::built::Built;
use nearprint_index::levels::segment::Segment;
use nearprint_index::memory::file::catch_unreadable;
use nearprint_index::tables::secondary::SecondaryTable;
use nearprint_index::view::View;
use nearprint_storage::StorageError;

use crate::api::error::storage_error;
use crate::snapshot::files::PartPages;
use crate::snapshot::manifest::{Manifest, PartFile};
use crate::snapshot::parts::{Part, PlacedPart};
use crate::snapshot::snapshots::{Snapshots, invalid};

/// A segment or table in memory whose large arrays can be in a file.
#[derive(Debug, Clone)]
pub(crate) enum Movable {
    Segment(Arc<Segment>),
    Table(SecondaryTable),
}

impl Movable {
    /// All that a view has in memory, the largest first. Small segments are soon merged into
    /// others.
    pub(crate) fn in_memory(view: &View) -> Vec<Self> {
        let is_movable = |segment: &&Arc<Segment>| {
            !segment.sorted().is_small() && !segment.sorted().is_empty() && !segment.is_in_files()
        };
        let segments = view.segments().iter().filter(is_movable).cloned().map(Self::Segment);
        let tables = view.secondary_tables().iter().filter(|t| t.table.file_bytes() == 0);
        let mut all: Vec<Self> = segments.chain(tables.cloned().map(Self::Table)).collect();
        all.sort_by_key(|movable| Reverse(movable.bytes()));
        all
    }

    /// All that a view has in temporary files.
    pub(crate) fn in_temporary_files(view: &View) -> Vec<Self> {
        let segments = view.segments().iter().filter(|segment| segment.is_temporary());
        let tables = view.secondary_tables().iter().filter(|other| other.table.is_temporary());
        let segments = segments.cloned().map(Self::Segment);
        segments.chain(tables.cloned().map(Self::Table)).collect()
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Segment(segment) => segment.bytes().total(),
            Self::Table(other) => other.table.bytes() as u64,
        }
    }
}

impl Snapshots {
    /// A part of the view in its file, in place of the one in memory; `None` if it has no file.
    ///
    /// # Errors
    /// [`StorageError`].
    pub(crate) fn moved(&mut self, movable: &Movable) -> Result<Option<Built>, StorageError> {
        Ok(match movable {
            Movable::Segment(segment) => self.moved_part(segment)?.map(|moved| Built::Segments {
                from: vec![Arc::clone(segment)],
                into: vec![moved],
                secondary_tables: Vec::new(),
                dropped: 0,
            }),
            Movable::Table(other) => self.moved_part(&other.table)?.map(|table| Built::Tables {
                from: vec![other.clone()],
                into: vec![SecondaryTable { table, cleaned_at: other.cleaned_at }],
            }),
        })
    }

    fn moved_part<T: PlacedPart>(&mut self, part: &Arc<T>) -> Result<Option<Arc<T>>, StorageError> {
        let Some(file) = self.written.known(part) else { return Ok(None) };
        // If that fails, the next snapshot writes it anew.
        let moved = self.open_part(file).inspect_err(|_| self.written.forget(part))?;
        if let Some(moved) = &moved {
            self.written.add(Arc::clone(moved), file);
        }
        Ok(moved)
    }

    /// Remembers the file of a part that was loaded, if its large arrays can stay there.
    pub(super) fn know<T: Part>(&mut self, (part, in_pages): &(Arc<T>, bool), file: PartFile) {
        if *in_pages {
            self.written.add(Arc::clone(part), file);
        }
    }

    /// A part of a snapshot, in its file if that is wanted and possible; and whether it is
    /// possible.
    ///
    /// # Errors
    /// [`StorageError`].
    pub(super) fn place<T: PlacedPart>(
        &self,
        file: PartFile,
        in_files: &[u64],
    ) -> Result<(Arc<T>, bool), StorageError> {
        if in_files.contains(&file.number)
            && let Some(part) = self.open_part(file)?
        {
            return Ok((part, true));
        }
        let (part, in_pages) = self.read_part(file)?;
        Ok((part, in_pages))
    }

    /// Reads a part into memory; also returns whether its file is in pages.
    pub(super) fn read_part<T: Part>(
        &self,
        file: PartFile,
    ) -> Result<(Arc<T>, bool), StorageError> {
        let name = T::KIND.name(file.number);
        let read = |error| StorageError::from_io(error, "read", &name);
        let reader = self.open(&name, T::KIND.file_kind(), file.contents)?;
        let (in_pages, mut reader) = (reader.is_in_pages(), BufReader::new(reader));
        let part = T::read(&mut reader, &self.plans).map_err(read)?;
        // The end verifies the whole file.
        if reader.read(&mut [0]).map_err(read)? > 0 {
            return Err(invalid("the file has a tail", "read", &name));
        }
        Ok((Arc::new(part), in_pages))
    }

    /// Opens a part in its file; `None` if the file is not in pages.
    ///
    /// # Errors
    /// [`StorageError`].
    pub(super) fn open_part<T: PlacedPart>(
        &self,
        file: PartFile,
    ) -> Result<Option<Arc<T>>, StorageError> {
        let name = T::KIND.name(file.number);
        let reader = self.open(&name, T::KIND.file_kind(), file.contents)?;
        let Some(pages) = reader.into_pages() else { return Ok(None) };
        let opened = catch_unreadable(|| {
            T::open(Arc::new(PartPages { pages, is_temporary: false }), &self.plans)
        });
        opened.and_then(|opened| opened).map(|part| Some(Arc::new(part))).map_err(storage_error)
    }
}

/// The numbers of the parts of a snapshot that stay in their files: the largest, until the rest
/// takes at most so many bytes of memory, if that is not 0.
pub(super) fn in_files(manifest: &Manifest, memory_bytes_max: u64) -> Vec<u64> {
    let tables = manifest.tables.iter().map(|table| table.file);
    let mut parts: Vec<PartFile> = manifest.segments.iter().copied().chain(tables).collect();
    parts.sort_by_key(|part| Reverse(part.contents.bytes));
    let mut left: u64 = parts.iter().map(|part| part.contents.bytes).sum();
    let stays = |part: &&PartFile| {
        let stays = memory_bytes_max > 0 && left > memory_bytes_max;
        left -= part.contents.bytes;
        stays
    };
    parts.iter().take_while(stays).map(|part| part.number).collect()
}
