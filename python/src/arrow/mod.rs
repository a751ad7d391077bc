//! Columns in the memory of Arrow, pandas and polars, by the Arrow C data interface
//! (<https://arrow.apache.org/docs/format/CDataInterface.html>) and its PyCapsules.
//!
//! The crate arrow would be 2 MB for these three structures. All that is `unsafe` in the package is
//! in two modules here, which follow the pointers of other libraries. A producer is trusted to give
//! buffers as long as its array says, as every consumer does; what can be checked is checked
//! (offsets, UTF-8, bounds of views and lists, indices of dictionaries).

#[expect(unsafe_code, reason = "pointers for other libraries")]
mod export;
mod import;
#[expect(unsafe_code, reason = "pointers from other libraries")]
mod structures;
mod types;

pub(crate) use export::export;
pub(crate) use import::{Chunk, Chunks, ColumnValue};
pub(crate) use types::ColumnOf;
