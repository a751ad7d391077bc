//! Sorted tables of cache lines, and how a fingerprint finds its line in one.
//!
//! In reading order: [`geometry`], [`line_of_key`] and [`mod@line`] (the layout of a table in
//! memory), [`partition`] (a quarter of the key space), [`table`], [`secondary`]; [`runs`] merges
//! sorted entries.

pub(crate) mod geometry;
pub mod line;
pub(crate) mod line_of_key;
pub(crate) mod partition;
pub(crate) mod runs;
pub mod secondary;
pub mod table;
