//! What a reader yields: documents, what else a file has, and entries that cannot be read.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use nearprint_machine::document::DocumentId;
use nearprint_wire::offer::{
    Content, DocumentFields, Fault, FieldSet as _, FieldValue as _, Offer, OfferOptions, OfferedId,
    Value,
};

use crate::escape::escaped_path;

/// The longest record in bytes, after decompression. Longer ones are reported and skipped.
pub const DOCUMENT_BYTES_MAX: usize = 8 << 20;

/// What is wrong with a cell or a line of text in which there is a NUL byte. File systems leave
/// blocks of them where they lost what was written.
pub(super) const NUL: &str = "has NUL bytes: part of it was lost when the file was damaged";

/// What a reader yields.
pub(super) type Item = Result<FileRecord, BadEntry>;

/// A record of a file.
#[derive(Debug, Clone, PartialEq)]
pub enum FileRecord {
    /// A document.
    Document(Entry),
    /// What belongs to the file and is not a document.
    Other(Other),
}

/// A record that is not a document: the header of a table, a request in a web archive, a file of a
/// folder that no reader understands.
#[derive(Debug, Clone, PartialEq)]
pub struct Other {
    /// Where the record is.
    pub place: Place,
    /// Its bytes, if they were asked for and are within the limit.
    pub raw: Raw,
    /// What it is, in the plural, for people.
    pub what: &'static str,
}

/// One document as its file has it.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Where the document is.
    pub place: Place,
    /// The record as it stands in its file, if it was asked for.
    pub raw: Raw,
    /// The id that the file gives it; the path for a file that is one document.
    pub id: Option<String>,
    /// The content.
    pub content: Content<'static>,
    /// What else its record says of it.
    pub passed: Vec<Passed>,
}

impl Entry {
    /// The document as it is offered to a collection.
    ///
    /// # Errors
    /// A field has a value that it does not take.
    pub fn offer(&self) -> Result<Offer<'_>, Fault> {
        let given = |id: &String| DocumentId::new(id.as_str()).map(OfferedId::Given);
        let mut id = self.id.as_ref().map(given).transpose().map_err(Fault::value)?;
        let (mut options, mut document) = (OfferOptions::default(), DocumentFields::default());
        for (name, json) in &self.passed {
            let value = Value::Json(json);
            let read = match *name {
                "id" => OfferedId::read(value).map(|made| id = Some(made)),
                "recipe" | "sketch" => document.set_known(name, value),
                name => options.set_known(name, value),
            };
            read.map_err(|fault| fault.of_field(name))?;
        }
        let (content, origin) = (self.content.borrowed(), document.origin());
        Ok(Offer { content, id, origin, options })
    }

    /// The document as a line of JSON for a service.
    pub fn to_json(&self) -> String {
        let content = (self.content.field(), self.content.to_json().to_string());
        let id = self.id.as_deref().map(|id| ("id", serde_json::Value::from(id).to_string()));
        let passed = self.passed.iter().map(|(name, json)| (*name, json.to_string()));
        let fields = id.into_iter().chain([content]).chain(passed);
        let fields: Vec<_> = fields.map(|(name, json)| format!("\"{name}\":{json}")).collect();
        format!("{{{}}}", fields.join(","))
    }

    /// Whether the file names the document, or says how the service makes its id.
    pub fn has_id(&self) -> bool {
        self.id.is_some() || self.passed.iter().any(|(field, _)| *field == "id")
    }
}

/// A record as it stands in its file, so that it can be written elsewhere unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Raw {
    /// It was not asked for, or the whole file is the record.
    #[default]
    None,
    /// A line or a record of CSV without the end of its line; an element of a JSON array; a record
    /// of a web archive with its headers and the two line ends after it. Shares the memory of the
    /// buffer that it was read into.
    Bytes(Bytes),
    /// A piece of a long record, whose other pieces follow.
    Piece {
        /// The bytes of the piece.
        bytes: Bytes,
        /// No other follows.
        is_last: bool,
    },
    /// A row of Parquet. All rows of a batch share it.
    Row(Arc<RecordBatch>, usize),
}

/// A field that the import passes on to the service as it is: its name and its JSON.
pub type Passed = (&'static str, Box<str>);

/// The content of a record, without its place, which the reader knows.
#[derive(Debug, PartialEq)]
pub(super) struct Parsed {
    pub(super) id: Option<String>,
    pub(super) content: Content<'static>,
    pub(super) passed: Vec<Passed>,
}

/// An entry that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {why}")]
pub struct BadEntry {
    /// Where the entry is.
    pub place: Place,
    /// The record as it stands in its file, if it was asked for and its end was found.
    pub raw: Raw,
    /// What is wrong with it.
    pub why: String,
}

/// A place in the input, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file; `-` is the standard input. All records of a file share the path.
    pub path: Arc<Path>,
    /// The record within the file; `None` for the whole file.
    pub record: Option<FilePosition>,
}

/// Which record of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePosition {
    /// `line`, `record` or `row`.
    pub unit: &'static str,
    /// Counted from 1.
    pub number: u64,
    /// The first byte of the record, counted from 0 after decompression; `None` in Parquet.
    pub offset: Option<u64>,
}

impl Place {
    pub(super) fn file(path: &Path) -> Self {
        Self { path: path.into(), record: None }
    }

    /// The place of a record that begins this many bytes later.
    pub(super) fn advanced(mut self, bytes: usize) -> Self {
        if let Some(FilePosition { offset: Some(offset), .. }) = &mut self.record {
            *offset += bytes as u64;
        }
        self
    }

    pub(super) fn bad(self, why: impl fmt::Display) -> BadEntry {
        BadEntry { place: self, raw: Raw::None, why: why.to_string() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self.path == *"-" {
            f.write_str("standard input")?;
        } else {
            f.write_str(&escaped_path(&self.path))?;
        }
        let Some(FilePosition { unit, number, offset }) = self.record else {
            return Ok(());
        };
        write!(f, " {unit} {number}")?;
        offset.map_or(Ok(()), |offset| write!(f, " (byte {offset})"))
    }
}
