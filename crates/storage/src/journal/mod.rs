//! The journal: the ordered records of accepted changes, in files that only grow at their end.
//!
//! ```text
//!   journal file   header | frame | frame | ... | seal      closed at a configured size
//!   pack           header | frame | frame | ... | seal      closed files, only needed records
//! ```
//!
//! - [`crate::frame`] encodes a record with its checksums; `header` has the headers of both kinds
//!   of files.
//! - [`writer`] appends, flushes, syncs and rotates; [`reader`] reads records from any thread.
//! - [`recovery`] finds the end of the journal at a start and distinguishes a torn tail from
//!   damage; `continuity` checks that no file is missing.
//! - [`reclaim`] rewrites closed files as packs (`pack`) of the records that are still needed.
//! - [`salvage`] examines damaged files and saves what can be read.
//! - `file` and `index` read one file, with a sparse index of sequences, in the large pieces of
//!   [`crate::window`]; `index_file` saves the indexes of closed files.
//! - [`crate::sizes`] counts records by size, which bounds how much of the files is garbage.

pub(crate) mod continuity;
mod file;
pub(crate) mod header;
mod index;
mod index_file;
mod pack;
pub(crate) mod reader;
pub mod reclaim;
pub(crate) mod recovery;
pub mod salvage;
pub mod writer;
