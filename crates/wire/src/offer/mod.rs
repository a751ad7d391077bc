//! The door by which documents come in: what an offer of a document contains, and the one table of
//! its fields and options.
//!
//! [`fields!`](crate::fields) declares fields once: their names, types, ranges and descriptions.
//! JSON bodies, lines of NDJSON, query strings and records of files are read by these tables, and
//! the OpenAPI document is made from them. Commands pass their options on as a query string.
//! [`json`] reads objects, [`value`] the values of fields, and a [`Fault`] says what is wrong, with
//! which field, and where.

pub mod escapes;
mod fault;
mod fields;
pub mod json;
mod metadata;
mod value;

use std::borrow::Cow;
use std::fmt;

use nearprint_fingerprint::{Distance, Fingerprint, Sketch};
use nearprint_machine::document::{DocumentId, Namespace};
use nearprint_machine::query::SearchKind;
use nearprint_text::{Extract, Source};

pub use fault::{Fault, FaultKind};
pub use fields::{FINGERPRINT, Field, FieldKind, FieldSet};
pub use metadata::OfferedMetadata;
pub use value::{FieldValue, Value, is_integer};

/// A document as it is offered, with its options.
#[derive(Debug)]
pub struct Offer<'a> {
    /// The content.
    pub content: Content<'a>,
    /// The id, or what to make it from.
    pub id: Option<OfferedId>,
    /// The recipe and the sketch of a fingerprint that is offered.
    pub origin: FingerprintOrigin,
    /// Everything else, as far as it is given.
    pub options: OfferOptions,
}

/// What is known of the text that a fingerprint was made from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FingerprintOrigin {
    /// The recipe that made it.
    pub recipe: Option<Box<str>>,
    /// Its sketch.
    pub sketch: Option<Box<Sketch>>,
}

/// The content of a document, in one of its five forms.
#[derive(Debug, Clone, PartialEq)]
pub enum Content<'a> {
    /// Plain text.
    Text(Cow<'a, str>),
    /// HTML, decoded to UTF-8.
    Html(Cow<'a, str>),
    /// Tokens with their weights, in the order in which they came.
    Features(Vec<(Cow<'a, str>, f64)>),
    /// A dense vector, in single precision.
    Vector(Cow<'a, [f32]>),
    /// A fingerprint that another program computed.
    Fingerprint(Fingerprint),
}

/// The id of a document, or what the service makes it from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfferedId {
    /// The caller's name for the document.
    Given(DocumentId),
    /// A name that the service makes.
    From(IdSource),
}

/// What an id is made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum IdSource {
    /// The fingerprint: of all documents with equal fingerprints, the last one is kept
    // `fp:` and its 16 hex digits.
    Fingerprint,
    /// The text: only documents with equal texts have one id
    // `xxh3:` and the 32 hex digits of the XXH3-128 of the text or page as it was sent.
    TextHash,
}

impl IdSource {
    /// Its name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fingerprint => "fingerprint",
            Self::TextHash => "text-hash",
        }
    }
}

/// What a check-and-insert does with a duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum DuplicateAction {
    /// It is not stored
    Skip,
    /// It is stored as well
    Insert,
}

/// In how many seconds a document expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiresIn {
    /// In this many.
    Seconds(u64),
    /// It does not, and an expiry that it has is taken off.
    Never,
}

impl ExpiresIn {
    /// The longest time: a hundred years of 365.25 days.
    pub const SECONDS_MAX: u64 = 3_155_760_000;
}

impl fmt::Display for ExpiresIn {
    /// As a query parameter has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seconds(seconds) => seconds.fmt(f),
            Self::Never => f.write_str("never"),
        }
    }
}

/// What hits show of their documents in addition to their ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HitParts {
    /// Their metadata.
    pub metadata: bool,
}

crate::fields! {
    /// The fields of a document: exactly one of `text`, `html`, `features`, `vector`,
    /// `fingerprint`.
    pub struct DocumentFields<'v> {
        /// Plain text.
        text: Cow<'v, str> [FieldKind::STRING],
        /// A page of HTML.
        html: Cow<'v, str> [FieldKind::STRING],
        /// Weighted features: `{"token": weight}` or `[["token", weight]]`.
        features: Vec<(Cow<'v, str>, f64)> [FieldKind::Features],
        /// A dense vector, for recipes of vectors: as many numbers as the recipe has dimensions,
        /// read in single precision, not all zero.
        vector: Vec<f32> [FieldKind::Vector],
        /// A fingerprint: 16 hex digits with or without `0x`, or a 64-bit integer, signed or
        /// unsigned.
        fingerprint: Fingerprint [FieldKind::Fingerprint],
        /// The recipe of `fingerprint`; refused (409) unless it is the service's.
        recipe: Box<str> [FieldKind::STRING],
        /// The sketch of the text of `fingerprint`, as lists and exports show it: 312 hex digits.
        /// It verifies hits, and needs `recipe`.
        sketch: Box<Sketch> [FieldKind::Form("^[0-9a-fA-F]{312}$")],
        /// The caller's name for the document, usually its URL; or what to make it from.
        id: OfferedId [FieldKind::Id],
    }
}

