//! The result of analysing a document, and what can be requested in addition to its fingerprint.

use nearprint_fingerprint::{Fingerprint, Sketch};

/// The result of analysing a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// The 64 bits by which the document is compared.
    pub fingerprint: Fingerprint,
    /// The number of distinct features, if requested.
    pub features: Option<usize>,
    /// The number of tokens: words, and single CJK characters; 0 for weighted features.
    pub tokens: usize,
    /// Whether it is a text of fewer than [`SHORT_TOKENS`] tokens.
    pub short: bool,
    /// The sketch, if requested; weighted features have none.
    pub sketch: Option<Box<Sketch>>,
}

impl Analysis {
    /// The analysis of a document that did not come as text: its fingerprint alone.
    pub const fn bare(fingerprint: Fingerprint) -> Self {
        Self { fingerprint, features: None, tokens: 0, short: false, sketch: None }
    }
}

/// A text of fewer tokens is *short*: it carries too little evidence for a distance above 0.
pub const SHORT_TOKENS: usize = 10;

/// What is computed in addition to the fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The sketch; costs about as much as the fingerprint.
    pub sketch: bool,
    /// The number of distinct features; costs several times as much as the fingerprint.
    pub features: bool,
}

impl Wanted {
    /// What an index stores: the sketch.
    pub const STORED: Self = Self { sketch: true, features: false };

    /// The sketch and the number of features.
    pub const ALL: Self = Self { sketch: true, features: true };
}

/// A document has no feature of the recipe, and so no fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the document has no letter or number, and so no fingerprint")]
pub struct EmptyDocument;
