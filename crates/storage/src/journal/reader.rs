//! The readers of the journal: any record by its sequence, from any thread, while the writer
//! writes.
//!
//! The list of files is published behind an atomic pointer, so a read takes no lock except,
//! briefly, that of the sparse index of its file. Nothing is cached: every read goes to the file
//! (which the operating system caches) and verifies header and payload again.

use std::ops::{Deref, Range};
use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::disk::{Disk, ExportFile};
use crate::error::StorageError;
use crate::frame::StoredRecord;
use crate::header::Seed;
use crate::journal::file::JournalFile;
use crate::journal::index_file;
use crate::names::record_range;
use crate::sizes::Sizes;
use crate::window::ReadFrom;

/// The size of the journal, packs included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    pub files: u64,
    /// How many of them are packs.
    pub packs: u64,
    /// The bytes of all files. A file not read since the start counts with its length at the start.
    pub bytes: u64,
    /// How many changes have a record in them.
    pub changes: u64,
}

/// Reads flushed records by sequence, from any thread. Cloning is shallow.
///
/// ```
/// use std::sync::Arc;
/// use nearprint_storage::{Identity, Journal, RealDisk, scan};
/// # let directory = tempfile::tempdir()?;
/// let disk = Arc::new(RealDisk::open(directory.path())?);
/// let identity = Identity::new([7; 16], "np2");
/// let tail = scan(&*disk, &identity, 0, &mut |_| ())?;
/// let mut journal = Journal::open(disk, identity, tail, 64 << 20)?;
/// let first = journal.append(b"three changes", 3)?;
/// journal.sync()?;
/// assert_eq!(journal.records().read(first + 2)?.payload, b"three changes");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Records {
    shared: Arc<Shared>,
    read_from: ReadFrom,
}

#[derive(Debug)]
struct Shared {
    disk: Arc<dyn Disk>,
    seed: Seed,
    files: ArcSwap<Files>,
}

/// All files, by first sequence, ascending; the writer writes to the last one.
#[derive(Debug)]
struct Files {
    files: Vec<Arc<JournalFile>>,
    /// Of those before the last one, which do not change.
    closed: Extent,
}

impl Files {
    /// Waits for readers that load an index, so the writer does not call it.
    fn new(files: Vec<Arc<JournalFile>>) -> Self {
        let closed = files.windows(2).fold(Extent::default(), |closed, pair| match pair {
            [file, after] => closed.with(file, Some(after.first())),
            _ => closed,
        });
        Self { files, closed }
    }

    /// With a new last file.
    fn with(&self, file: &Arc<JournalFile>) -> Self {
        let last = self.files.last();
        let closed = last.map_or(self.closed, |last| self.closed.with(last, Some(file.first())));
        let mut files = self.files.clone();
        files.push(Arc::clone(file));
        Self { files, closed }
    }
}

impl Deref for Files {
    type Target = [Arc<JournalFile>];

    fn deref(&self) -> &Self::Target {
        &self.files
    }
}

impl Extent {
    /// With a file that ends before `next` (`None` for the last one).
    fn with(self, file: &JournalFile, next: Option<u64>) -> Self {
        Self {
            files: self.files + 1,
            packs: self.packs + u64::from(file.is_pack()),
            bytes: self.bytes + file.length(),
            changes: self.changes + file.changes(next),
        }
    }
}

/// A closed file with the range of sequences that it stands for.
#[derive(Debug, Clone)]
pub(crate) struct ClosedFile {
    pub(crate) file: Arc<JournalFile>,
    /// The sequence after its range.
    pub(crate) next: u64,
}

impl Records {
    pub(crate) fn new(disk: Arc<dyn Disk>, seed: Seed, files: Vec<Arc<JournalFile>>) -> Self {
        let files = ArcSwap::from_pointee(Files::new(files));
        Self { shared: Arc::new(Shared { disk, seed, files }), read_from: ReadFrom::Disk }
    }

    /// The same records for a caller that must not wait: each read fails with
    /// [`StorageError::NotInMemory`] unless the operating system has the bytes in memory.
    #[must_use]
    pub fn in_memory(&self) -> Self {
        Self { read_from: ReadFrom::Memory, ..self.clone() }
    }

    /// The same records, which are read from the disk unless they are in memory.
    #[must_use]
    pub fn on_disk(&self) -> Self {
        Self { read_from: ReadFrom::Disk, ..self.clone() }
    }

    /// Publishes a new live file. Called by the writer only.
    pub(crate) fn publish(&self, file: &Arc<JournalFile>) {
        self.shared.files.rcu(|files| files.with(file));
    }

    /// Publishes a pack in place of the files with the sequences of its range.
    pub(crate) fn replace(&self, pack: &Arc<JournalFile>, next: u64) {
        self.shared.files.rcu(|files| {
            let start = files.partition_point(|file| file.first() < pack.first());
            let end = files.partition_point(|file| file.first() < next);
            let mut files = files.to_vec();
            files.splice(start..end, [Arc::clone(pack)]);
            Files::new(files)
        });
    }

