//! The options and replies of the engine.

use nearprint_fingerprint::Distance;
use nearprint_fingerprint::recipe::Recipe;
use nearprint_machine::commands::Verdict;
use nearprint_machine::document::{Document, Namespace, Sequence};
use nearprint_machine::query::{Criteria, Hit};

use crate::api::options::Durability;

/// The options of a look-up.
#[derive(Debug, Clone, Copy)]
pub struct QueryOptions {
    /// What counts as a near-duplicate.
    pub criteria: Criteria,
    /// The maximum number of hits listed, 1 to 1,000.
    pub limit: usize,
    /// Whether hits show the metadata of their documents.
    pub with_metadata: bool,
}

/// What storing a document does about what is stored already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreOptions {
    /// A duplicate is stored nevertheless.
    pub store_duplicates: bool,
    /// The original of a duplicate is counted as such.
    pub touch: bool,
    /// A document whose id has its fingerprint already is stored anew even if it has neither an
    /// expiry nor metadata: that takes the expiry of the stored one off.
    pub renew: bool,
}

impl From<bool> for StoreOptions {
    /// Whether duplicates are stored; their originals are counted.
    fn from(store_duplicates: bool) -> Self {
        Self { store_duplicates, touch: true, renew: false }
    }
}

/// What packed fingerprints are looked up for.
#[derive(Debug, Clone)]
pub struct PackedQuery {
    /// The namespace to search; `None` is the default one.
    pub namespace: Option<Namespace>,
    /// What counts as near. Bare fingerprints have no sketches to verify.
    pub criteria: Criteria,
}

/// The reply of a look-up. Hits that count come first, then by distance, age, fingerprint.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// Whether one of the hits [counts](crate::Verification::counts).
    pub duplicate: bool,
    /// The first `limit` hits, or as many as fit in the bytes that the caller grants.
    pub hits: Vec<Hit>,
    /// The true number of fingerprints within the distance, and of those that a likely search has
    /// confirmed.
    pub hit_count: usize,
    /// Whether more hits would be listed if the caller had granted more bytes.
    pub is_cut: bool,
    /// The number of fingerprints with sketches that were not compared because there are too many.
    /// They do not count as duplicates.
    pub unverified: usize,
}

/// The reply of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// What happened to the document.
    pub verdict: Verdict,
    /// The number of the change; if nothing changed, of the last one before the verdict.
    pub sequence: Sequence,
}

/// The reply of a packed insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedInserted {
    /// The number of fingerprints stored.
    pub inserted: u64,
    /// The number of the last change.
    pub sequence: Sequence,
}

/// The reply of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// The number of documents removed.
    pub documents: u64,
    /// The number of the change; if there was nothing to remove, of the last one before.
    pub sequence: Sequence,
}

/// A document with the change and the time that stored it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// The document; without its metadata unless the caller wants it.
    pub document: Document,
    /// The change that stored it.
    pub sequence: Sequence,
    /// When, in milliseconds since 1970.
    pub stored_at_ms: u64,
}

/// How long a page of documents may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageOptions {
    /// The maximum number of documents.
    pub limit: usize,
    /// The maximum bytes of a reply. The first document is listed whatever its size.
    pub bytes_max: usize,
    /// Whether the documents have their metadata.
    pub with_metadata: bool,
}

impl From<usize> for PageOptions {
    /// Up to `limit` documents with their metadata, whatever their size.
    fn from(limit: usize) -> Self {
        Self { limit, bytes_max: usize::MAX, with_metadata: true }
    }
}

/// A page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, N = u64> {
    /// What is listed.
    pub items: Vec<T>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<N>,
}

/// A namespace that has documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceInfo {
    /// The name. The default namespace has none and is not listed.
    pub namespace: Namespace,
    /// The number of its documents.
    pub documents: u64,
}

/// Whether writes are accepted, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Writes and reads are accepted.
    Ready,
    /// The engine is closing, and refuses writes.
    Stopping,
    /// A write or sync failed, or a thread panicked.
    Failed,
    /// The disk is full; reads continue.
    DiskFull,
    /// The memory limit is reached; reads continue.
    MemoryFull,
    /// The data directory or files of it are gone, or cannot be written; reads continue.
    DirectoryUnusable,
}

/// A complete snapshot on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The last change it contains.
    pub sequence: Sequence,
    /// When it was taken, in milliseconds since 1970.
    pub taken_at_ms: u64,
    /// The total size of its files.
    pub bytes: u64,
    /// The number of documents in it.
    pub documents: u64,
}

