//! Sorted tables of fingerprints without slack, and how one is found in them.
//!
//! In reading order: [`geometry`] (how fine a table is cut into cells), [`cells`] (where the
//! entries of a cell lie), [`table`] (the entries), [`partition`] (an eighth of the key space),
//! [`secondary`]; [`runs`] merges sorted entries.

pub(crate) mod cells;
pub mod geometry;
pub(crate) mod partition;
pub(crate) mod runs;
pub mod secondary;
pub mod table;
