//! An exact index of 64-bit fingerprints by Hamming distance: which stored ones are within a
//! distance of 0 to 12 of a query.
//!
//! [`InMemoryIndex`] is the interface: insert, remove, look up, save and load. It knows no text,
//! file, clock or thread.
//!
//! ```
//! use nearprint_index::{Distance, Fingerprint, InMemoryIndex};
//!
//! let three = Distance::new(3).expect("at most 64");
//! let mut index = InMemoryIndex::new(three);
//! index.insert("https://a.example/1", Fingerprint::new(0b1011));
//! assert_eq!(index.near(Fingerprint::new(0), three)[0].fingerprint, Fingerprint::new(0b1011));
//!
//! let mut file = Vec::new();
//! index.save(&mut file)?;
//! let mut loaded = InMemoryIndex::load(&file[..])?;
//! assert!(loaded.remove("https://a.example/1"));
//! assert!(loaded.near(Fingerprint::new(0), three).is_empty());
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! The other modules are the parts that nearprint-engine builds a durable store on. They are hidden
//! from this page and change without notice.
//!
//! ```text
//!   View                the state at one sequence: immutable, shared, what readers load
//!     segments          documents, oldest first; a small segment has all of its tables,
//!                       a large one the first
//!     secondary tables  the other tables of large segments; merged in the background
//!     deltas            the newest changes; the one writer appends to the last of them
//! ```
//!
//! In reading order: [`plan`] (which tables an index has), [`tables`] (how a table lies in memory;
//! [`mod@kernel`] compares its lines), [`buckets`] (the tables of small segments), [`levels`]
//! (deltas and segments), [`view`], [`lookup`], [`compaction`] (merging), [`groups`] (of documents
//! that are near each other), [`in_memory`] and [`estimate`] (of memory).
//!
//! For each fingerprint the index stores the [`levels::posting::Posting`]s of its documents: the
//! sequence of each, its namespace and expiry, and which optional parts its journal record has; a
//! look-up sees those in its [`visibility`]. The index knows no text, file, clock or thread, and it
//! knows ids and [`namespaces`] only by their keyed hash. The same changes give the same answers in
//! the same order. Segments and deltas are both *levels*: each records the documents put, the
//! documents removed and the fingerprints reset over a contiguous range of sequences.
//!
//! Look-ups are exact by the generalised pigeonhole principle (Manku, Jain, Das Sarma 2007, section
//! 3, with a search radius for each table): see [`plan`]. Every optimised part is tested against
//! the list in `tests/naive.rs`.
#![deny(clippy::iter_over_hash_type, reason = "replicas must agree")]

pub(crate) mod buckets;
pub(crate) mod chains;
#[doc(hidden)]
pub mod compaction;
#[doc(hidden)]
pub mod document;
#[doc(hidden)]
pub mod estimate;
#[doc(hidden)]
pub mod groups;
#[doc(hidden)]
pub mod id_key;
#[doc(hidden)]
pub mod image;
mod in_memory;
mod kernel;
#[doc(hidden)]
pub mod labels;
#[doc(hidden)]
pub mod levels;
#[doc(hidden)]
pub mod lookup;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod namespace_key;
#[doc(hidden)]
pub mod namespaces;
#[doc(hidden)]
pub mod permutation;
#[doc(hidden)]
pub mod plan;
#[doc(hidden)]
pub mod tables;
#[doc(hidden)]
pub mod times;
#[doc(hidden)]
pub mod view;
#[doc(hidden)]
pub mod visibility;

pub use document::Sequence;
pub use in_memory::InMemoryIndex;
pub use nearprint_fingerprint::{Distance, Fingerprint};
pub use view::Near;

#[cfg(test)]
mod tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
