//! The background threads: they turn deltas into segments, merge segments, take snapshots, remove
//! documents that have expired or that a job removes, reclaim the space of records, and watch the
//! disk.
//!
//! Each reads the published view, builds next to it, and sends the result to the writer, which
//! installs it between two groups. [`threads`] starts and stops all of them; a panic in one fails
//! the engine ([`mod@spawn`]).

pub(crate) mod flusher;
pub(crate) mod groups;
pub(crate) mod merger;
pub(crate) mod needed;
pub(crate) mod pause;
pub(crate) mod reclaimer;
pub(crate) mod remover;
pub(crate) mod snapshot;
pub(crate) mod spawn;
pub(crate) mod survey;
pub(crate) mod syncer;
pub(crate) mod threads;
pub(crate) mod watcher;
