//! Readers of files: NDJSON, lines of hex, folders of text and HTML; documents come out lazily.
//!
//! A reader yields one [`Entry`] at a time and holds no more than one document (at most
//! [`DOCUMENT_BYTES_MAX`]) and one buffer, however long its input is. What is wrong with one entry
//! is an item of the stream, a [`BadEntry`] with its place, and the reader goes on behind it.
//!
//! A file of a format that no reader understands is refused as a whole, not stored as one document
//! of noise ([`foreign`]).
//!
//! It does not know what becomes of an entry: neither fingerprints of texts nor the service are
//! named here, only [`crate::fingerprint`] and the charset rules of [`crate::text`].
//!
//! Tested beside each reader on small inputs, and by `import` on whole folders.

mod files;
mod folder;
mod foreign;
mod hex;
mod input;
mod lines;
mod names;
mod ndjson;
mod roff;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fingerprint::Fingerprint;

pub use files::read_document;
pub use input::{Documents, Format, bytes_total};
pub use ndjson::parse_features;

/// The longest document or line that is read, in bytes after decompression; longer ones are
/// reported and passed over.
pub const DOCUMENT_BYTES_MAX: usize = 8 << 20;

/// One document as its file holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Where it was found.
    pub place: Place,
    /// Its name, where the file gives one; the path for a file of a folder.
    pub id: Option<String>,
    /// What it consists of.
    pub body: Body,
}

/// The four forms in which a document can come.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Plain text.
    Text(String),
    /// HTML, decoded to UTF-8.
    Html(String),
    /// Tokens with their weights, in the order of the file.
    Features(Vec<(String, f64)>),
    /// A fingerprint made elsewhere.
    Fingerprint(Fingerprint),
}

/// An entry that could not be read; the reader goes on behind it.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {why}")]
pub struct BadEntry {
    /// Where it is.
    pub place: Place,
    /// What is wrong with it.
    pub why: String,
}

/// A place in the input, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file; `-` is the standard input. Shared by all lines of one file.
    pub path: Arc<Path>,
    /// The line, counted from 1, where the file is read by lines.
    pub line: Option<u64>,
}

impl Place {
    fn file(path: &Path) -> Self {
        Self { path: path.into(), line: None }
    }

    fn bad(self, why: impl fmt::Display) -> BadEntry {
        BadEntry { place: self, why: why.to_string() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self.path == *"-" {
            f.write_str("standard input")?;
        } else {
            write!(f, "{}", self.path.display())?;
        }
        match self.line {
            Some(line) => write!(f, " line {line}"),
            None => Ok(()),
        }
    }
}

/// How many bytes were read so far, before decompression; clones share the count.
#[derive(Debug, Clone, Default)]
pub struct BytesRead(Arc<AtomicU64>);

impl BytesRead {
    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// What a reader yields, boxed because the format is known only at run time.
type Entries = Box<dyn Iterator<Item = Result<Entry, BadEntry>> + Send>;
