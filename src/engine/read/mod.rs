//! The read path: search a published view, verify hits by their sketches, read their ids.

pub mod found;
pub mod reader;
pub(crate) mod scheduler;
