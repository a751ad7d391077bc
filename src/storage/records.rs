//! The readers of the journal: any record by its sequence, from any thread, beside the writer.
//!
//! The list of files is published behind an atomic pointer, so a read takes no lock but the short
//! one on the sparse index of its file. Nothing is cached: every read goes to the file (which the
//! page cache of the system holds) and verifies header and payload again.

use std::sync::{Arc, PoisonError, RwLock};

use arc_swap::ArcSwap;

use super::frame::{BadFrame, Decoded, FRAME_HEADER_BYTES, decode, decode_header};
use super::header::{JOURNAL_HEADER_BYTES, Seed};
use super::index::{STRIDE_BYTES, SparseIndex};
use super::window::Window;
use super::{Damage, DiskFile, StorageError};

/// One read covers the distance of two index entries and a usual record behind it.
const READ_BYTES: usize = STRIDE_BYTES as usize + 1024;

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

/// The size of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Number of files.
    pub files: u64,
    /// Their bytes together; of a file not read since the start, its length then.
    pub bytes: u64,
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
}

/// One file of the journal, as readers see it.
#[derive(Debug)]
pub(super) struct JournalFile {
    pub(super) name: String,
    pub(super) first: u64,
    pub(super) file: Arc<dyn DiskFile>,
    /// Its length when it was opened.
    pub(super) bytes: u64,
    /// `None` until the first read of a file that recovery did not scan.
    pub(super) index: RwLock<Option<SparseIndex>>,
}

impl Records {
    pub(super) fn new(seed: Seed, files: Vec<Arc<JournalFile>>) -> Self {
        let files = ArcSwap::from_pointee(files);
        Self { shared: Arc::new(Shared { seed, files }) }
    }

    /// Publishes a new live file. Called by the one writer.
    pub(super) fn publish(&self, file: Arc<JournalFile>) {
        let mut files = Vec::clone(&self.shared.files.load());
        files.push(file);
        self.shared.files.store(Arc::new(files));
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
        Extent { files: files.len() as u64, bytes: files.iter().map(|file| file.length()).sum() }
    }
}

impl JournalFile {
    /// Changes the index of the live file.
    pub(super) fn extend(&self, extend: impl FnOnce(&mut SparseIndex)) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        extend(index.get_or_insert_with(|| SparseIndex::new(self.first)));
    }

    /// The range of bytes that nothing on disk proves durable when `claimed` is what the frames
    /// say, rounded down to an index entry. The last record is always in it, for the seal behind it.
    pub(super) fn unproven(&self, claimed: u64) -> (u64, u64) {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let Some(index) = index.as_ref() else {
            return (0, self.bytes);
        };
        let sequence = claimed.saturating_add(1).min(index.next.saturating_sub(1));
        let start = index.locate(sequence);
        (start.unwrap_or(JOURNAL_HEADER_BYTES as u64), index.end)
    }

    fn length(&self) -> u64 {
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
            None => SparseIndex::build(&*self.file, &self.name, self.first, seed)?,
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
