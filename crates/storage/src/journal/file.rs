//! One file of the journal, as its readers see it.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::disk::{Disk, DiskFile};
use crate::error::{BadFrame, Damage, StorageError};
use crate::frame::{FRAME_HEADER_BYTES, FrameHeader, RecordRef, StoredRecord, decode_header};
use crate::header::Seed;
use crate::journal::header::{JOURNAL_HEADER_BYTES, RecordHeader};
use crate::journal::index::{STRIDE_BYTES, SparseIndex};
use crate::journal::index_file;
use crate::sizes::Sizes;
use crate::window::{FileWindow, ReadFrom};

/// One read covers the distance of two index entries and a usual record after it.
const READ_BYTES: usize = STRIDE_BYTES as usize + 1024;
/// The size of the reads of a whole file.
const WALK_BYTES: usize = 256 << 10;

/// A journal file or a pack.
#[derive(Debug)]
pub(crate) struct JournalFile {
    pub(crate) name: String,
    pub(crate) header: RecordHeader,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Its length when it was opened.
    pub(crate) bytes: u64,
    /// `None` until the first read of a file that recovery did not read.
    index: RwLock<Option<SparseIndex>>,
    /// Whether an index file has it.
    is_index_saved: AtomicBool,
}

/// What a pass over a whole file leaves.
#[derive(Debug)]
pub(crate) struct Walked {
    /// The chain value of the last frame.
    pub(crate) chain: u64,
    pub(crate) index: SparseIndex,
}

impl JournalFile {
    pub(crate) fn new(
        name: String,
        header: RecordHeader,
        file: Arc<dyn DiskFile>,
        bytes: u64,
    ) -> Self {
        let (index, is_index_saved) = (RwLock::new(None), AtomicBool::new(false));
        Self { name, header, file, bytes, index, is_index_saved }
    }

    pub(crate) fn set_index(&mut self, mut index: SparseIndex) {
        index.shrink();
        self.index = RwLock::new(Some(index));
    }

    /// Its first sequence.
    pub(crate) fn first(&self) -> u64 {
        self.header.first
    }

    pub(crate) fn is_pack(&self) -> bool {
        self.header.pack.is_some()
    }

    /// The length up to which records can be read, in bytes.
    pub(crate) fn length(&self) -> u64 {
        self.with_index(|index| index.map_or(self.bytes, |index| index.end))
    }

    /// How many changes have a record in it; `next` is the first sequence of the next file.
    pub(crate) fn changes(&self, next: Option<u64>) -> u64 {
        let written = self.with_index(|index| index.map_or(self.first(), |index| index.next));
        match self.header.pack {
            Some(pack) => pack.changes,
            None => next.unwrap_or(written).saturating_sub(self.first()),
        }
    }

    /// Adds the sizes of its records.
    pub(crate) fn add_sizes(&self, sizes: &mut Sizes) {
        self.with_index(|index| match index {
            Some(index) => sizes.merge(&index.sizes),
            None => sizes.add_unread(self.bytes),
        });
    }

    /// The range of bytes that nothing on disk proves durable if `claimed` is the last sequence
    /// that a frame calls durable; it begins at an index entry. It includes the last record, to
    /// which the next seal will refer.
    pub(crate) fn unproven(&self, claimed: u64) -> Range<u64> {
        self.with_index(|index| {
            let Some(index) = index else { return 0..self.bytes };
            let sequence = claimed.saturating_add(1).min(index.next.saturating_sub(1));
            let start = index.locate(sequence);
            start.unwrap_or(JOURNAL_HEADER_BYTES as u64)..index.end
        })
    }

    /// The index of this file before its first frame.
    pub(crate) fn empty_index(&self) -> SparseIndex {
        SparseIndex::new(self.first(), self.header.bytes())
    }