/// The state of the engine in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// Stored documents, including those that have expired and are not removed yet.
    pub documents: u64,
    /// The number of namespaces with documents, other than the default one.
    pub namespaces: u64,
    /// The last accepted change.
    pub sequence: Sequence,
    /// The largest distance of a look-up.
    pub distance_max: Distance,
    /// When writes are acknowledged ([`Options::durability`](crate::Options::durability)).
    pub durability: Durability,
    /// The recipe of the fingerprints.
    pub recipe: Recipe,
    /// Each segment of the index, oldest first.
    pub segments: Vec<SegmentStats>,
    /// Bytes of segments and tables that are in files and not in memory.
    pub index_file_bytes: u64,
    /// Changes in deltas, not yet in a segment.
    pub delta_events: u64,
    /// Memory of the index by part.
    pub memory: MemoryStats,
    /// Bytes of all journal files.
    pub journal_bytes: u64,
    /// The number of journal files.
    pub journal_files: u64,
    /// The number of packs among them.
    pub packs: u64,
    /// The space that records take.
    pub space: RecordSpace,
    /// The space on the disk.
    pub disk: DiskStats,
    /// The newest snapshot; `None` before the first.
    pub last_snapshot: Option<SnapshotInfo>,
    /// What the clock says, in milliseconds since 1970.
    pub clock_ms: u64,
    /// By how many milliseconds the newest command was decided later than the clock says: above 0
    /// only from when the clock was set back until the next command.
    pub clock_behind_ms: u64,
}

/// A segment of the index in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentStats {
    /// The number of documents in it.
    pub documents: u64,
    /// The number of distinct fingerprints in it.
    pub fingerprints: u64,
    /// What it takes in memory and in its file, in bytes.
    pub bytes: u64,
    /// Its table plan, such as `32r1f+32r1f` (key bits, radius, folded).
    pub plan: String,
}

/// Memory of the index by part, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryStats {
    /// Sorted tables with their directories.
    pub tables: u64,
    /// Postings: what the index knows of each document.
    pub documents: u64,
    /// The tables from hashes of ids to documents.
    pub ids: u64,
    /// The sorted labels of texts.
    pub labels: u64,
    /// Removals not yet merged away.
    pub removals: u64,
    /// The table of namespaces.
    pub namespaces: u64,
    /// The newest changes, not yet in a segment.
    pub deltas: u64,
    /// Not in use yet, but needed while the largest parts of the index are merged.
    pub merging: u64,
}

impl MemoryStats {
    /// The total, which counts against the limit.
    pub const fn total(&self) -> u64 {
        let documents = self.tables + self.documents + self.ids + self.labels;
        documents + self.removals + self.namespaces + self.deltas + self.merging
    }
}

/// The space on the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// The bytes that are free.
    pub free_bytes: u64,
    /// The bytes that must be free for writes that add documents: at least
    /// [`Options::disk_free_bytes_min`](crate::Options::disk_free_bytes_min), and what the next
    /// snapshot, the next sweep and the records of removals take.
    pub needed_bytes: u64,
    /// What is done to free space.
    pub freeing: Freeing,
}

/// What is done to free space on the disk, or why nothing is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Freeing {
    /// There are too few records of removed documents.
    #[default]
    NothingToReclaim,
    /// The space of removed documents is being reclaimed.
    Reclaiming,
    /// The records of removed documents cannot be swept, because the next pack does not fit.
    NoSpaceToSweep,
    /// The newest records cannot be swept, because the snapshot before that does not fit.
    NoSpaceForSnapshot,
}

impl Freeing {
    /// The same in words, with what helps.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::NothingToReclaim => {
                "There is nothing to reclaim: remove documents, or free space on the file system."
            }
            Self::Reclaiming => "The space of removed documents is being reclaimed.",
            Self::NoSpaceToSweep => {
                "The space of removed documents cannot be reclaimed, because rewriting their files does not fit: free space on the file system."
            }
            Self::NoSpaceForSnapshot => {
                "The space of removed documents cannot be reclaimed, because a snapshot does not fit: free space on the file system."
            }
        }
    }
}

/// The space that records take in the journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordSpace {
    /// Bytes reclaimed since the start.
    pub reclaimed_bytes: u64,
    /// The bytes in records of stored documents, at least.
    pub live_bytes: u64,
    /// During a sweep: the last sequence that it has swept, and the last one that it will sweep.
    pub sweep: Option<(u64, u64)>,
}
