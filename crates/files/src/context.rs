//! What applies to all files of a run, and what is said about them.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use nearprint_wire::offer::Content;

use super::entry::{
    BadEntry, DOCUMENT_BYTES_MAX, Entry, FilePosition, FileRecord, Item, Other, Parsed, Place, Raw,
};
use super::escape::escaped_path;
use super::mapping::{self, Fields, FingerprintFormat, Mapping, Rules, shortened};
use super::source::Charset;
use crate::ReadOptions;

/// The most files whose understanding is explained; all files of one kind count once.
const NOTES_MAX: usize = 20;
/// How much of a document is shown.
const CHARS_SHOWN_MAX: usize = 60;

/// How cells of a table are quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Quoting {
    /// A cell may stand between two quotes; a quote in it is written twice
    Double,
    /// A quote is a character like any other
    None,
}

/// The form in which a reader yields records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecordForm {
    /// The parsed content.
    #[default]
    Parsed,
    /// The parsed content and the bytes of the record ([`Raw`]).
    Both,
    /// The bytes of the record, for callers that have read the content before. Lines are not
    /// parsed: each becomes a document without content, even if parsing it would fail.
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
    pub(super) charset: Option<Charset>,
    pub(super) delimiter: Option<u8>,
    pub(super) quoting: Option<Quoting>,
    pub(super) fingerprints: Option<FingerprintFormat>,
    pub(super) is_lenient: bool,
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    notes: Vec<String>,
    explained: HashSet<String>,
    left_out: BTreeMap<&'static str, u64>,
    doubts: BTreeMap<&'static str, Doubt>,
    /// Files whose first record has no field that is known to have the content of a document.
    without_content: HashSet<Arc<Path>>,
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
    pub(super) fn of(options: &ReadOptions) -> Arc<Self> {
        Arc::new(Self {
            mapping: options.mapping.clone(),
            form: options.form,
            charset: options.charset,
            delimiter: options.delimiter,
            quoting: options.quoting,
            fingerprints: options.fingerprints,
            is_lenient: options.is_lenient,
            said: Mutex::default(),
        })
    }

    #[cfg(test)]
    pub(super) fn new(mapping: Mapping, form: RecordForm) -> Arc<Self> {
        Self::of(&ReadOptions { mapping, form, ..ReadOptions::default() })
    }

    /// What is said of a file once.
    pub(super) fn say(&self, file: &Path, what: &str) {
        let mut said = self.said();
        if said.explained.len() < NOTES_MAX && said.explained.insert(what.to_owned()) {
            said.notes.push(format!("{}: {what}", shown(file)));
        }
    }

    fn said(&self) -> std::sync::MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to say since the last call.
    pub(super) fn notes(&self) -> Vec<String> {
        std::mem::take(&mut self.said().notes)
    }

    /// How many records of each kind were not documents.
    pub(super) fn left_out(&self) -> BTreeMap<&'static str, u64> {
        self.said().left_out.clone()
    }

    pub(super) fn leave_out(&self, what: &'static str) {
        *self.said().left_out.entry(what).or_default() += 1;
    }

    /// Whether the first record of a file has no field for content.
    pub(super) fn is_without_content(&self, file: &Path) -> bool {
        self.said().without_content.contains(file)
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

    /// Explains the fields of a file once for all files that have the same, with its first
    /// document.
    fn explain(&self, file: &Path, format: &str, mapping: &str, first: &Parsed) {
        let mut said = self.said();
        if said.explained.len() < NOTES_MAX && said.explained.insert(format!("{format} {mapping}"))
        {
            said.notes.push(format!("{}: {format}; {mapping}", shown(file)));
            said.notes.push(format!("  its first document: {}", described(first)));
        }
    }
}

/// The name of a file.
fn shown(file: &Path) -> String {
    if file == Path::new("-") {
        return "standard input".to_owned();
    }
    escaped_path(file).into_owned()
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
    /// No record was assembled yet.
    is_first: bool,
    /// How fingerprints in texts are written in this file.
    fingerprints: FingerprintFormat,
    /// Records are looked at, and not read.
    probe: Option<Arc<Mutex<FingerprintSample>>>,
}

impl File {
    pub(super) fn new(
        context: &Arc<Context>,
        path: &Path,
        format: &'static str,
        unit: &'static str,
    ) -> Self {
        let (context, path) = (Arc::clone(context), path.into());
        let fingerprints = context.fingerprints.unwrap_or_default();
        let (is_explained, is_first) = (false, true);
        Self { context, path, format, unit, is_explained, is_first, fingerprints, probe: None }
    }

    /// The same file, whose records are looked at, and not read; and what they show.
    pub(super) fn probe(&self) -> (Self, Arc<Mutex<FingerprintSample>>) {
        let mut file = Self::new(&self.context, &self.path, self.format, self.unit);
        let sample = Arc::new(Mutex::default());
        file.probe = Some(Arc::clone(&sample));
        (file, sample)
    }

    /// Decides by a sample of the file how fingerprints in texts are written, unless the user does.
    pub(super) fn sample_fingerprints(&mut self, sample: &FingerprintSample) {
        if self.context.fingerprints.is_some() {
            return;
        }
        if let Some(format) = sample.format() {
            self.fingerprints = format;
        } else if sample.is_ambiguous {
            let said = "fingerprints of 16 decimal digits are read as hex digits; pass \
                        --fingerprint-format decimal if they are decimal numbers";
            self.context.say(&self.path, said);
        }
    }

