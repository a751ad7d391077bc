//! The first pass: one thread reads, the others make fingerprints, in the order of the files.

use std::collections::{BTreeMap, HashMap};
use std::io;

use nearprint_fingerprint::{Fingerprint, Sketch};
use nearprint_text::{Analysis, Method, Wanted};
use nearprint_wire::offer::Content;

use crate::batch::in_order;
use crate::dedup::columns::{Bits, Fingerprints, Texts};
use crate::dedup::spill::{Spill, SpillWriter};
use crate::{BadEntry, BatchOptions, DocumentBatch, Documents, Entry};

/// The batches that threads take.
pub(super) const BATCH: BatchOptions =
    BatchOptions { items_max: 512, bytes_max: 1 << 20, stops_at_errors: false };
/// Bytes that are in memory whatever the number of documents: batches that wait, and buffers.
pub const FIXED_BYTES: u64 = 96 << 20;
/// Bytes of memory for a document while groups are searched: 12 in columns, 62 in the index, 34 of
/// them for labels, and 28 in the search.
pub const DOCUMENT_BYTES: u64 = COLUMN_BYTES + INDEXED_BYTES;
const COLUMN_BYTES: u64 = 12;
const INDEXED_BYTES: u64 = 62 + 28;
/// Those of a document of the part that is searched: in addition its number, and the group that it
/// is in already.
pub(super) const PART_DOCUMENT_BYTES: u64 = INDEXED_BYTES + 4 + 18;
/// Bytes of memory for a document if the search is divided: 12 in columns, and up to 28 for the
/// groups once they are found, if each has two documents.
pub const DIVIDED_DOCUMENT_BYTES: u64 = COLUMN_BYTES + 28;
/// Those of any document while a part is searched: 4 for its group, and the number of its part.
const UNSEARCHED_DOCUMENT_BYTES: u64 = COLUMN_BYTES + 5;

/// What the first pass is to find out.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "wishes do not depend on each other")]
pub struct Wishes {
    /// How texts become fingerprints.
    pub method: Method,
    /// Whether sketches are compared.
    pub sketches: bool,
    /// Whether the names of documents are kept: 8 bytes and the name for each.
    pub names: bool,
    /// Whether the metadata of documents are kept: 8 bytes and their JSON for each.
    pub metadata: bool,
    /// The field of the metadata with the number by which documents are chosen.
    pub score: Option<String>,
    /// Threads that make fingerprints.
    pub threads: usize,
    /// The first entry that cannot be read ends the pass.
    pub stops_at_errors: bool,
    /// The most bytes of memory of the whole run.
    pub memory_max: u64,
    /// The bytes of memory that a document takes at least: [`DOCUMENT_BYTES`], or
    /// [`DIVIDED_DOCUMENT_BYTES`].
    pub document_bytes: u64,
}

/// Why documents were not all read.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// Further ones need too much memory.
    #[error("more than {0} documents need more memory than the limit")]
    Memory(usize),
    /// The temporary file of sketches cannot be written.
    #[error("the temporary file of sketches cannot be written")]
    Spill(#[from] io::Error),
}

/// What the first pass found, by document, counted from 0 in the order of the files.
#[derive(Debug, Default)]
pub struct Scanned {
    pub(super) fingerprints: Fingerprints,
    /// The bytes of the content; more than 4 GiB count as that.
    pub(super) lengths: Vec<u32>,
    /// The number by which documents are chosen; empty unless it was wanted.
    pub(super) scores: Vec<f64>,
    /// Empty unless they were wanted.
    pub(super) names: Texts,
    /// JSON objects; empty unless they were wanted.
    pub(super) metadata: Texts,
    /// Which of the namespaces it is in; empty if no document has one.
    pub(super) namespaces: Vec<u32>,
    /// All namespaces; the first is that of documents without one.
    pub(super) all_namespaces: Vec<Box<str>>,
    pub(super) spill: Option<Spill>,
    /// For each record that is or should be a document, whether it could be read.
    pub(super) readable: Bits,
    /// Documents that a collection has nearly.
    pub(super) known: BTreeMap<u32, Known>,
    /// The entries that could not be read.
    pub bad: Vec<BadEntry>,
    /// How many there were; only the first ones are kept.
    pub bad_count: u64,
}

