//! The settings of the engine.

use std::fmt;
use std::path::PathBuf;

use nearprint_fingerprint::Distance;
use nearprint_fingerprint::recipe::Recipe;

/// The value of [`Options::small_segment_max`] outside experiments.
pub const SMALL_SEGMENT_MAX: u64 = nearprint_index::plan::SMALL_MAX;

/// The settings of the engine, checked (`config/default.toml` describes them).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The data directory; created if it is missing.
    pub data: PathBuf,
    /// The recipe of the fingerprints in the directory.
    pub recipe: Recipe,
    /// The model of the recipe, for a new directory; an existing one must have been created with
    /// the same model.
    pub model_file: Option<PathBuf>,
    /// What knows such models.
    pub model_check: ModelCheck,
    /// The maximum distance of a look-up; fixed when the directory is created.
    pub distance_max: Distance,
    /// Whether texts are also found by their labels, which take 33 bytes of memory each. For a new
    /// directory.
    pub has_labels: bool,
    /// The number of threads for the look-ups of all batches; 0 means one for each core.
    pub lookup_threads: usize,
    /// The number of threads for long work of lists; 0 means one for two cores.
    pub list_threads: usize,
    /// A page of a list ends when it has looked at this many documents.
    pub list_scan_max: usize,
    /// When a write is acknowledged, and so what a power cut may take back.
    pub durability: Durability,
    /// The number of events after which a delta becomes a segment.
    pub delta_events: usize,
    /// The maximum number of fingerprints in a small segment.
    pub small_segment_max: u64,
    /// The maximum number of changes that wait for the writer.
    pub queue_changes_max: usize,
    /// The maximum number of changes that share one sync.
    pub group_changes_max: usize,
    /// A journal file is closed when it reaches this size.
    pub journal_file_bytes: u64,
    /// A snapshot is taken this long after the last one, if something has changed.
    pub snapshot_interval_ms: u64,
    /// A snapshot is taken after this many changes.
    pub snapshot_changes: u64,
    /// Writes are refused if the index and its merges need more memory than this; 0 means no limit.
    pub memory_bytes_max: u64,
    /// Segments and tables beyond this leave memory: their large arrays stay in the files of
    /// snapshots. 0 means no limit.
    pub index_memory_bytes_max: u64,
    /// The number of documents for which it is counted how often they were named as originals; 0
    /// counts nothing.
    pub originals_max: usize,
    /// The number of jobs that find groups, with their results, which are kept.
    pub groups_kept_max: usize,
    /// The memory of these jobs and their results together.
    pub groups_memory_bytes_max: u64,
    /// Writes are refused if the disk has less free space than this, or than emptying it takes.
    pub disk_free_bytes_min: u64,
    /// A directory is not opened if its newest change was made later than the clock says, by more
    /// than this; `None` accepts every clock.
    pub clock_behind_ms_max: Option<u64>,
    /// Documents that have expired are kept for this long after the start, and after a step of the
    /// clock forward: the clock may be wrong.
    pub expired_kept_ms: u64,
    /// The directory follows a primary ([`crate::following`]), so this engine decides no writes.
    pub follows: bool,
    /// The directory is that of a node of a cluster, which decides nothing without the others.
    pub is_node: bool,
}

impl Options {
    /// What a directory is created with: the maximum distance, and whether it has labels.
    pub(crate) const fn searches(&self) -> (Distance, bool) {
        (self.distance_max, self.has_labels)
    }

    /// The defaults of the service (`config/default.toml`): look-ups up to distance 3, and a write
    /// is acknowledged once it is on disk.
    pub fn new(data: impl Into<PathBuf>, recipe: Recipe) -> Self {
        Self {
            data: data.into(),
            recipe,
            model_file: None,
            model_check: ModelCheck::default(),
            distance_max: Distance::new(3).expect("at most 64"),
            has_labels: true,
            lookup_threads: 0,
            list_threads: 0,
            list_scan_max: 20_000,
            durability: Durability::Always,
            delta_events: 32_768,
            small_segment_max: SMALL_SEGMENT_MAX,
            queue_changes_max: 65_536,
            group_changes_max: 16_384,
            journal_file_bytes: 128 << 20,
            snapshot_interval_ms: 5 * 60 * 1_000,
            snapshot_changes: 10_000_000,
            memory_bytes_max: 0,
            index_memory_bytes_max: 0,
            originals_max: 1_000_000,
            groups_kept_max: 8,
            groups_memory_bytes_max: 1 << 30,
            disk_free_bytes_min: 256 << 20,
            clock_behind_ms_max: Some(5 * 60 * 1_000),
            expired_kept_ms: 10 * 60 * 1_000,
            follows: false,
            is_node: false,
        }
    }
}

/// What the engine has to know of models, which are bytes to it.
#[derive(Clone, Copy)]
pub struct ModelCheck {
    /// No model has more bytes; more of a file are not read.
    pub bytes_max: u64,
    /// Checks that bytes are a model of a recipe, and returns the number that names the model, or
    /// what is wrong with the bytes, for people.
    pub check: fn(&[u8], Recipe) -> Result<u128, String>,
}

impl Default for ModelCheck {
    /// Knows no model.
    fn default() -> Self {
        let check = |_: &[u8], recipe| Err(format!("no models of {recipe} are known"));
        Self { bytes_max: 0, check }
    }
}

/// A check is no setting: all are equal.
impl PartialEq for ModelCheck {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ModelCheck {}

impl fmt::Debug for ModelCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelCheck")
    }
}

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// After its record is synced to disk (group commit).
    Always,
    /// After its record is written; the journal is synced at intervals.
    Interval {
        /// The maximum time between two syncs.
        ms: u64,
    },
    /// After its record is written; the operating system decides when it reaches the disk.
    None,
}
