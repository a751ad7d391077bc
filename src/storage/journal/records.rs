//! The readers of the journal: any record by its sequence, from any thread, beside the writer.
//!
//! The list of files is published behind an atomic pointer, so a read takes no lock but the short
//! one on the sparse index of its file. Nothing is cached: every read goes to the file (which the
//! page cache of the system holds) and verifies header and payload again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use arc_swap::ArcSwap;

use crate::storage::export::ExportFile;
use crate::storage::header::{JOURNAL_HEADER_BYTES, Seed};
use crate::storage::journal::frame::{
    BadFrame, Decoded, FRAME_HEADER_BYTES, FrameHeader, decode, decode_header,
};
use crate::storage::journal::index::{STRIDE_BYTES, SparseIndex};
use crate::storage::journal::pack::PackHeader;
use crate::storage::journal::scan::RecordRef;
use crate::storage::journal::window::Window;
use crate::storage::{Damage, DiskFile, StorageError};

/// One read covers the distance of two index entries and a usual record behind it.
const READ_BYTES: usize = STRIDE_BYTES as usize + 1024;
/// A file is walked over with reads of this size.
const WALK_BYTES: usize = 256 << 10;

/// A record read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The sequence of its first change.
    pub first: u64,
    /// How many consecutive changes it stands for, at least 1.
    pub count: u32,
    /// The bytes as they were appended.
    pub payload: Vec<u8>,
}

/// The size of the journal, packs included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// Number of files.
    pub files: u64,
    /// How many of them are packs.
    pub packs: u64,
    /// Their bytes together; of a file not read since the start, its length then.
    pub bytes: u64,
    /// How many changes have a record in them.
    pub changes: u64,
}

/// Reads flushed records by sequence, from any thread, beside the writer. Cloning is shallow.
///
/// ```
/// use std::sync::Arc;
/// use nearprint::storage::{Identity, Journal, JournalOptions, SimulatedDisk, scan};
/// let (disk, identity) = (Arc::new(SimulatedDisk::new()), Identity::new([7; 16], "np1"));
/// let tail = scan(&*disk, &identity, 0, &mut |_| ())?;
/// let options = JournalOptions { file_bytes: 64 << 20 };
/// let mut journal = Journal::open(disk, identity, tail, options)?;
/// let first = journal.append(b"three changes", 3)?;
/// journal.sync()?;
/// assert_eq!(journal.records().read(first + 2)?.payload, b"three changes");
/// # Ok::<(), nearprint::storage::StorageError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Records {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    seed: Seed,
    /// By first sequence, ascending; the last one is being written.
    files: ArcSwap<Vec<Arc<JournalFile>>>,
    /// The longest frame that this process has written, in bytes for each of its changes.
    longest: Arc<AtomicU64>,
}

/// One file of the journal, as readers see it.
#[derive(Debug)]
pub(crate) struct JournalFile {
    pub(crate) name: String,
    pub(crate) first: u64,
    pub(crate) file: Arc<dyn DiskFile>,
    /// Its length when it was opened.
    pub(crate) bytes: u64,
    /// `None` until the first read of a file that recovery did not scan.
    pub(crate) index: RwLock<Option<SparseIndex>>,
    /// What it says about itself when it is a pack.
    pub(crate) pack: Option<PackHeader>,
}

/// A closed file with the range of sequences that it stands for.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) file: Arc<JournalFile>,
    /// The sequence after its range.
    pub(crate) next: u64,
}

impl Records {
    pub(crate) fn new(seed: Seed, files: Vec<Arc<JournalFile>>) -> Self {
        let files = ArcSwap::from_pointee(files);
        Self { shared: Arc::new(Shared { seed, files, longest: Arc::default() }) }
    }

    /// Publishes a new live file. Called by the one writer.
    pub(crate) fn publish(&self, file: &Arc<JournalFile>) {
        self.shared.files.rcu(|files| {
            let mut files = Vec::clone(files);
            files.push(Arc::clone(file));
            files
        });
    }

    /// Publishes a pack in the place of the files with the sequences of its range.
    pub(crate) fn replace(&self, pack: &Arc<JournalFile>, next: u64) {
        self.shared.files.rcu(|files| {
            let start = files.partition_point(|file| file.first < pack.first);
            let end = files.partition_point(|file| file.first < next);
            let mut files = Vec::clone(files);
            files.splice(start..end, [Arc::clone(pack)]);
            files
        });
    }

    /// The closed files with a range within `from` to before `next`, oldest first.
    pub(crate) fn closed_pieces(&self, from: u64, next: u64) -> Vec<Piece> {
        let files = self.shared.files.load();
        let pieces = files.windows(2).filter_map(|pair| match pair {
            [file, after] => Some(Piece { file: Arc::clone(file), next: after.first }),
            _ => None,
        });
        pieces.filter(|piece| piece.file.first >= from && piece.next <= next).collect()
    }

