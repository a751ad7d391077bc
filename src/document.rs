//! The document as the service stores it: a fingerprint with an id and a sketch, never the text.

use std::fmt;

use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;

/// A document as it is stored or queried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The caller's name for it, usually a URL; opaque to the service.
    pub id: Option<DocumentId>,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// Its verification sketch; only a document that came as text has one.
    pub sketch: Option<Box<Sketch>>,
    /// It came as a text of fewer tokens than the recipe trusts at a distance above 0.
    pub short: bool,
}

impl Document {
    /// A document with nothing but a fingerprint.
    pub const fn bare(fingerprint: Fingerprint) -> Self {
        Self { id: None, fingerprint, sketch: None, short: false }
    }
}

/// The name of a document: 1 to [`DocumentId::BYTES_MAX`] bytes of UTF-8.
///
/// ```
/// use nearprint::document::DocumentId;
/// assert!(DocumentId::new("https://a.example/1").is_ok());
/// assert!(DocumentId::new("").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentId(Box<str>);

impl DocumentId {
    /// The longest id, in bytes.
    pub const BYTES_MAX: usize = 2_048;

    /// Checks the length and takes the text.
    ///
    /// # Errors
    /// [`BadDocumentId`] when it is empty or too long.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, BadDocumentId> {
        let text = text.into();
        if text.is_empty() || text.len() > Self::BYTES_MAX {
            return Err(BadDocumentId { bytes: text.len() });
        }
        Ok(Self(text))
    }

    /// The text of the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DocumentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// An id is empty or longer than [`DocumentId::BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an id has 1 to 2048 bytes, this one has {bytes}")]
pub struct BadDocumentId {
    /// Its length in bytes.
    pub bytes: usize,
}

/// The number of an accepted change, counted from 1 over the life of a data directory.
///
/// It is the age of a document (smaller is older) and the key of its journal record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sequence(u64);

impl Sequence {
    /// Before the first change.
    pub const ZERO: Self = Self(0);

    /// The change with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The change after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