    /// The closed files whose ranges lie between `from` and `next` (exclusive), oldest first.
    pub(crate) fn closed_files(&self, from: u64, next: u64) -> Vec<ClosedFile> {
        let files = self.shared.files.load();
        let closed = files.windows(2).filter_map(|pair| match pair {
            [file, after] => Some(ClosedFile { file: Arc::clone(file), next: after.first() }),
            _ => None,
        });
        closed.filter(|closed| closed.file.first() >= from && closed.next <= next).collect()
    }

    /// All files as they are now, oldest first, each up to its last flushed record.
    pub fn files(&self) -> Vec<ExportFile> {
        let files = self.shared.files.load();
        let flushed = |file: &Arc<JournalFile>| ExportFile {
            name: file.name.clone(),
            file: Arc::clone(&file.file),
            bytes: file.length(),
        };
        files.iter().map(flushed).collect()
    }

    /// The bytes of all files that have records after `sequence`.
    pub fn bytes_after(&self, sequence: u64) -> u64 {
        let files = self.shared.files.load();
        let begun = files.partition_point(|file| file.first() <= sequence.saturating_add(1));
        files.iter().skip(begun.saturating_sub(1)).map(|file| file.length()).sum()
    }

    /// The bytes of the files that begin before `sequence`.
    pub fn bytes_before(&self, sequence: u64) -> u64 {
        let files = self.shared.files.load();
        let before = files.iter().take_while(|file| file.first() < sequence);
        before.map(|file| file.length()).sum()
    }

    /// The sizes of the records in the files that begin in a range of sequences.
    pub fn sizes(&self, range: Range<u64>) -> Sizes {
        let files = self.shared.files.load();
        let mut sizes = Sizes::default();
        for file in files.iter().filter(|file| range.contains(&file.first())) {
            file.add_sizes(&mut sizes);
        }
        sizes
    }

    /// The first sequence of the file in which `sequence` is or will be.
    pub fn file_of(&self, sequence: u64) -> u64 {
        let files = self.shared.files.load();
        let begun = files.iter().take_while(|file| file.first() <= sequence);
        begun.last().map_or(1, |file| file.first())
    }

    /// The first sequence after all packs; 1 without packs. A record before it may lack what was
    /// removed since.
    pub fn packed_before(&self) -> u64 {
        let files = self.shared.files.load();
        files.iter().filter_map(|file| record_range(&file.name)?.1).max().unwrap_or(1)
    }

    pub fn seed(&self) -> Seed {
        self.shared.seed
    }

    /// A reader that keeps every record readable that can be read now, for a caller with a view of
    /// the same moment. It also reads what is flushed later, until the live file is closed.
    #[must_use]
    pub fn pin(&self) -> Self {
        let (disk, seed) = (Arc::clone(&self.shared.disk), self.shared.seed);
        let files = ArcSwap::new(self.shared.files.load_full());
        Self { shared: Arc::new(Shared { disk, seed, files }), ..self.clone() }
    }

    /// The record that covers `sequence`, after its checksums were verified.
    ///
    /// Cost: one read of about 5 KiB from the page cache or the disk, and a second one for a longer
    /// record; the first read of a file that recovery did not read also reads its index file, or
    /// all its frame headers if there is none.
    ///
    /// # Errors
    /// [`StorageError::NoRecord`], [`StorageError::Reclaimed`], [`StorageError::Damaged`],
    /// [`StorageError::Io`], [`StorageError::NotInMemory`].
    pub fn read(&self, sequence: u64) -> Result<StoredRecord, StorageError> {
        let files = self.shared.files.load();
        let after = files.partition_point(|file| file.first() <= sequence);
        let Some(file) = after.checked_sub(1).and_then(|index| files.get(index)) else {
            return Err(StorageError::NoRecord { sequence, last: 0 });
        };
        let next = files.get(after).map(|next| next.first());
        file.read(&*self.shared.disk, (sequence, next), self.shared.seed, self.read_from)
    }

    /// Writes the sparse indexes of closed files to index files, for the next start, and removes
    /// the index files of record files that are gone. Only one thread may call it.
    ///
    /// Cost: writes a thousandth of the bytes of each file that was closed, or first read, since
    /// the last call.
    ///
    /// # Errors
    /// [`StorageError::Io`]; nothing but time is lost.
    pub fn save_indexes(&self) -> Result<(), StorageError> {
        index_file::save(&self.shared.disk, &self.shared.files.load())
    }

    /// The size of all files. Free: threads ask for it again and again.
    pub fn extent(&self) -> Extent {
        let files = self.shared.files.load();
        files.last().map_or(files.closed, |live| files.closed.with(live, None))
    }
}