crate::fields! {
    /// The options of a document and its look-up. Their ranges are checked against the
    /// configuration of the service.
    #[derive(Clone)]
    pub struct OfferOptions {
        /// The largest Hamming distance of a hit, 0 to the configured maximum.
        distance: u64 [FieldKind::Whole(0, Distance::LOOKUP_MAX.get() as u64)],
        /// How many hits are listed.
        limit: u64 [FieldKind::Whole(1, OfferOptions::LIMIT_MAX)],
        /// The similarity that confirms a hit; 0 switches verification off.
        min_similarity: f64 [FieldKind::SIMILARITY],
        /// The share of their numbers that two texts must have in common for a hit to count, 0 to
        /// 1; 0 demands none. Hits where a text has no number count all the same.
        min_numbers: f64 [FieldKind::SIMILARITY],
        /// `exact` finds fingerprints within the distance and no others; `likely`, for a text, also
        /// likely ones beyond it.
        search: SearchKind [FieldKind::Choice(&["likely", "exact"])],
        /// `false` ends the search at the first hit that counts, and lists it alone; `true`
        /// searches and verifies all. The default is true for a query and false for a
        /// check-and-insert.
        counts: bool [FieldKind::Boolean],
        /// `insert` stores duplicates too.
        on_duplicate: DuplicateAction [FieldKind::Choice(&["skip", "insert"])],
        /// `false` does not count the original of a duplicate (`GET /v1/originals`).
        touch: bool [FieldKind::Boolean],
        /// Which text of `html` counts; the default is the service's `query.extract`.
        extract: Extract [FieldKind::Choice(&["content", "visible", "main"])],
        /// Adds the heaviest features, the 64 sums, and to hits the bits that differ.
        explain: bool [FieldKind::Boolean],
        /// The namespace of the document; without it, the default namespace.
        namespace: Namespace [FieldKind::NAMESPACE],
        /// Only documents that were stored at most this many seconds ago count.
        max_age: u64 [FieldKind::Whole(1, u32::MAX as u64)],
        /// In how many seconds the document expires. `never` keeps it until it is removed, whatever
        /// the default, and takes the expiry off a stored document that has its id and fingerprint.
        expires_in: ExpiresIn [FieldKind::WholeOr(1, ExpiresIn::SECONDS_MAX, "never")],
        /// When the document expires, in seconds since 1970.
        expires_at: u64 [FieldKind::Whole(1, u32::MAX as u64)],
        /// Any JSON object; opaque to the service.
        metadata: OfferedMetadata [FieldKind::Metadata],
        /// What hits show of their documents in addition.
        include: HitParts [FieldKind::Names(&["metadata"])],
        /// Makes the id, if none is given, from the fingerprint or from the text.
        id_from: IdSource [FieldKind::Choice(&["fingerprint", "text-hash"])],
    }
}

impl FieldValue<'_> for HitParts {
    fn read(value: Value<'_>) -> Result<Self, Fault> {
        let mut parts = Self::default();
        value.names("an array of names", &mut |name| {
            parts.metadata |= Value::Parameter(name).choice("metadata", &[("metadata", true)])?;
            Ok(())
        })?;
        Ok(parts)
    }
}

impl OfferOptions {
    /// The maximum number of hits in a reply.
    pub const LIMIT_MAX: u64 = 1_000;

    /// These options of a line; those that are missing come from its batch. An expiry of the line
    /// takes the place of that of the batch, whichever way either is given.
    #[must_use]
    pub fn or_of_batch(self, batch: &Self) -> Self {
        let mut batch = batch.clone();
        if self.expires_in.is_some() || self.expires_at.is_some() {
            (batch.expires_in, batch.expires_at) = (None, None);
        }
        self.or(batch)
    }
}