    pub(crate) fn extend(&self, extend: impl FnOnce(&mut SparseIndex)) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        extend(index.get_or_insert_with(|| self.empty_index()));
    }

    /// The index, unless an index file has it or it is not in memory.
    pub(crate) fn unsaved_index(&self) -> Option<SparseIndex> {
        if self.is_index_saved.load(Ordering::Relaxed) {
            return None;
        }
        self.index.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says that an index file has the index.
    pub(crate) fn set_index_saved(&self) {
        self.is_index_saved.store(true, Ordering::Relaxed);
    }

    fn with_index<T>(&self, read: impl FnOnce(Option<&SparseIndex>) -> T) -> T {
        read(self.index.read().unwrap_or_else(PoisonError::into_inner).as_ref())
    }

    /// Visits every record of a closed file, which ends before `next`, each verified.
    ///
    /// # Errors
    /// [`StorageError::Damaged`], [`StorageError::Io`], and errors of `visit`.
    pub(crate) fn walk(
        &self,
        next: u64,
        seed: Seed,
        visit: &mut dyn FnMut(RecordRef<'_>) -> Result<(), StorageError>,
    ) -> Result<Walked, StorageError> {
        let mut index = self.empty_index();
        let length = self.file.len()?;
        let mut window = FileWindow::new(&*self.file, WALK_BYTES);
        let mut chain = None;
        let mut changes = 0;
        while index.end < length {
            let bad = |why| self.damaged(index.end, index.next, why);
            let frame = window.frame(index.end, seed)?.map_err(|why| bad(Damage::Frame(why)))?;
            let is_chained = chain.is_none_or(|chain| chain == frame.header.chain);
            if !is_chained || !self.continues(index.next, frame.header.sequence) {
                return Err(bad(Damage::Chain));
            }
            if let Some(record) = frame.record() {
                changes += u64::from(record.count);
                visit(record)?;
            }
            chain = Some(frame.chain);
            index.push(&frame.header);
        }
        if index.next != next {
            return Err(self.damaged(index.end, index.next, Damage::EndsEarly));
        }
        if self.header.pack.is_some_and(|pack| pack.changes != changes) {
            return Err(self.damaged(0, self.first(), Damage::Changes));
        }
        Ok(Walked { chain: chain.unwrap_or_default(), index })
    }

    /// The record that covers `sequence`. `next_file` is the first sequence of the next file.
    pub(crate) fn read(
        &self,
        disk: &dyn Disk,
        (sequence, next_file): (u64, Option<u64>),
        seed: Seed,
        read_from: ReadFrom,
    ) -> Result<StoredRecord, StorageError> {
        let mut offset = match read_from {
            ReadFrom::Disk => self.locate(disk, (sequence, next_file), seed)?,
            ReadFrom::Memory => self.locate_in_memory(sequence, next_file)?,
        };
        let mut window = FileWindow::new(&*self.file, READ_BYTES).from(read_from);
        let bad = |offset, why| self.damaged(offset, sequence, Damage::Frame(why));
        loop {
            let bytes = window.at(offset, FRAME_HEADER_BYTES)?;
            let header = decode_header(bytes, seed).map_err(|why| bad(offset, why))?;
            if header.sequence > sequence {
                return Err(if self.is_pack() {
                    StorageError::Reclaimed { sequence }
                } else {
                    self.damaged(offset, sequence, Damage::Chain)
                });
            }
            if header.next_sequence() > sequence {
                let frame = window.frame(offset, seed)?.map_err(|why| bad(offset, why))?;
                let (first, count) = (header.sequence, header.count);
                return Ok(StoredRecord { first, count, payload: frame.payload.to_vec() });
            }
            offset = offset.saturating_add(header.frame_bytes() as u64);
        }
    }

    /// The offset of a frame at or shortly before the record of `sequence`. Loads or builds the
    /// index if there is none in memory.
    fn locate(
        &self,
        disk: &dyn Disk,
        (sequence, next_file): (u64, Option<u64>),
        seed: Seed,
    ) -> Result<u64, StorageError> {
        let located =
            self.with_index(|index| index.map(|index| self.locate_in(index, sequence, next_file)));
        if let Some(located) = located {
            return located;
        }
        let mut slot = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let index = match slot.take() {
            Some(built_meanwhile) => built_meanwhile,
            None => self.load_index(disk, seed)?,
        };
        self.locate_in(slot.insert(index), sequence, next_file)
    }

    /// The same, if there is an index that nobody writes now.
    fn locate_in_memory(&self, sequence: u64, next_file: Option<u64>) -> Result<u64, StorageError> {
        let Ok(index) = self.index.try_read() else { return Err(StorageError::NotInMemory) };
        let index = index.as_ref().ok_or(StorageError::NotInMemory)?;
        self.locate_in(index, sequence, next_file)
    }

    fn locate_in(
        &self,
        index: &SparseIndex,
        sequence: u64,
        next_file: Option<u64>,
    ) -> Result<u64, StorageError> {
        let is_whole = next_file.is_none_or(|next| next == index.next);
        match (index.locate(sequence), next_file) {
            (Some(offset), _) => Ok(offset),
            // A pack has no record before its first or after its last one.
            (None, _) if self.is_pack() && is_whole => Err(StorageError::Reclaimed { sequence }),
            (None, None) => {
                Err(StorageError::NoRecord { sequence, last: index.next.saturating_sub(1) })
            }
            // The next file begins later, so this one once had the sequence.
            (None, Some(_)) => Err(self.damaged(index.end, index.next, Damage::EndsEarly)),
        }
    }

    /// The index of a closed file, by its index file or else by its frame headers.
    fn load_index(&self, disk: &dyn Disk, seed: Seed) -> Result<SparseIndex, StorageError> {
        match index_file::read(disk, self) {
            Some(saved) => {
                self.set_index_saved();
                Ok(saved)
            }
            None => self.build_index(seed),
        }
    }

    /// Builds the index of a closed file from its frame headers. The payloads are verified when
    /// they are read.
    ///
    /// Cost: one sequential read of the headers (of the whole file if records are small).
    fn build_index(&self, seed: Seed) -> Result<SparseIndex, StorageError> {
        let mut index = self.empty_index();
        let length = self.file.len()?;
        let mut window = FileWindow::new(&*self.file, WALK_BYTES);
        while index.end < length {
            let header = decode_header(window.at(index.end, FRAME_HEADER_BYTES)?, seed)
                .map_err(Damage::Frame)
                .and_then(|header| self.check_next(&index, &header, length).map(|()| header))
                .map_err(|why| self.damaged(index.end, index.next, why))?;
            index.push(&header);
        }
        index.shrink();
        Ok(index)
    }

    fn check_next(
        &self,
        index: &SparseIndex,
        header: &FrameHeader,
        length: u64,
    ) -> Result<(), Damage> {
        if !self.continues(index.next, header.sequence) {
            return Err(Damage::Chain);
        }
        if index.end.saturating_add(header.frame_bytes() as u64) > length {
            return Err(Damage::Frame(BadFrame::Short));
        }
        Ok(())
    }

    /// Whether a frame with this sequence may come where `next` is the smallest possible.
    fn continues(&self, next: u64, sequence: u64) -> bool {
        if self.is_pack() { sequence >= next } else { sequence == next }
    }

    fn damaged(&self, offset: u64, sequence: u64, why: Damage) -> StorageError {
        StorageError::damaged(&self.name, offset, sequence, why)
    }
}
