//! What a running engine holds in memory: the published state, jobs, counts of originals, and the
//! queues in which clients take turns.
//!
//! [`Shared`](crate::shared::Shared) has one of each, for the handle and all threads.

pub(crate) mod board;
pub(crate) mod disk;
pub(crate) mod fair_queue;
pub(crate) mod jobs;
pub(crate) mod memory;
pub(crate) mod published;
pub(crate) mod replica;
pub(crate) mod runs;
pub(crate) mod scans;
pub(crate) mod scheduler;
pub(crate) mod survey;
pub(crate) mod touches;