/// A document of a collection that is nearly one of the files.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Its id, or what stands for it.
    pub name: Box<str>,
    /// The distance to it.
    pub distance: u8,
    /// The similarity to it, 0 to 1, if both are texts that were compared.
    pub similarity: Option<f64>,
}

/// Bad entries that are kept.
pub(super) const BAD_KEPT: usize = 10;

/// A document after its analysis.
struct Analysed {
    fingerprint: Option<Fingerprint>,
    is_short: bool,
    sketch: Option<Box<Sketch>>,
    length: u32,
    name: Option<Box<str>>,
    metadata: Option<Box<str>>,
    namespace: Option<Box<str>>,
    score: f64,
}

/// What is said while documents are read.
pub trait Watcher {
    /// This many documents were read so far.
    fn at(&mut self, documents: u64);

    /// How a file is understood.
    fn note(&mut self, note: &str);

    /// Whether to go on.
    fn goes_on(&self) -> bool;
}

/// Says nothing, and always goes on.
#[cfg(test)]
pub(super) struct Silent;

#[cfg(test)]
impl Watcher for Silent {
    fn at(&mut self, _: u64) {}

    fn note(&mut self, _: &str) {}

    fn goes_on(&self) -> bool {
        true
    }
}

impl Scanned {
    /// Reads all documents.
    ///
    /// # Errors
    /// [`ScanError`].
    pub fn of(
        documents: &mut Documents,
        wishes: &Wishes,
        watcher: &mut dyn Watcher,
    ) -> Result<Self, ScanError> {
        let mut scanned = Self { all_namespaces: vec!["".into()], ..Self::default() };
        let (mut spill, mut namespaces) = (SpillWriter::default(), HashMap::new());
        let options = BatchOptions { stops_at_errors: wishes.stops_at_errors, ..BATCH };
        let work = |entries: Vec<Entry>| -> Vec<Analysed> {
            entries.into_iter().map(|entry| analysed(entry, wishes)).collect()
        };
        in_order(documents, (options, wishes.threads), work, |batch, documents| {
            scanned.note(batch, watcher);
            for document in documents {
                spill.add(document.is_short, document.sketch.as_deref())?;
                scanned.add(document, &mut namespaces);
            }
            watcher.at(scanned.len() as u64);
            if scanned.bytes(wishes.document_bytes) > wishes.memory_max {
                return Err(ScanError::Memory(scanned.len()));
            }
            Ok(watcher.goes_on())
        })?;
        // Those of files at the end that have no documents.
        documents.records().notes().iter().for_each(|note| watcher.note(note));
        scanned.spill = spill.finish()?;
        Ok(scanned)
    }

    /// Takes documents out that a collection has nearly: they go, and are in no group.
    pub fn take_out(&mut self, known: BTreeMap<u32, Known>) {
        for &document in known.keys() {
            self.fingerprints.take(document);
        }
        self.known = known;
    }

    /// The number of documents.
    pub fn len(&self) -> usize {
        self.fingerprints.len()
    }

    /// Whether there is no document.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether an index of all documents fits into so many bytes of memory.
    pub fn fits(&self, memory_max: u64) -> bool {
        self.bytes(DOCUMENT_BYTES) <= memory_max
    }

    /// The bytes of memory that are left for a part of the documents.
    pub(super) fn bytes_left(&self, memory_max: u64) -> u64 {
        memory_max.saturating_sub(self.bytes(UNSEARCHED_DOCUMENT_BYTES))
    }

    /// The bytes of memory that a run with these documents needs, so many for each.
    fn bytes(&self, document: u64) -> u64 {
        let scores = self.scores.len() * size_of::<f64>();
        let namespaces = self.namespaces.len() * size_of::<u32>();
        let columns = (scores + namespaces) as u64 + self.names.bytes() + self.metadata.bytes();
        FIXED_BYTES + columns + self.len() as u64 * document
    }

