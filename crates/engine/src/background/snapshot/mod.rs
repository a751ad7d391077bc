//! Snapshots: which parts a state has, their files, and the thread that writes them.

pub(crate) mod manifest;
mod parts;
pub(crate) mod snapshots;
pub(crate) mod snapshotter;
pub(crate) mod state_file;