impl<'a> Content<'a> {
    /// The field that it comes in.
    pub const fn field(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Html(_) => "html",
            Self::Features(_) => "features",
            Self::Vector(_) => "vector",
            Self::Fingerprint(_) => "fingerprint",
        }
    }

    /// Its bytes, about as many as in its file.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Html(text) => text.len(),
            Self::Features(features) => features.iter().map(|(token, _)| token.len() + 8).sum(),
            // The longest number has 24 characters.
            Self::Vector(vector) => 25 * vector.len(),
            Self::Fingerprint(_) => 16,
        }
    }

    /// Its JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Text(text) | Self::Html(text) => text.as_ref().into(),
            // Pairs keep their order and their repeats, which an object would not.
            Self::Features(features) => serde_json::json!(features),
            Self::Vector(vector) => serde_json::json!(vector),
            Self::Fingerprint(fingerprint) => fingerprint.to_string().into(),
        }
    }

    /// The same content, borrowed.
    pub fn borrowed(&self) -> Content<'_> {
        match self {
            Self::Text(text) => Content::Text(text.as_ref().into()),
            Self::Html(html) => Content::Html(html.as_ref().into()),
            Self::Features(features) => {
                let pairs = features.iter();
                Content::Features(pairs.map(|(token, w)| (token.as_ref().into(), *w)).collect())
            }
            Self::Vector(vector) => Content::Vector(vector.as_ref().into()),
            Self::Fingerprint(fingerprint) => Content::Fingerprint(*fingerprint),
        }
    }

    /// What its fingerprint is made of, or the fingerprint that it is.
    ///
    /// # Errors
    /// The fingerprint.
    pub fn into_source(self) -> Result<Source<'a>, Fingerprint> {
        match self {
            Self::Text(text) => Ok(Source::Text(text)),
            Self::Html(html) => Ok(Source::Html(html)),
            Self::Features(features) => Ok(Source::Features(features)),
            Self::Vector(vector) => Ok(Source::Vector(vector)),
            Self::Fingerprint(fingerprint) => Err(fingerprint),
        }
    }
}

impl<'v> DocumentFields<'v> {
    /// What is said of the text of `fingerprint`.
    pub fn origin(&mut self) -> FingerprintOrigin {
        FingerprintOrigin { recipe: self.recipe.take(), sketch: self.sketch.take() }
    }

    /// The contents that are given; a document has exactly one.
    pub fn contents(&mut self) -> impl Iterator<Item = Content<'v>> + use<'v> {
        let contents = [
            self.text.take().map(Content::Text),
            self.html.take().map(Content::Html),
            self.features.take().map(Content::Features),
            self.vector.take().map(|vector| Content::Vector(vector.into())),
            self.fingerprint.take().map(Content::Fingerprint),
        ];
        contents.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables describe the fields, and other code reads them: both must agree.
    #[test]
    fn each_field_takes_what_its_table_says_and_nothing_else() {
        let read = |name: &str, value: &str| {
            OfferOptions::default().set_known(name, Value::Parameter(value)).is_ok()
        };
        for Field { name, kind, .. } in OfferOptions::FIELDS {
            match kind {
                FieldKind::Choice(names) | FieldKind::Names(names) => {
                    for choice in *names {
                        assert!(read(name, choice), "{name} {choice}");
                    }
                    assert!(!read(name, "another"), "{name}");
                }
                FieldKind::Whole(min, max) => {
                    assert!(read(name, &min.to_string()) && read(name, &max.to_string()), "{name}");
                    for wrong in ["-1", "+1", "1.5", "x", ""] {
                        assert!(!read(name, wrong), "{name} {wrong}");
                    }
                }
                FieldKind::WholeOr(min, max, other) => {
                    assert!(read(name, &min.to_string()) && read(name, &max.to_string()), "{name}");
                    assert!(read(name, other), "{name} {other}");
                    for wrong in ["-1", "+1", "1.5", "x", "", "Never", "\"never\""] {
                        assert!(!read(name, wrong), "{name} {wrong}");
                    }
                }
                FieldKind::Number(min, max) => {
                    assert!(read(name, &min.to_string()) && read(name, &max.to_string()), "{name}");
                    assert!(!read(name, "x"), "{name}");
                }
                FieldKind::Boolean => {
                    assert!(
                        read(name, "true") && read(name, "false") && !read(name, "1"),
                        "{name}"
                    );
                }
                FieldKind::Text(_, max) => {
                    assert!(read(name, &"x".repeat(*max)), "{name}");
                    assert!(!read(name, &"x".repeat(max + 1)) && !read(name, ""), "{name}");
                }
                FieldKind::Metadata => {
                    assert!(read(name, "{}") && !read(name, "[]"), "{name}");
                }
                FieldKind::Features
                | FieldKind::Vector
                | FieldKind::Fingerprint
                | FieldKind::Id
                | FieldKind::Form(_)
                | FieldKind::Document(_) => panic!("{name} is not an option"),
            }
        }
    }
}
