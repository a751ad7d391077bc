//! Columns in the memory of Arrow, pandas and polars, by the Arrow C data interface
//! (<https://arrow.apache.org/docs/format/CDataInterface.html>) and its PyCapsules.
//!
//! The crate arrow would be 2 MB for these three structures. All that is `unsafe` in the package is
//! here: a producer is trusted to give buffers as long as its array says, as every consumer does;
//! what can be checked is checked (offsets, UTF-8, bounds of views).

mod export;
mod import;
mod structures;

pub(crate) use export::export;
pub(crate) use import::{Chunk, Chunks};
