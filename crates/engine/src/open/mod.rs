//! Opening a data directory: recovery, repair, reindexing, and commands that work without a
//! service.

pub mod follower;
pub(crate) mod model;
pub mod offline;
pub(crate) mod recovery;
pub(crate) mod reindex;
pub(crate) mod repair;
