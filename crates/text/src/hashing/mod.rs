//! Hashes of features, their sums, and the sketch.
//!
//! [`simhash`] is the definition, and [`digest`] the fast path that reads a text once.
//! [`sketching`] makes the sketch, and counts its shingles with [`tally`] and [`repeats`].

mod block;
pub(crate) mod digest;
pub(crate) mod repeats;
pub(crate) mod saturation;
pub(crate) mod simhash;
pub(crate) mod sketching;
pub(crate) mod tally;
