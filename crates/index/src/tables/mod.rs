//! Sorted tables of cache lines, and how a fingerprint finds its line in one.
//!
//! In reading order: [`fold`] (fewer cells to visit), [`geometry`], [`line_of_key`] and
//! [`mod@line`] (the layout of a table in memory), [`partition`] (a quarter of the key space),
//! [`table`], [`secondary`].

pub(crate) mod fold;
pub(crate) mod geometry;
pub mod line;
pub(crate) mod line_of_key;
pub(crate) mod partition;
pub mod secondary;
pub mod table;
