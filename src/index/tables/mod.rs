//! Sorted tables of cache lines, and how a fingerprint finds its line in one.
//!
//! In reading order: [`fold`] (fewer cells to visit), [`geometry`], [`homes`] and [`mod@line`] (the
//! layout of a table in memory), [`partition`] (a quarter of the key space), [`table`],
//! [`secondary`].

pub mod fold;
pub mod geometry;
pub mod homes;
pub mod line;
pub mod partition;
pub mod secondary;
pub mod table;