    /// Which of the namespaces a document is in.
    pub(super) fn namespace(&self, document: u32) -> u32 {
        self.namespaces.get(document as usize).copied().unwrap_or_default()
    }

    /// Keeps what a batch says in addition to its documents.
    fn note(&mut self, batch: DocumentBatch, watcher: &mut dyn Watcher) {
        batch.notes.iter().for_each(|note| watcher.note(note));
        batch.readable.iter().for_each(|&readable| self.readable.push(readable));
        self.bad_count += batch.bad.len() as u64;
        let room = BAD_KEPT.saturating_sub(self.bad.len());
        self.bad.extend(batch.bad.into_iter().take(room));
    }

    fn add(&mut self, document: Analysed, namespaces: &mut HashMap<Box<str>, u32>) {
        if let Some(name) = document.namespace {
            let next = self.all_namespaces.len() as u32;
            let number = *namespaces.entry(name).or_insert_with_key(|name| {
                self.all_namespaces.push(name.clone());
                next
            });
            self.namespaces.resize(self.len(), 0);
            self.namespaces.push(number);
        } else if !self.namespaces.is_empty() {
            self.namespaces.push(0);
        }
        self.fingerprints.push(document.fingerprint);
        self.lengths.push(document.length);
        if !document.score.is_nan() || !self.scores.is_empty() {
            self.scores.resize(self.len() - 1, f64::NAN);
            self.scores.push(document.score);
        }
        document.name.iter().for_each(|name| self.names.push(name));
        document.metadata.iter().for_each(|metadata| self.metadata.push(metadata));
    }
}

fn analysed(entry: Entry, wishes: &Wishes) -> Analysed {
    let namespace = namespace(&entry);
    let metadata = passed(&entry, "metadata").map_or_else(|| "{}".into(), Box::from);
    let score = wishes.score.as_ref().and_then(|field| number(&metadata, field));
    let name = wishes.names.then(|| name(&entry));
    let length = u32::try_from(entry.content.bytes()).unwrap_or(u32::MAX);
    let Made { fingerprint, is_short, sketch } =
        made(entry.content, wishes.method, wishes.sketches);
    let score = score.unwrap_or(f64::NAN);
    let metadata = wishes.metadata.then_some(metadata);
    Analysed { fingerprint, is_short, sketch, length, name, metadata, namespace, score }
}

/// A field of a record that is passed on as it is.
fn passed<'e>(entry: &'e Entry, wanted: &str) -> Option<&'e str> {
    entry.passed.iter().find(|(field, _)| *field == wanted).map(|(_, json)| &**json)
}

/// The namespace of a document; `None` for the default one.
pub(super) fn namespace(entry: &Entry) -> Option<Box<str>> {
    passed(entry, "namespace").and_then(|json| serde_json::from_str(json).ok())
}

/// The number in a field of metadata; a text of digits counts.
fn number(metadata: &str, field: &str) -> Option<f64> {
    let fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(metadata).ok()?;
    let value = fields.get(field)?;
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok()).filter(|number| !number.is_nan())
}

/// The id, or else the place.
pub(super) fn name(entry: &Entry) -> Box<str> {
    let place = &entry.place;
    entry.id.as_deref().map_or_else(
        || match place.record {
            Some(record) => format!("{}:{}", place.path.display(), record.number).into(),
            None => place.path.display().to_string().into(),
        },
        Box::from,
    )
}

/// What an analysis makes of a body.
#[derive(Default)]
pub(super) struct Made {
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) is_short: bool,
    pub(super) sketch: Option<Box<Sketch>>,
}

/// Analyses a body, and makes its sketch if that is wanted.
pub(super) fn made(content: Content<'_>, method: Method, sketch: bool) -> Made {
    let source = match content.into_source() {
        Ok(source) => source,
        Err(fingerprint) => return Made { fingerprint: Some(fingerprint), ..Made::default() },
    };
    match nearprint_text::analyse(&source, method, Wanted { sketch, features: false }) {
        Ok(Analysis { fingerprint, short, sketch, .. }) => {
            Made { fingerprint: Some(fingerprint), is_short: short, sketch }
        }
        Err(_) => Made::default(),
    }
}
