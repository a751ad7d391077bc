//! nearprint and its peers: the same data, the same questions, the same core.
//!
//! Each peer is a small program (`src/bin`, and `python_peer.py` for what lives in Python). It
//! takes how many fingerprints, a seed and how many queries, builds its index from [`Data`], and
//! lets a [`Bench`] check its answers and measure it; then it prints one line of JSON. A process of
//! its own, so that memory is its own. `compare.py` starts them one after another and writes the
//! tables and pictures of `docs/benchmarks.md`; `make figures WHAT=peers` does everything.
//!
//! What is asked of every peer: all stored fingerprints within [`DISTANCE`] of the query.

mod bench;
mod data;

pub use bench::{Bench, Failure};
pub use data::{Data, Listed, Query};

/// The distance of every look-up.
pub const DISTANCE: u32 = 3;
