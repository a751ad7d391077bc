//! Readers of files: NDJSON, JSON arrays, CSV, Parquet, web archives, lines of hex or text, and
//! folders of text and HTML, all of them compressed or not.
//!
//! A reader is an iterator of [`FileRecord`]s, most of which are documents. It holds about one
//! record of [`DOCUMENT_BYTES_MAX`] and one buffer (for Parquet, one batch of rows), however long
//! its input is. An entry that cannot be read is an item too, a [`BadEntry`] with its place, and
//! the reader goes on after it. A file of a format that no reader understands is refused
//! ([`detect`]), because reading it as text would store one meaningless document.
//!
//! [`Documents`] is for an import. [`FileRecords`] also has what is not a document, and with
//! [`ReadOptions::form`] the bytes of each record, for a command that writes some of the records
//! unchanged.
//!
//! | module | what it does |
//! |---|---|
//! | `input`, `folder`, `reader` | one stream over paths; the reader that fits a file |
//! | `detect` | the format of a file, by its content and its name |
//! | `source` | decompression; the window that readers of text look through |
//! | `formats` | one reader a format |
//! | `mapping` | which fields of a record become the parts of a document |
//! | [`rows`] | a writer of rows as NDJSON, CSV or Parquet |
//! | [`destination`], [`atomic_file`] | where outputs go, and how they get there whole |
//!
//! Knows neither the service nor the fingerprints of texts, only [`nearprint_fingerprint`] and the
//! charset rules of [`nearprint_text`].
//!
//! Tested next to each reader on small inputs in pieces of every size, and in `tests` on files that
//! other programs wrote, and on broken ones.

pub mod atomic_file;
mod batch;
mod context;
pub mod dedup;
pub mod destination;
mod detect;
mod entry;
mod escape;
mod folder;
mod formats;
mod input;
mod mapping;
mod reader;
pub mod rows;
mod source;
mod stamp;

pub use batch::{BatchOptions, DocumentBatch, batches};
pub use context::Quoting;
pub use context::{Doubt, RecordForm};
pub use detect::Format;
pub use entry::{
    BadEntry, DOCUMENT_BYTES_MAX, Entry, FilePosition, FileRecord, Other, Passed, Place, Raw,
};
pub use escape::escaped_path;
pub use formats::document::read_document;
pub use formats::table::{HEADERS, delimiter};
pub use input::{Checkpoint, Documents, FileRecords, ReadOptions, bytes_total, expand, files};
pub use mapping::{BodyKind, FingerprintFormat, Mapping, parse_features, parse_vector};
pub use source::{BytesRead, Charset, SavedStreams, is_stream, stream_named_twice};
pub use stamp::Stamp;

#[cfg(test)]
mod tests;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
