//! Copies of everything that is stored: snapshots, exports, the changes for followers, and who
//! leads the nodes of a cluster.

pub(crate) mod changes;
pub(crate) mod lead;
pub(crate) mod snapshots;
