//! The read path: search a published view, verify hits by their sketches, read their ids.

pub mod finder;
pub mod found;
pub(crate) mod lookups;
