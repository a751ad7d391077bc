//! Snapshots: which parts a state has, and their files.

pub(crate) mod files;
pub(crate) mod manifest;
mod parts;
pub(crate) mod placing;
pub(crate) mod snapshots;
pub(crate) mod state_file;
