//! The document as the service stores it: a fingerprint with an id, a sketch and metadata, never
//! the text.

use std::fmt;

pub use nearprint_index::document::{BadNamespace, Expiry, Namespace, Sequence};

use nearprint_fingerprint::{Fingerprint, Sketch};

/// A document as it is stored or queried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The namespace in which it is unique by its id and meets other documents; `None` is the
    /// default one.
    pub namespace: Option<Namespace>,
    /// The caller's name for it, usually a URL; opaque to the service.
    pub id: Option<DocumentId>,
    /// The 64 bits by which it is compared.
    pub fingerprint: Fingerprint,
    /// Its sketch; only a document that came as text has one.
    pub sketch: Option<Box<Sketch>>,
    /// It came as a text of fewer tokens than the recipe trusts at a distance above 0.
    pub short: bool,
    /// From when on it is not a hit; `None` is never.
    pub expiry: Option<Expiry>,
    /// What the caller stores with it; opaque to the service.
    pub metadata: Option<Metadata>,
}

impl Document {
    /// A document with nothing but a fingerprint.
    pub const fn bare(fingerprint: Fingerprint) -> Self {
        Self {
            namespace: None,
            id: None,
            fingerprint,
            sketch: None,
            short: false,
            expiry: None,
            metadata: None,
        }
    }
}

impl From<&Document> for Document {
    fn from(document: &Document) -> Self {
        document.clone()
    }
}

/// Bare fingerprints of one namespace that are stored together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Packed {
    /// The namespace of all of them; `None` is the default one.
    pub namespace: Option<Namespace>,
    /// When all of them expire; `None` keeps them until they are removed.
    pub expiry: Option<Expiry>,
    /// Stored in this order, each as a change of its own.
    pub fingerprints: Vec<Fingerprint>,
}

impl From<Vec<Fingerprint>> for Packed {
    /// In the default namespace, without an expiry.
    fn from(fingerprints: Vec<Fingerprint>) -> Self {
        Self { namespace: None, expiry: None, fingerprints }
    }
}

/// A JSON object as text, of at most [`Metadata::BYTES_MAX`] bytes.
///
/// Whoever makes one has parsed it; the service only keeps it and gives it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata(Box<str>);

impl Metadata {
    /// The largest metadata that a configuration may allow, in bytes.
    pub const BYTES_MAX: usize = 64 << 10;

    /// Metadata of this JSON; `None` when it is too long or no object.
    pub fn new(json: impl Into<Box<str>>) -> Option<Self> {
        let json = json.into();
        let is_object = json.starts_with('{') && json.ends_with('}');
        (is_object && json.len() <= Self::BYTES_MAX).then_some(Self(json))
    }

    /// The JSON as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of a document: 1 to [`DocumentId::BYTES_MAX`] bytes of UTF-8.
///
/// ```
/// use nearprint_machine::document::DocumentId;
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
    /// The length of the refused id in bytes.
    pub bytes: usize,
}
