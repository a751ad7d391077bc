//! What a reader yields: entries, and those that cannot be read.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::fingerprint::Fingerprint;

/// The longest document or line in bytes, after decompression. Longer ones are reported and
/// skipped.
pub const DOCUMENT_BYTES_MAX: usize = 8 << 20;

/// One document as its file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Where the document is.
    pub place: Place,
    /// The id that the file gives it; the path for a file that is one document.
    pub id: Option<String>,
    /// The content.
    pub body: Body,
    /// What else its line says of it.
    pub passed: Vec<Passed>,
}

impl Entry {
    /// Whether the file names the document, or says how the service makes its id.
    pub fn has_id(&self) -> bool {
        self.id.is_some() || self.passed.iter().any(|(field, _)| *field == "id")
    }
}

/// A field that the import passes on to the service as it is: its name and its JSON.
pub type Passed = (&'static str, Box<str>);

/// The content of a line, of which the reader knows the place.
#[derive(Debug, PartialEq)]
pub(super) struct Parsed {
    pub(super) id: Option<String>,
    pub(super) body: Body,
    pub(super) passed: Vec<Passed>,
}

/// The five forms of a document.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Plain text.
    Text(String),
    /// HTML, decoded to UTF-8.
    Html(String),
    /// Tokens with their weights, in the order of the file.
    Features(Vec<(String, f64)>),
    /// A dense vector, in single precision.
    Vector(Vec<f32>),
    /// A fingerprint that another program computed.
    Fingerprint(Fingerprint),
}

/// An entry that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {why}")]
pub struct BadEntry {
    /// Where the entry is.
    pub place: Place,
    /// What is wrong with it.
    pub why: String,
}

/// A place in the input, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file; `-` is the standard input. All lines of a file share the path.
    pub path: Arc<Path>,
    /// The line, counted from 1, in a file of one entry a line.
    pub line: Option<u64>,
}

impl Place {
    pub(super) fn file(path: &Path) -> Self {
        Self { path: path.into(), line: None }
    }

    pub(super) fn bad(self, why: impl fmt::Display) -> BadEntry {
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
