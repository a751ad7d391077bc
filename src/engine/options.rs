//! The settings of the engine.

use std::path::PathBuf;

use crate::fingerprint::Distance;
use crate::recipe::Recipe;

/// What [`Options::small_segment_max`] is where nothing else is to be tried.
pub const SMALL_SEGMENT_MAX: u64 = crate::index::plan::SMALL_MAX;

/// The settings of the engine, checked (see [`crate::config`]).
#[derive(Debug, Clone)]
pub struct Options {
    /// The data directory.
    pub data: PathBuf,
    /// The recipe whose fingerprints the directory holds.
    pub recipe: Recipe,
    /// The largest distance a look-up may ask for; fixed when the directory is created.
    pub distance_max: Distance,
    /// On how many threads the look-ups of batches run, all requests together; 0 is one a core.
    pub lookup_threads: usize,
    /// When an answer is given relative to the sync of the journal.
    pub durability: Durability,
    /// How many events a delta holds before it becomes a segment.
    pub delta_events: usize,
    /// How many fingerprints a segment of the small form has at most.
    pub small_segment_max: u64,
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
    /// Writes are refused above this much memory of the index, with what its merges need; 0 is no
    /// limit.
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
