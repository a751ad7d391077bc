//! Readers of files for imports: NDJSON, lines of hex, and folders of text and HTML.
//!
//! A reader is an iterator of entries. It stores at most one document of [`DOCUMENT_BYTES_MAX`] and
//! one buffer, however long its input is. An entry that cannot be read is an item too, a
//! [`BadEntry`] with its place, and the reader continues after it. A file of a format that no
//! reader understands is refused ([`foreign`]), because reading it as text would store one
//! meaningless document.
//!
//! Knows neither the service nor the fingerprints of texts, only [`crate::fingerprint`] and the
//! charset rules of [`crate::text`].
//!
//! Tested next to each reader on small inputs, and by `import` on whole folders.

mod content;
mod entry;
mod files;
mod folder;
mod foreign;
mod hex;
mod input;
mod lines;
mod manual;
mod names;
mod ndjson;

pub use entry::{BadEntry, Body, DOCUMENT_BYTES_MAX, Entry, Passed, Place};
pub use files::{BytesRead, read_document};
pub use input::{Documents, Format, bytes_total};
pub use ndjson::{parse_features, parse_vector};
