//! The engine (interface first; the inside is being written).

use std::path::PathBuf;

use crate::document::{Document, DocumentId, Sequence};
use crate::fingerprint::{Distance, Fingerprint};
use crate::machine::query::{Criteria, Hit};

/// The settings of the engine, checked (see [`crate::config`]).
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory.
    pub data: PathBuf,
    /// The recipe whose fingerprints the directory holds, such as `np1`.
    pub recipe: &'static str,
    /// The largest distance a look-up may ask for; fixed when the directory is created.
    pub distance_max: Distance,
    /// When an answer is given relative to the sync of the journal.
    pub durability: Durability,
    /// How many changes may wait for the writer.
    pub queue_changes_max: usize,
    /// At most this many changes share one sync.
    pub group_changes_max: usize,
    /// A journal file is closed when it reaches this size.
    pub journal_file_bytes: u64,
    /// A snapshot is taken when this much time passed since the last one and something changed.
    pub snapshot_interval_ms: u64,
    /// A snapshot is taken when this many changes were accepted since the last one.
    pub snapshot_changes: u64,
    /// Writes are refused above this much memory of the index; 0 is no limit.
    pub memory_bytes_max: u64,
    /// Writes are refused below this much free space of the disk.
    pub disk_free_bytes_min: u64,
}

/// When a write is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After its record is synced to disk (group commit).
    Always,
    /// After it is written; the journal is synced at least this often.
    Interval {
        /// The longest time between two syncs.
        ms: u64,
    },
    /// After it is written; the operating system decides when it reaches the disk.
    None,
}

/// A handle on the running engine; cloning is shallow.
#[derive(Debug, Clone)]
pub struct Engine {}

/// What a query may say besides its document.
#[derive(Debug, Clone, Copy)]
pub struct QueryOptions {
    /// What counts as a near-duplicate.
    pub criteria: Criteria,
    /// How many hits are listed, 1 to 1,000.
    pub limit: usize,
}

/// The answer of a look-up. Hits that count come first, then by distance, age, fingerprint.
#[derive(Debug, Clone, PartialEq)]
pub struct Findings {
    /// Whether a hit counts.
    pub duplicate: bool,
    /// The first `limit` hits.
    pub hits: Vec<Hit>,
    /// The true number of matching fingerprints.
    pub hit_count: usize,
}

/// What an accepted write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    /// Nothing near it was there (or nobody asked), and its id was new.
    Inserted,
    /// A near-duplicate of another document.
    Duplicate,
    /// This id with this fingerprint was there: a retry.
    AlreadyPresent,
    /// This id had another fingerprint; the new one took its place.
    Replaced,
}

/// The answer of a write.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// What happened.
    pub outcome: WriteOutcome,
    /// Whether the document is stored now.
    pub stored: bool,
    /// The number of the change, or of the last one before the verdict where nothing changed.
    pub sequence: Sequence,
    /// The hits (empty for a plain insert).
    pub findings: Findings,
}

/// The answer of a packed insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedInserted {
    /// How many fingerprints were stored.
    pub inserted: u64,
    /// The number of the last change.
    pub sequence: Sequence,
}

/// The answer of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// How many documents were forgotten.
    pub documents: u64,
    /// The number of the change, or of the last one where nothing was there to forget.
    pub sequence: Sequence,
}

/// What is stored under an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// The document.
    pub document: Document,
    /// The change that stored it.
    pub sequence: Sequence,
    /// When, in milliseconds since 1970.
    pub stored_at_ms: u64,
}

/// Whether a full queue refuses at once (single requests) or is waited for (batches).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Refuse with [`Refused::Overloaded`].
    Shed,
    /// Wait for a place.
    Wait,
}

/// Why the engine did not do what was asked. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The write queue is full.
    #[error("the write queue is full")]
    Overloaded,
    /// The engine is stopping.
    #[error("the service is stopping")]
    Stopping,
    /// A write or sync failed; the process must be restarted.
    #[error("storage failed and writes have stopped")]
    Failed,
    /// The disk has less room than the configured reserve.
    #[error("the disk is full")]
    DiskFull,
    /// The index has reached the configured memory limit.
    #[error("the memory limit is reached")]
    MemoryFull,
    /// A stored record could not be read or failed its checksum.
    #[error("a stored record could not be read")]
    Unreadable,
    /// The distance is above the maximum of this data directory.
    #[error("distance {asked} is above the maximum {max} of this data directory")]
    DistanceAboveMax {
        /// What was asked.
        asked: u8,
        /// What the directory was created with.
        max: u8,
    },
}

/// A write that has its place in the queue; awaiting it gives the answer, once durable.
#[derive(Debug)]
pub struct Pending<T> {
    answer: tokio::sync::oneshot::Receiver<Result<T, Refused>>,
}

impl<T> Pending<T> {
    /// Waits until the write is as durable as the policy promises.
    ///
    /// # Errors
    /// [`Refused`] when it was not done.
    pub async fn wait(self) -> Result<T, Refused> {
        self.answer.await.unwrap_or(Err(Refused::Failed))
    }
}

/// Whether writes are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Recovered and accepting writes.
    Ready,
    /// Stopping.
    Stopping,
    /// A write or sync failed.
    Failed,
    /// Reads go on; the disk is full.
    DiskFull,
    /// Reads go on; the memory limit is reached.
    MemoryFull,
}

/// One snapshot on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The last change it contains.
    pub sequence: Sequence,
    /// When it was taken, in milliseconds since 1970.
    pub taken_at_ms: u64,
    /// The size of its files together.
    pub bytes: u64,
    /// How many documents it holds.
    pub documents: u64,
}

