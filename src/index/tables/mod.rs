//! Sorted tables of cache lines, and how a fingerprint finds its line in one.
//!
//! In reading order: [`fold`] (fewer places to look), [`geometry`] and [`mod@line`] (how a table lies in memory),
//! [`table`].

pub mod fold;
pub mod geometry;
pub mod line;
pub mod table;