    /// All files as they are now, oldest first, each as far as its records are flushed.
    pub fn files(&self) -> Vec<ExportFile> {
        let files = self.shared.files.load();
        let whole = |file: &Arc<JournalFile>| ExportFile {
            name: file.name.clone(),
            file: Arc::clone(&file.file),
            bytes: file.length(),
        };
        files.iter().map(whole).collect()
    }

    /// The bytes of all files with records behind a sequence.
    pub fn bytes_after(&self, sequence: u64) -> u64 {
        let files = self.shared.files.load();
        let held = files.partition_point(|file| file.first <= sequence.saturating_add(1));
        files.iter().skip(held.saturating_sub(1)).map(|file| file.length()).sum()
    }

    /// The bytes of the longest frame written since the journal was opened, for each of its changes.
    pub fn longest_written(&self) -> u64 {
        self.shared.longest.load(Ordering::Relaxed)
    }

    /// Notes the length of a frame that was written.
    pub(crate) fn note_length(&self, header: &FrameHeader) {
        let each = (header.frame_bytes() as u64).div_ceil(u64::from(header.count.max(1)));
        self.shared.longest.fetch_max(each, Ordering::Relaxed);
    }

    pub(crate) fn seed(&self) -> Seed {
        self.shared.seed
    }

    /// The same records, of which none that can be read now is ever given back: for a reader who
    /// holds a state of the same moment. What is flushed later can be read as well, until the file
    /// that is written to now is closed.
    #[must_use]
    pub fn pin(&self) -> Self {
        let files = ArcSwap::new(self.shared.files.load_full());
        let Shared { seed, longest, .. } = &*self.shared;
        Self { shared: Arc::new(Shared { seed: *seed, files, longest: Arc::clone(longest) }) }
    }

    /// The record that covers `sequence`, its checksums verified now.
    ///
    /// Cost: one read of about 5 KiB from the page cache or the disk, a second one for a record
    /// longer than that; the first read of a file that recovery did not scan goes once over its
    /// headers.
    ///
    /// # Errors
    /// [`StorageError::NoRecord`], [`StorageError::Damaged`], [`StorageError::Io`].
    pub fn read(&self, sequence: u64) -> Result<Record, StorageError> {
        let files = self.shared.files.load();
        let after = files.partition_point(|file| file.first <= sequence);
        let Some(file) = after.checked_sub(1).and_then(|index| files.get(index)) else {
            let last = 0;
            return Err(StorageError::NoRecord { sequence, last });
        };
        let next_file = files.get(after).map(|next| next.first);
        let offset = file.locate(sequence, next_file, self.shared.seed)?;
        file.read(offset, sequence, self.shared.seed)
    }

    /// How many journal files there are, and their bytes together.
    pub fn extent(&self) -> Extent {
        let files = self.shared.files.load();
        let nexts = files.iter().skip(1).map(|file| Some(file.first)).chain([None]);
        Extent {
            files: files.len() as u64,
            packs: files.iter().filter(|file| file.pack.is_some()).count() as u64,
            bytes: files.iter().map(|file| file.length()).sum(),
            changes: files.iter().zip(nexts).map(|(file, next)| file.changes(next)).sum(),
        }
    }
}