/// The state of the engine in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// Stored documents.
    pub documents: u64,
    /// Distinct stored fingerprints.
    pub fingerprints: u64,
    /// The last accepted change.
    pub sequence: Sequence,
    /// The largest distance of a look-up.
    pub distance_max: Distance,
    /// The policy.
    pub durability: Durability,
    /// The recipe of the fingerprints.
    pub recipe: &'static str,
    /// Each segment of the index, oldest first.
    pub segments: Vec<SegmentStats>,
    /// Documents in the delta and in deltas waiting for their segment.
    pub delta_documents: u64,
    /// Memory by part, in bytes: (`tables`, `documents`, `ids`, `removals`, `delta`).
    pub memory: MemoryStats,
    /// Bytes of all journal files.
    pub journal_bytes: u64,
    /// Number of journal files.
    pub journal_files: u64,
    /// The newest snapshot.
    pub last_snapshot: Option<SnapshotInfo>,
}

/// One segment in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentStats {
    /// Its documents.
    pub documents: u64,
    /// Its distinct fingerprints.
    pub fingerprints: u64,
    /// Its memory in bytes.
    pub bytes: u64,
    /// Its table plan, such as `22r1+21r0+21r0` (key bits, radius).
    pub plan: String,
}

/// Memory of the index by part, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryStats {
    /// Sorted tables with their directories.
    pub tables: u64,
    /// Document numbers.
    pub documents: u64,
    /// The id index.
    pub ids: u64,
    /// Removals not yet merged away.
    pub removals: u64,
    /// Deltas.
    pub deltas: u64,
}

/// Why a data directory could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct OpenError {
    message: String,
}

impl Engine {
    /// Opens (or creates) the data directory, recovers, and starts the threads. Blocks.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong with the directory and what to do.
    pub fn open(options: Options) -> Result<Self, OpenError> {
        Err(OpenError {
            message: format!("{options:?}"),
        })
    }

    /// Looks up near-duplicates of a document; a stored document with its id is left out.
    ///
    /// # Errors
    /// [`Refused::DistanceAboveMax`], [`Refused::Unreadable`].
    pub async fn query(
        &self,
        document: &Document,
        options: QueryOptions,
    ) -> Result<Findings, Refused> {
        let _ = (document, options);
        Err(Refused::Failed)
    }

    /// The distance of the nearest stored fingerprint of each query, or 255 for none. CPU-bound:
    /// call it off the async threads for more than a few hundred queries.
    ///
    /// # Errors
    /// [`Refused::DistanceAboveMax`].
    pub fn nearest(&self, queries: &[Fingerprint], distance: Distance) -> Result<Vec<u8>, Refused> {
        let _ = (queries, distance);
        Err(Refused::Failed)
    }

    /// Stores a document whatever is there.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_insert(
        &self,
        document: Document,
        admission: Admission,
    ) -> Result<Pending<Written>, Refused> {
        let _ = (document, admission);
        Err(Refused::Failed)
    }

    /// Looks up and, if nothing counts (or `store_duplicates`), stores: one atomic step.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_check_and_insert(
        &self,
        document: Document,
        options: QueryOptions,
        store_duplicates: bool,
        admission: Admission,
    ) -> Result<Pending<Written>, Refused> {
        let _ = (document, options, store_duplicates, admission);
        Err(Refused::Failed)
    }

    /// Stores bare fingerprints.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_insert_packed(
        &self,
        fingerprints: Vec<Fingerprint>,
        admission: Admission,
    ) -> Result<Pending<PackedInserted>, Refused> {
        let _ = (fingerprints, admission);
        Err(Refused::Failed)
    }

    /// For each bare fingerprint in order: the distance of the nearest hit, or 255 and it is
    /// stored.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn begin_check_and_insert_packed(
        &self,
        fingerprints: Vec<Fingerprint>,
        distance: Distance,
        admission: Admission,
    ) -> Result<Pending<Vec<u8>>, Refused> {
        let _ = (fingerprints, distance, admission);
        Err(Refused::Failed)
    }

    /// Forgets the document with this id.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn remove(&self, id: DocumentId) -> Result<Removed, Refused> {
        let _ = id;
        Err(Refused::Failed)
    }

    /// Forgets a fingerprint with all its documents.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn remove_fingerprint(&self, fingerprint: Fingerprint) -> Result<Removed, Refused> {
        let _ = fingerprint;
        Err(Refused::Failed)
    }

    /// What is stored under an id.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn document(&self, id: &DocumentId) -> Result<Option<StoredDocument>, Refused> {
        let _ = id;
        Err(Refused::Failed)
    }

    /// The state in numbers.
    pub fn stats(&self) -> Stats {
        unreachable!("being written")
    }

    /// Takes a snapshot now; answers when it is on disk.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn snapshot(&self) -> Result<SnapshotInfo, Refused> {
        Err(Refused::Failed)
    }

    /// The snapshots on disk, newest first.
    pub fn snapshots(&self) -> Vec<SnapshotInfo> {
        Vec::new()
    }

    /// Whether writes are accepted, and if not, why.
    pub fn readiness(&self) -> Readiness {
        Readiness::Failed
    }

    /// Stops accepting writes, finishes those that have a place, syncs, takes a snapshot. Blocks.
    pub fn close(&self) {}

    /// Resolves when a fault has stopped writes for good: the process should exit non-zero.
    pub async fn failed(&self) {
        std::future::pending().await
    }
}