    /// How the fields of its records become parts of documents.
    fn rules(&self) -> Rules {
        Rules { fingerprints: self.fingerprints, is_lenient: self.context.is_lenient }
    }

    /// Which fields become the parts of documents.
    pub(super) fn mapping(&self) -> &Mapping {
        &self.context.mapping
    }

    /// The place of a record.
    pub(super) fn place(&self, number: u64, offset: Option<u64>) -> Place {
        let record = Some(FilePosition { unit: self.unit, number, offset });
        Place { path: Arc::clone(&self.path), record }
    }

    /// The document that a record with fields is.
    pub(super) fn document(&mut self, place: Place, raw: Raw, fields: &dyn Fields) -> Item {
        if let Some(probe) = &self.probe {
            let mut sample = probe.lock().unwrap_or_else(PoisonError::into_inner);
            sample.add(fields, &self.context.mapping);
            return Err(place.bad("is not read"));
        }
        let parsed = mapping::assemble(fields, &self.context.mapping, self.rules());
        if !self.is_explained
            && let Ok(first) = &parsed
            && let Some(mapping) = mapping::explain(fields, &self.context.mapping, self.rules())
        {
            self.is_explained = true;
            self.context.explain(&self.path, self.format, &mapping, first);
        }
        let is_first = std::mem::take(&mut self.is_first);
        if is_first && parsed.is_err() && mapping::is_without_content(fields, self.mapping()) {
            self.context.said().without_content.insert(Arc::clone(&self.path));
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
            Err(BadEntry { place, why, .. })
                if !self.context.is_lenient && !mapping::has_content(columns, self.mapping()) =>
            {
                let advice = match columns {
                    [_] => "; if other characters separate its cells, pass --delimiter",
                    _ => "",
                };
                (Err(place.bad(format!("{why}{advice}. The rest of the table is not read"))), true)
            }
            item => (item, false),
        }
    }

    /// The document that a record was parsed to.
    pub(super) fn parsed(&self, place: Place, raw: Raw, parsed: Result<Parsed, String>) -> Item {
        match parsed {
            Err(why) => Err(self.bad((place, raw), why)),
            Ok(Parsed { content: Content::Text(text) | Content::Html(text), .. })
                if text.len() > DOCUMENT_BYTES_MAX =>
            {
                Err(self.bad((place, raw), too_long()))
            }
            Ok(Parsed { id, content, passed }) => {
                let raw = if self.context.form.has_raw() { raw } else { Raw::None };
                Ok(FileRecord::Document(Entry { place, raw, id, content, passed }))
            }
        }
    }

    /// A record that cannot be read, although its end was found.
    pub(super) fn bad(&self, (place, raw): (Place, Raw), why: impl std::fmt::Display) -> BadEntry {
        let raw = if self.context.form.has_raw() { raw } else { Raw::None };
        BadEntry { raw, ..place.bad(why) }
    }

    /// A record that is not a document.
    pub(super) fn other(&self, place: Place, raw: Bytes, what: &'static str) -> FileRecord {
        let raw = if self.context.form.has_raw() { Raw::Bytes(raw) } else { Raw::None };
        FileRecord::Other(Other { place, raw, what })
    }
}

/// What the first records of a file show of how fingerprints in texts are written.
#[derive(Debug, Default)]
pub(super) struct FingerprintSample {
    is_hex: bool,
    is_decimal: bool,
    is_ambiguous: bool,
}

impl FingerprintSample {
    /// Adds a record.
    pub(super) fn add(&mut self, fields: &dyn Fields, mapping: &Mapping) {
        let Some(text) = mapping::fingerprint_text(fields, mapping) else { return };
        let text = text.trim();
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            self.is_hex = true;
        } else if text.len() == 16 && digits.len() == 16 {
            // Decimal numbers have no zeros in front.
            self.is_hex |= text.starts_with('0');
            self.is_ambiguous |= !text.starts_with('0');
        } else {
            self.is_decimal = true;
        }
    }

    /// The one rule for all; `None` if either fits.
    const fn format(&self) -> Option<FingerprintFormat> {
        match (self.is_hex, self.is_decimal) {
            (true, _) => Some(FingerprintFormat::Hex),
            (false, true) => Some(FingerprintFormat::Decimal),
            (false, false) => None,
        }
    }
}

/// Why a record above the limit is refused.
pub(super) fn too_long() -> String {
    format!("longer than {DOCUMENT_BYTES_MAX} bytes")
}

/// The most bytes that may be read a second time without records that are read in between.
const READ_AGAIN_MAX: usize = 8 * DOCUMENT_BYTES_MAX;

/// How much may be read a second time to find where the records after a broken one begin. Together
/// with what records earn, a file is read at most twice, and [`READ_AGAIN_MAX`] bytes more.
pub(super) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(READ_AGAIN_MAX)
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

    /// A record of this many bytes was read.
    pub(super) fn earn(&mut self, bytes: usize) {
        self.0 = self.0.saturating_add(bytes).min(READ_AGAIN_MAX);
    }
}
