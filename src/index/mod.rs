//! The index: which stored fingerprints lie within a Hamming distance of a query, exactly.
//!
//! ```text
//!   View                the state at one sequence; immutable, shared, what readers load
//!     segments          oldest first; what is known of documents; with all tables of a small segment,
//!                       or the first table of a large one
//!     secondary tables  the other tables of large segments; merged in the background
//!     deltas            the newest changes; the one writer appends to the last of them
//! ```
//!
//! In reading order: [`plan`] (which tables), [`tables`] (how one lies in memory; [`crate::kernel`] compares
//! its lines), [`buckets`] (the tables of small segments), [`levels`] (deltas and segments), [`view`],
//! [`lookup`], [`compaction`] (merging) and [`cost`] (what all of it will take).
//!
//! The index stores, for each fingerprint, the [`levels::posting::Posting`]s of its documents: their
//! sequence and what their journal record holds. It knows no text, no file, no clock and no thread, and of
//! an id only its keyed hash; given the same changes it gives the same answers, in the same order. Segments
//! and deltas are two implementations of one idea, a *level*: documents put, documents removed, fingerprints
//! reset, over a contiguous range of sequences.
//!
//! Exactness rests on the generalised pigeonhole principle (Manku, Jain, Das Sarma 2007, section 3, with a
//! search radius for each table): see [`plan`]. Every clever part is tested against [`naive`].
#![deny(clippy::iter_over_hash_type, reason = "replicas must agree")]

pub mod buckets;
pub mod compaction;
pub mod cost;
pub mod image;
pub mod levels;
pub mod lookup;
pub mod memory;
pub mod naive;
pub mod permutation;
pub mod plan;
pub mod tables;
pub mod view;

#[cfg(test)]
mod tests;
