//! Copies of everything that is stored: snapshots, exports, and the changes for followers.

pub(crate) mod changes;
pub(crate) mod snapshots;
