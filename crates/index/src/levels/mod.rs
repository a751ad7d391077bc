//! The levels of the index: deltas, which the writer appends to, and immutable segments.
//!
//! Both record the documents put, the documents removed and the fingerprints reset over a range of
//! sequences, with the [`posting`]s and [`ids`] of those documents. Deltas are made of write-once
//! [cells](crate::chains::cells) and of [chains](crate::chains) that lead to them.

pub mod delta;
pub mod ids;
pub mod level;
pub mod posting;
pub mod segment;
pub(crate) mod sorted;
