//! What the engine is asked and what it answers.

use crate::document::{Document, Sequence};
use crate::engine::options::Durability;
use crate::fingerprint::Distance;
use crate::machine::commands::Verdict;
use crate::machine::query::{Criteria, Hit};
use crate::recipe::Recipe;

/// What a query may say besides its document.
#[derive(Debug, Clone, Copy)]
pub struct QueryOptions {
    /// What counts as a near-duplicate.
    pub criteria: Criteria,
    /// How many hits are listed, 1 to 1,000.
    pub limit: usize,
}

/// The answer of a look-up. Hits that count come first, then by distance, age, fingerprint.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    /// Whether a hit counts.
    pub duplicate: bool,
    /// The first `limit` hits, or as many as fit in the bytes that the caller has room for.
    pub hits: Vec<Hit>,
    /// The true number of matching fingerprints.
    pub hit_count: usize,
}

/// The reply of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// What happened.
    pub verdict: Verdict,
    /// The number of the change, or of the last one before the verdict where nothing changed.
    pub sequence: Sequence,
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
    /// Refuse with [`Refused::Overloaded`](crate::engine::Refused::Overloaded).
    Shed,
    /// Wait for a place.
    Wait,
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
    /// Distinct stored fingerprints, as far as they are counted.
    pub fingerprints: u64,
    /// So many of the newest are not counted yet: 0, or more than a million where millions have just
    /// arrived.
    pub uncounted: u64,
    /// The last accepted change.
    pub sequence: Sequence,
    /// The largest distance of a look-up.
    pub distance_max: Distance,
    /// The policy.
    pub durability: Durability,
    /// The recipe of the fingerprints.
    pub recipe: Recipe,
    /// Each segment of the index, oldest first.
    pub segments: Vec<SegmentStats>,
    /// Changes in deltas, which are not in a segment yet.
    pub delta_events: u64,
    /// Memory of the index by part.
    pub memory: MemoryStats,
    /// Bytes of all journal files.
    pub journal_bytes: u64,
    /// Number of journal files.
    pub journal_files: u64,
    /// How many of them are packs.
    pub packs: u64,
    /// The space that records take.
    pub space: RecordSpace,
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
    /// Its table plan, such as `32r1f+32r1f` (key bits, radius, folded).
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
    /// Not taken yet, but needed beside the index while its largest parts are merged.
    pub merging: u64,
}

impl MemoryStats {
    /// What counts against the limit.
    pub const fn total(&self) -> u64 {
        let kept = self.tables + self.documents + self.ids + self.removals + self.deltas;
        kept + self.merging
    }
}

/// The space that records take in the journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordSpace {
    /// Bytes that were reclaimed since the start.
    pub reclaimed_bytes: u64,
    /// At least this many bytes are records of stored documents.
    pub live_bytes: u64,
    /// While a sweep is running: the last sequence that it has swept, and the last one that it will.
    pub sweep: Option<(u64, u64)>,
}
