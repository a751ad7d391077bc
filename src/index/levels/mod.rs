//! The levels of the index: deltas, which the writer appends to, and immutable segments.
//!
//! Both hold the same: documents put, documents removed and fingerprints reset over a range of sequences, with
//! the [`posting`]s and [`ids`] of those documents. [`cells`] are the write-once memory of deltas.

pub mod cells;
pub mod delta;
pub mod distinct;
pub mod ids;
pub mod level;
pub mod posting;
pub mod segment;
pub mod sorted;
