//! What applies to all files of a run, and what is said about them.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::entry::{
    BadEntry, DOCUMENT_BYTES_MAX, Entry, FileRecord, Item, Other, Parsed, Place, Position, Raw,
};
use super::escape::escaped_path;
use super::mapping::{self, Fields, Mapping, shortened};
use crate::offer::Content;

/// The most files whose understanding is explained; all files of one kind count once.
const NOTES_MAX: usize = 20;
/// How much of a document is shown.
const CHARS_SHOWN_MAX: usize = 60;

/// The form in which a reader yields records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordForm {
    /// The parsed content.
    #[default]
    Parsed,
    /// The parsed content and the bytes of the record ([`Raw`]).
    Both,
    /// The bytes of the record, for callers that have read the content before. Lines are not parsed:
    /// each becomes a document without content, even if parsing it would fail.
    Raw,
}

impl RecordForm {
    pub(super) const fn has_raw(self) -> bool {
        matches!(self, Self::Both | Self::Raw)
    }
}

/// What applies to all files of a run.
#[derive(Debug, Default)]
pub(super) struct Context {
    pub(super) mapping: Mapping,
    pub(super) form: RecordForm,
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    notes: Vec<String>,
    explained: HashSet<String>,
    left_out: BTreeMap<&'static str, u64>,
    doubts: BTreeMap<&'static str, Doubt>,
}

/// Documents that were read although something is wrong with their records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doubt {
    /// How many they are.
    pub count: u64,
    /// Where the first of them is.
    pub first: String,
}

impl Context {
    pub(super) fn new(mapping: Mapping, form: RecordForm) -> Arc<Self> {
        Arc::new(Self { mapping, form, said: Mutex::default() })
    }

    fn said(&self) -> std::sync::MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to say since the last call.
    pub(super) fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.said().notes)
    }

    /// How many records of each kind were no documents.
    pub(super) fn left_out(&self) -> BTreeMap<&'static str, u64> {
        self.said().left_out.clone()
    }

    pub(super) fn leave_out(&self, what: &'static str) {
        *self.said().left_out.entry(what).or_default() += 1;
    }

    /// What is wrong with records that were read, and with how many.
    pub(super) fn doubts(&self) -> BTreeMap<&'static str, Doubt> {
        self.said().doubts.clone()
    }

    /// Counts a record that is read although something is wrong with it.
    pub(super) fn doubt(&self, what: &'static str, place: &Place) {
        let mut said = self.said();
        let new = || Doubt { count: 0, first: place.to_string() };
        said.doubts.entry(what).or_insert_with(new).count += 1;
    }

    /// Explains the fields of a file once for all files that have the same, with its first document.
    fn explain(&self, file: &Path, format: &str, mapping: &str, first: &Parsed) {
        let mut said = self.said();
        if said.explained.len() < NOTES_MAX && said.explained.insert(format!("{format} {mapping}"))
        {
            let name = if file == Path::new("-") {
                "standard input".to_owned()
            } else {
                escaped_path(file).into_owned()
            };
            said.notes.push(format!("{name}: {format}; {mapping}"));
            said.notes.push(format!("  its first document: {}", described(first)));
        }
    }
}

/// A document in a few words.
fn described(document: &Parsed) -> String {
    let id = match &document.id {
        Some(id) => format!("id {:?}", shortened(id, CHARS_SHOWN_MAX)),
        None => "no id".to_owned(),
    };
    let text = |what: &str, text: &str| {
        let length = text.chars().count();
        format!("{what} of {length} characters {:?}", shortened(text, CHARS_SHOWN_MAX))
    };
    let body = match &document.content {
        Content::Text(content) => text("text", content),
        Content::Html(content) => text("HTML", content),
        Content::Features(features) => format!("{} features", features.len()),
        Content::Vector(vector) => format!("vector of {} dimensions", vector.len()),
        Content::Fingerprint(fingerprint) => format!("fingerprint {fingerprint}"),
    };
    format!("{id}, {body}")
}

/// A file of many records that is being read.
pub(super) struct File {
    pub(super) context: Arc<Context>,
    path: Arc<Path>,
    /// The format, for people.
    format: &'static str,
    /// What its records are called.
    unit: &'static str,
    is_explained: bool,
}

impl File {
    pub(super) fn new(
        context: &Arc<Context>,
        path: &Path,
        format: &'static str,
        unit: &'static str,
    ) -> Self {
        Self { context: Arc::clone(context), path: path.into(), format, unit, is_explained: false }
    }

    /// Which fields become the parts of documents.
    pub(super) fn mapping(&self) -> &Mapping {
        &self.context.mapping
    }

    /// The place of a record.
    pub(super) fn place(&self, number: u64, offset: Option<u64>) -> Place {
        let record = Some(Position { unit: self.unit, number, offset });
        Place { path: Arc::clone(&self.path), record }
    }

    /// The document that a record with fields is.
    pub(super) fn document(&mut self, place: Place, raw: Raw, fields: &dyn Fields) -> Item {
        let parsed = mapping::assemble(fields, &self.context.mapping);
        if !self.is_explained
            && let Ok(first) = &parsed
            && let Some(mapping) = mapping::explain(fields, &self.context.mapping)
        {
            self.is_explained = true;
            self.context.explain(&self.path, self.format, &mapping, first);
        }
        self.parsed(place, raw, parsed)
    }

    /// The document that a row of a table is, and whether the rows after it would fail as it does.
    pub(super) fn row(
        &mut self,
        (place, raw): (Place, Raw),
        columns: &[String],
        fields: &dyn Fields,
    ) -> (Item, bool) {
        match self.document(place, raw, fields) {
            Err(BadEntry { place, why }) if !mapping::has_content(columns, self.mapping()) => {
                (Err(place.bad(format!("{why}. The rest of the table is not read"))), true)
            }
            item => (item, false),
        }
    }

    /// The document that a record was parsed to.
    pub(super) fn parsed(&self, place: Place, raw: Raw, parsed: Result<Parsed, String>) -> Item {
        match parsed {
            Err(why) => Err(place.bad(why)),
            Ok(Parsed { content: Content::Text(text) | Content::Html(text), .. })
                if text.len() > DOCUMENT_BYTES_MAX =>
            {
                Err(place.bad(too_long()))
            }
            Ok(Parsed { id, content, passed }) => {
                let raw = if self.context.form.has_raw() { raw } else { Raw::None };
                Ok(FileRecord::Document(Entry { place, raw, id, content, passed }))
            }
        }
    }

    /// A record that is no document.
    pub(super) fn other(&self, place: Place, raw: Bytes, what: &'static str) -> FileRecord {
        let raw = if self.context.form.has_raw() { Raw::Bytes(raw) } else { Raw::None };
        FileRecord::Other(Other { place, raw, what })
    }
}

/// Why a record above the limit is refused.
pub(super) fn too_long() -> String {
    format!("longer than {DOCUMENT_BYTES_MAX} bytes")
}

/// How much may be read a second time to find where the records after a broken one begin.
pub(super) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(8 * DOCUMENT_BYTES_MAX)
    }
}

impl Budget {
    /// Whether this many bytes may be read again.
    pub(super) fn allows(&mut self, bytes: usize) -> bool {
        match self.0.checked_sub(bytes) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => false,
        }
    }
}
