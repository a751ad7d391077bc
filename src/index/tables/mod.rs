//! Sorted tables of cache lines, and how a fingerprint finds its line in one.
//!
//! In reading order: [`fold`] (fewer places to look), [`geometry`], [`homes`] and [`mod@line`] (how a
//! table lies in memory), [`partition`] (a quarter of all keys), [`table`], [`secondary`].

pub mod fold;
pub mod geometry;
pub mod homes;
pub mod line;
pub mod partition;
pub mod secondary;
pub mod table;
