//! The read path: looks up documents in a published view, verifies the matches, shows the hits.

pub mod found;
pub mod reader;
pub(crate) mod scheduler;
