//! Records with named fields, and the fields that the command line names.

use std::borrow::Cow;

use nearprint_wire::offer;

/// The forms of content that a field can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// Plain text.
    Text,
    /// HTML.
    Html,
    /// Weighted features.
    Features,
    /// A dense vector.
    Vector,
    /// A fingerprint of 16 hex digits, or an integer.
    Fingerprint,
}

/// The fields that the command line names. What it does not name is found by its name. A path of
/// names with dots between them leads into objects (`meta.url`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping {
    /// The field with the id, which every record must have then.
    pub id: Option<String>,
    /// The field with the content.
    pub body: Option<(BodyKind, String)>,
    /// The field with the namespace.
    pub namespace: Option<String>,
    /// The fields that are kept as metadata. Without any, `metadata` itself is.
    pub metadata: Vec<String>,
}

/// How fingerprints are written in texts and in cells of CSV, where 16 decimal digits could be
/// either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum FingerprintFormat {
    /// 16 hex digits
    #[default]
    Hex,
    /// An integer of 64 bits, signed or not
    Decimal,
}

/// How the fields of a record become parts of a document.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rules {
    pub(crate) fingerprints: FingerprintFormat,
    /// A document needs neither an id nor a namespace, and a null content is an empty text.
    pub(crate) is_lenient: bool,
}

/// The value of a field that is there and is not null.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RecordValue<'a> {
    /// A string.
    Text(Cow<'a, str>),
    /// A string in which U+FFFD stands for halves of surrogate pairs.
    Mended(String),
    /// Bytes that are not text, as hex digits.
    Hex(String),
    /// Any other value, as JSON.
    Json(Cow<'a, str>),
    /// A cell of CSV, which has no type.
    Cell(Cow<'a, str>),
}

impl RecordValue<'_> {
    /// The value as it is offered.
    pub(super) fn offered(&self) -> offer::Value<'_> {
        match self {
            Self::Json(json) => offer::Value::Json(json),
            Self::Text(text) | Self::Cell(text) => offer::Value::Cell(text),
            Self::Mended(text) | Self::Hex(text) => offer::Value::Cell(text),
        }
    }

    /// The same value, which borrows nothing.
    pub(crate) fn into_owned(self) -> RecordValue<'static> {
        match self {
            Self::Text(text) => RecordValue::Text(text.into_owned().into()),
            Self::Mended(text) => RecordValue::Mended(text),
            Self::Hex(digits) => RecordValue::Hex(digits),
            Self::Json(json) => RecordValue::Json(json.into_owned().into()),
            Self::Cell(cell) => RecordValue::Cell(cell.into_owned().into()),
        }
    }

    /// Its JSON, which may also be in a text.
    pub(super) fn json(&self) -> &str {
        match self {
            Self::Text(json) | Self::Json(json) | Self::Cell(json) => json,
            Self::Mended(text) | Self::Hex(text) => text,
        }
    }
}

/// A record with named fields.
pub(crate) trait Fields {
    /// The value at a path. A field with the name of the whole path comes first.
    ///
    /// # Errors
    /// The value cannot be read, or the record has several fields with this name.
    fn get(&self, path: &str) -> Result<Option<RecordValue<'_>>, String>;

    /// The names of the outermost fields.
    fn names(&self) -> Vec<&str>;

    /// Whether the record has a field at a path, or the outermost one that the path leads through,
    /// null or not.
    fn has(&self, path: &str) -> bool {
        let leads = |name: &&str| {
            path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.names().iter().any(leads)
    }

    /// The name of an outermost field as the record spells it, whatever the case of its letters.
    fn spelt(&self, name: &str) -> Option<&str> {
        self.names().into_iter().find(|own| own.eq_ignore_ascii_case(name))
    }
}

/// The start of a text that may be long.
pub(crate) fn shortened(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