impl JournalFile {
    /// Changes the index of the live file.
    pub(crate) fn extend(&self, extend: impl FnOnce(&mut SparseIndex)) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        extend(index.get_or_insert_with(|| self.empty_index()));
    }

    /// The index of this file before its first frame.
    pub(crate) fn empty_index(&self) -> SparseIndex {
        match &self.pack {
            Some(pack) => SparseIndex::of_pack(pack.first),
            None => SparseIndex::new(self.first),
        }
    }

    /// Whether a frame with this sequence may come where `next` is the smallest possible.
    pub(crate) fn continues(&self, next: u64, sequence: u64) -> bool {
        if self.pack.is_some() { sequence >= next } else { sequence == next }
    }

    /// Visits every record of a closed file, which ends before `next`, each verified; the chain
    /// value of the last frame.
    ///
    /// # Errors
    /// [`StorageError::Damaged`], [`StorageError::Io`], and what `visit` returns.
    pub(crate) fn walk(
        &self,
        next: u64,
        seed: Seed,
        visit: &mut dyn FnMut(RecordRef<'_>) -> Result<(), StorageError>,
    ) -> Result<u64, StorageError> {
        let mut index = self.empty_index();
        let length = self.file.len()?;
        let mut window = Window::new(&*self.file, WALK_BYTES);
        let mut chain = None;
        let mut changes = 0;
        while index.end < length {
            let bad = |why| self.damaged(index.end, index.next, why);
            let header = decode_header(window.at(index.end, FRAME_HEADER_BYTES)?, seed);
            let needed = header.map_or(FRAME_HEADER_BYTES, |header| header.frame_bytes());
            let frame = match decode(window.at(index.end, needed)?, seed) {
                Decoded::Complete(frame) => frame,
                Decoded::Incomplete { .. } => return Err(bad(Damage::Frame(BadFrame::Short))),
                Decoded::Bad(why) => return Err(bad(Damage::Frame(why))),
            };
            let header = frame.header;
            let chained = chain.is_none_or(|chain| chain == header.chain);
            if !chained || !self.continues(index.next, header.sequence) {
                return Err(bad(Damage::Chain));
            }
            if header.count > 0 {
                changes += u64::from(header.count);
                let (first, count) = (header.sequence, header.count);
                visit(RecordRef { first, count, payload: frame.payload })?;
            }
            chain = Some(frame.chain);
            index.push(&header);
        }
        if index.next != next {
            return Err(self.damaged(index.end, index.next, Damage::EndsEarly));
        }
        if self.pack.is_some_and(|pack| pack.changes != changes) {
            return Err(self.damaged(0, self.first, Damage::Changes));
        }
        Ok(chain.unwrap_or_default())
    }

    /// How many changes have a record in it; `next` is the first sequence of the file after it.
    fn changes(&self, next: Option<u64>) -> u64 {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let written = index.as_ref().map_or(self.first, |index| index.next);
        match &self.pack {
            Some(pack) => pack.changes,
            None => next.unwrap_or(written).saturating_sub(self.first),
        }
    }

    /// The range of bytes that nothing on disk proves durable when `claimed` is what the frames
    /// say, rounded down to an index entry. The last record is always in it, for the seal behind it.
    pub(crate) fn unproven(&self, claimed: u64) -> (u64, u64) {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let Some(index) = index.as_ref() else {
            return (0, self.bytes);
        };
        let sequence = claimed.saturating_add(1).min(index.next.saturating_sub(1));
        let start = index.locate(sequence);
        (start.unwrap_or(JOURNAL_HEADER_BYTES as u64), index.end)
    }

    pub(crate) fn length(&self) -> u64 {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.as_ref().map_or(self.bytes, |index| index.end)
    }

    /// Where to begin looking for `sequence`. `next_file` is the first sequence of the next file.
    fn locate(
        &self,
        sequence: u64,
        next_file: Option<u64>,
        seed: Seed,
    ) -> Result<u64, StorageError> {
        {
            let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(index) = index.as_ref() {
                return self.located(index, sequence, next_file);
            }
        }
        let mut slot = self.index.write().unwrap_or_else(PoisonError::into_inner);
        let index = match slot.take() {
            Some(built_meanwhile) => built_meanwhile,
            None => SparseIndex::build(self, seed)?,
        };
        self.located(slot.insert(index), sequence, next_file)
    }

    fn located(
        &self,
        index: &SparseIndex,
        sequence: u64,
        next_file: Option<u64>,
    ) -> Result<u64, StorageError> {
        match (index.locate(sequence), next_file) {
            (Some(offset), _) => Ok(offset),
            // Beyond the last entry of a whole pack, or before the first.
            (None, next) if self.pack.is_some() && next.is_none_or(|next| next == index.next) => {
                Err(StorageError::Reclaimed { sequence })
            }
            (None, None) => {
                Err(StorageError::NoRecord { sequence, last: index.next.saturating_sub(1) })
            }
            // The next file begins later, so this one once held the sequence.
            (None, Some(_)) => Err(self.damaged(index.end, index.next, Damage::EndsEarly)),
        }
    }

    /// Hops from the frame at `offset` to the record that covers `sequence`.
    fn read(&self, mut offset: u64, sequence: u64, seed: Seed) -> Result<Record, StorageError> {
        let mut window = Window::new(&*self.file, READ_BYTES);
        let bad = |offset, why| self.damaged(offset, sequence, Damage::Frame(why));
        loop {
            let bytes = window.at(offset, FRAME_HEADER_BYTES)?;
            let header = decode_header(bytes, seed).map_err(|why| bad(offset, why))?;
            if header.sequence > sequence && self.pack.is_some() {
                return Err(StorageError::Reclaimed { sequence });
            }
            if header.sequence > sequence {
                return Err(self.damaged(offset, sequence, Damage::Chain));
            }
            if header.next_sequence() <= sequence {
                offset = offset.saturating_add(header.frame_bytes() as u64);
                continue;
            }
            let bytes = window.at(offset, header.frame_bytes())?;
            match decode(bytes, seed) {
                Decoded::Complete(_) => {}
                Decoded::Incomplete { .. } => return Err(bad(offset, BadFrame::Short)),
                Decoded::Bad(why) => return Err(bad(offset, why)),
            }
            let payload_bytes = header.payload_bytes as usize;
            return Ok(Record {
                first: header.sequence,
                count: header.count,
                payload: window.into_bytes_from(offset, FRAME_HEADER_BYTES, payload_bytes),
            });
        }
    }

    fn damaged(&self, offset: u64, sequence: u64, why: Damage) -> StorageError {
        StorageError::Damaged { file: self.name.clone(), offset, sequence, why }
    }
}
