//! What the engine reports of its work while it runs.

use std::fmt::Debug;
use std::time::Duration;

/// Receives the durations and sizes of the engine's work, for metrics.
///
/// The engine calls the methods on the threads that did the work, so they must be quick. By default
/// each does nothing; `()` ignores everything.
pub trait Observer: Debug + Send + Sync {
    /// The journal was synced.
    fn journal_synced(&self, _took: Duration) {}

    /// A group of changes was committed.
    fn group_committed(&self, _changes: u64) {}

    /// A snapshot was written.
    fn snapshot_taken(&self, _took: Duration) {}

    /// Segments were merged into one of `documents` documents.
    fn merge_finished(&self, _took: Duration, _documents: u64) {}

    /// A new segment was delayed, so that merges keep up with writes.
    fn writes_held_up(&self, _time: Duration) {}
}

impl Observer for () {}
