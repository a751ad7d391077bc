//! The threads of an engine: the writer, which alone changes the state, and those that work in the
//! background.
//!
//! The others turn deltas into segments, merge segments, take snapshots, find groups, remove
//! documents that have expired or that a job removes, reclaim the space of records, and watch the
//! disk. Each reads the published view, builds next to it, and sends the result to the writer,
//! which installs it between two groups.
//!
//! [`lifecycle`] starts and stops all of them; a panic in one fails the engine ([`mod@spawn`]).

pub(crate) mod flusher;
pub(crate) mod groups;
pub(crate) mod lifecycle;
pub(crate) mod merger;
pub(crate) mod pause;
pub(crate) mod reclaimer;
pub(crate) mod remover;
pub(crate) mod replica;
pub(crate) mod snapshotter;
pub(crate) mod spawn;
pub(crate) mod syncer;
pub(crate) mod watcher;
pub(crate) mod writer;
