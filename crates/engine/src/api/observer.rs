//! What the engine reports of its work while it runs.

use std::fmt::Debug;
use std::time::Duration;

/// Receives the durations and sizes of the engine's work, for metrics.
///
/// The engine calls the methods on the threads that did the work, so they must be quick. By default
/// each does nothing; `()` ignores everything.
pub trait Observer: Debug + Send + Sync {
    /// A sync of the journal took this long. Every write of its group waited for it.
    fn journal_synced(&self, _took: Duration) {}

    /// This many changes were written as one group.
    fn group_committed(&self, _changes: u64) {}

    /// The log of a cluster has acknowledged an entry after this time.
    fn entry_appended(&self, _took: Duration) {}

    /// Writing and verifying a snapshot took this long.
    fn snapshot_taken(&self, _took: Duration) {}

    /// Segments were merged into one of `documents` documents.
    fn merge_finished(&self, _took: Duration, _documents: u64) {}

    /// A list of documents or namespaces has looked at so many of them.
    fn list_looked_at(&self, _items: u64) {}

    /// A list took a pass over the index in memory.
    fn list_passed(&self) {}

    /// The clock was set by this many milliseconds, back if it is negative.
    fn clock_set(&self, _by_ms: i64) {}

    /// A new segment was delayed, so that merges keep up with writes.
    fn writes_held_up(&self, _time: Duration) {}
}

impl Observer for () {}
