//! The index: which stored fingerprints lie within a Hamming distance of a query, exactly.
//!
//! ```text
//!   View                the state at one sequence; immutable, shared, what readers load
//!     segments          oldest first; what is known of documents; with the tables of a small
//!                       segment, or the first table of a large one
//!     others            the other tables of large segments; all are merged in the background
//!     deltas            the newest changes; the one writer appends to the last of them
//! ```
//!
//! In reading order: [`plan`] (which tables), [`fold`] (fewer places to look), [`geometry`] and
//! [`mod@line`] (how a table lies in memory; [`crate::kernel`] compares them), [`table`], [`buckets`] (the tables
//! of small segments), [`segment`], [`delta`] (in [`cells`]), [`level`], [`view`], [`lookup`], [`runs`] and
//! [`sayings`] (what segments say, in order), [`merge`], [`quartered`], [`distinct`] and [`work`]; [`cost`] tells what all of it will take.
//!
//! The index stores, for each fingerprint, the [`posting::Posting`]s of its documents: their
//! sequence and what their journal record holds. It knows no text, no id but its keyed hash, no
//! file, no clock and no thread; given the same changes it gives the same answers, in the same
//! order. Segments and deltas are two implementations of one idea, a *level*: documents put,
//! documents removed, fingerprints reset, over a contiguous range of sequences.
//!
//! Exactness rests on the generalised pigeonhole principle (Manku, Jain, Das Sarma 2007, section
//! 3, with a search radius per table): see [`plan`]. Every clever part is tested against
//! [`naive`].
#![deny(clippy::iter_over_hash_type, reason = "replicas must agree")]

pub mod array;
pub mod buckets;
pub mod cells;
pub mod cost;
pub mod delta;
pub mod directory;
pub mod distinct;
pub mod fold;
pub mod geometry;
pub mod ids;
pub mod image;
pub mod level;
pub mod line;
pub mod lookup;
pub mod merge;
pub mod naive;
pub mod permutation;
pub mod plan;
pub mod posting;
pub mod quartered;
pub mod runs;
pub mod sayings;
pub mod segment;
pub mod sorted;
pub mod table;
pub mod view;
pub mod work;

#[cfg(test)]
mod tests;
