//! Look-ups: find the matches of a document, verify them by their sketches, show their documents.
//!
//! Finding matches touches memory only. For matches it reads records, from the page cache or the
//! disk, and verifies their checksums. Runs on the caller's thread.

use std::collections::HashMap;
use std::ops::Range;

use nearprint_fingerprint::Fingerprint;
use nearprint_index::levels::posting::Posting;
use nearprint_index::view::{DocumentCounts, View};
use nearprint_machine::change::{Change, Record};
use nearprint_machine::document::{Document, Namespace, Sequence};
use nearprint_machine::query::{DOCUMENTS_SHOWN_MAX, Hit, HitDocument};
use nearprint_machine::search::{Match, Probe, Search, others};
use nearprint_storage::{Records, StorageError};

use crate::api::error::Refused;
use crate::api::replies::{Findings, StoredDocument};
use crate::read::page::string_bytes;
use crate::state::published::Published;

/// At most this many records are read on an async thread, if they are in memory: about 100 us.
pub(crate) const RECORDS_READ_HERE_MAX: usize = 64;

/// The matches of a document, and the documents that were read to verify them.
#[derive(Debug)]
pub(crate) struct RecordLookup {
    pub search: Search,
    documents: Documents,
}

/// The documents whose records were read to compare sketches: showing them reads no record twice.
/// It keeps at most [`Documents::BYTES_MAX`] bytes of them.
#[derive(Debug)]
struct Documents {
    known: HashMap<Sequence, HitDocument>,
    bytes: usize,
    with_metadata: bool,
}

impl RecordLookup {
    /// Finds the matches in a view. Touches memory only.
    pub(crate) fn begin(view: &View, probe: &Probe<'_>, with_metadata: bool) -> Self {
        Self::over(Search::begin(view, probe), with_metadata)
    }

    /// The same; `None`, after a small part of the work, if there are more than about `crowd`
    /// matches.
    pub(crate) fn begin_unless_crowded(
        view: &View,
        probe: &Probe<'_>,
        with_metadata: bool,
        crowd: usize,
    ) -> Option<Self> {
        Some(Self::over(Search::begin_unless_crowded(view, probe, crowd)?, with_metadata))
    }

    fn over(search: Search, with_metadata: bool) -> Self {
        let documents = Documents { known: HashMap::new(), bytes: 0, with_metadata };
        Self { search, documents }
    }

    /// Finds the matches in a newer view.
    pub(crate) fn repeat(&mut self, view: &View, probe: &Probe<'_>) {
        *self = Self::begin(view, probe, self.documents.with_metadata);
    }

    /// Whether verifying or showing the matches may read records.
    pub(crate) fn reads_records(&self) -> bool {
        self.search.sketches_to_read() > 0
            || self.search.matches.iter().any(|found| found.counts.listed > 0)
    }

    /// How many records that were not read before showing the matches reads.
    pub(crate) fn documents_to_read(&self, view: &View, (limit, short): (usize, bool)) -> usize {
        let matches = self.search.shown(short).iter().take(limit);
        let shown = matches.flat_map(|found| shown(view, &self.search, found));
        shown.filter(|posting| !self.documents.known.contains_key(&posting.sequence)).count()
    }

    /// Memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.search.bytes() + self.documents.bytes()
    }

    /// Verifies the matches by the sketches of their documents, and keeps the documents that it
    /// reads.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub(crate) fn verify(&mut self, state: &Published, probe: &Probe<'_>) -> Result<(), Refused> {
        let Published { view, records, .. } = state;
        let visibility = self.search.visibility;
        self.search.verify(view, probe, &mut |fingerprint, posting| {
            if let Some(sketch) = view.sketch_in_memory(fingerprint, posting.sequence, &visibility)
            {
                return Ok(Some(sketch.clone()));
            }
            let mut stored = stored(records, posting.sequence)?;
            let sketch = stored.document.sketch.take();
            if posting.is_listed {
                self.documents.keep(stored);
            }
            Ok(sketch.map(|sketch| *sketch))
        })
    }

    /// The first hits, with their documents in this state, up to the limits of the listing. The
    /// first hit is listed whatever its size, because a duplicate must name what it duplicates.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub(crate) fn show(&self, state: &Published, listing: HitLimits) -> Result<Findings, Refused> {
        let HitLimits { short, limit, bytes_max } = listing;
        let mut hits = Vec::new();
        let mut bytes = 0;
        for found in self.search.shown(short).iter().take(limit) {
            let hit = self.hit(state, found)?;
            bytes += listed_bytes(&hit);
            if bytes > bytes_max && !hits.is_empty() {
                break;
            }
            hits.push(hit);
        }
        let duplicate = self.search.is_duplicate(short);
        let hit_count = self.search.hit_count();
        let is_cut = hits.len() < self.search.shown(short).len().min(limit);
        let unverified = self.search.unverified;
        Ok(Findings { duplicate, hits, hit_count, is_cut, unverified })
    }

    fn hit(&self, state: &Published, found: &Match) -> Result<Hit, Refused> {
        let shown = shown(&state.view, &self.search, found);
        let documents = shown.map(|posting| self.documents.get(&state.records, posting));
        let counts = others_of(&self.search, found);
        Ok(Hit {
            fingerprint: found.fingerprint,
            distance: found.distance,
            verification: found.verification,
            documents: documents.collect::<Result<_, _>>()?,
            document_count: counts.documents,
            document_count_is_at_least: counts.is_at_least,
        })
    }
}

/// Which hits are listed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HitLimits {
    /// The document that was looked up is short, so that an unverified hit counts at distance 0
    /// only.
    pub short: bool,
    /// The maximum number of hits.
    pub limit: usize,
    /// The maximum bytes of a reply.
    pub bytes_max: usize,
}

/// The most bytes that a hit takes in a reply.
pub(crate) fn listed_bytes(hit: &Hit) -> usize {
    const FIELDS: usize = 160;
    const FIELDS_OF_DOCUMENT: usize = 110;
    let document = |document: &HitDocument| {
        FIELDS_OF_DOCUMENT + string_bytes(document.id.as_ref(), None, document.metadata.as_ref())
    };
    FIELDS + hit.documents.iter().map(document).sum::<usize>()
}

/// The stored document of a posting.
///
/// # Errors
/// [`Refused::Unreadable`].
pub(crate) fn stored(records: &Records, sequence: Sequence) -> Result<StoredDocument, Refused> {
    RecordReader::new(records).stored(sequence)
}

/// The name of the namespace that a change began.
///
/// # Errors
/// [`Refused::Unreadable`].
pub(crate) fn name(records: &Records, began: Sequence) -> Result<Namespace, Refused> {
    let mut reader = RecordReader::new(records);
    let namespace = match &reader.read(began)?.1.change {
        Change::Put { document } => document.namespace.clone(),
        Change::PutPacked { packed } => packed.namespace.clone(),
        Change::PutSparse { namespace, .. } => namespace.clone(),
        Change::Named { namespace } => Some(namespace.clone()),
        Change::Remove { .. }
        | Change::Reset { .. }
        | Change::RemoveMany { .. }
        | Change::PurgeBegun { .. }
        | Change::JobEnded { .. } => None,
    };
    namespace.ok_or_else(|| unreadable(began, "the record names no namespace"))
}

/// Reads stored documents. It keeps the last record, which may have stored many.
#[derive(Debug)]
pub(crate) struct RecordReader {
    records: Records,
    /// With its first change and the one after its last.
    last: Option<(Range<u64>, Record)>,
}

impl RecordReader {
    pub(crate) fn new(records: &Records) -> Self {
        Self { records: records.clone(), last: None }
    }

    /// The document that a change stored.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub(crate) fn stored(&mut self, sequence: Sequence) -> Result<StoredDocument, Refused> {
        let (range, record) = self.read(sequence)?;
        let behind = sequence.get() - range.start;
        let bare = |fingerprint: Option<Fingerprint>, namespace: &Option<_>, expiry| {
            let namespace = namespace.clone();
            fingerprint.map(|f| Document { namespace, expiry, ..Document::bare(f) })
        };
        let document = match &record.change {
            Change::Put { document } => Some(document.clone()),
            Change::PutPacked { packed } => {
                let fingerprint = packed.fingerprints.get(behind as usize).copied();
                bare(fingerprint, &packed.namespace, packed.expiry)
            }
            Change::PutSparse { namespace, expiry, fingerprints } => {
                let at = fingerprints.binary_search_by_key(&behind, |(at, _)| u64::from(*at));
                bare(at.ok().map(|at| fingerprints[at].1), namespace, *expiry)
            }
            Change::Remove { .. }
            | Change::Reset { .. }
            | Change::RemoveMany { .. }
            | Change::PurgeBegun { .. }
            | Change::JobEnded { .. }
            | Change::Named { .. } => None,
        };
        let stored_at_ms = record.at_ms;
        let document =
            document.ok_or_else(|| unreadable(sequence, "the record stored no document"))?;
        Ok(StoredDocument { document, sequence, stored_at_ms })
    }

    fn read(&mut self, sequence: Sequence) -> Result<&(Range<u64>, Record), Refused> {
        let is_known = |(range, _): &(Range<u64>, _)| range.contains(&sequence.get());
        if !self.last.as_ref().is_some_and(is_known) {
            let read = self.records.read(sequence.get());
            // Who asked for what is in memory asks again.
            if matches!(read, Err(StorageError::NotInMemory)) {
                return Err(Refused::Unreadable);
            }
            let read = read.map_err(|error| unreadable(sequence, &error.to_string()))?;
            let record = Record::decode(&read.payload);
            let record = record.map_err(|error| unreadable(sequence, &error.to_string()))?;
            self.last = Some((read.first..read.first + u64::from(read.count), record));
        }
        Ok(self.last.as_ref().expect("it was just read"))
    }
}

/// Logs damage where the facts are known; callers get no details.
fn unreadable(sequence: Sequence, error: &str) -> Refused {
    tracing::error!(sequence = sequence.get(), error, "a stored record could not be read");
    Refused::Unreadable
}

/// The number of documents of a match, without the probe's own.
fn others_of(search: &Search, found: &Match) -> DocumentCounts {
    let masked = search.visibility.masked(found.fingerprint);
    let own = search.own.filter(|own| own.masked == masked && search.visibility.sees(own.posting));
    let DocumentCounts { documents, listed, is_at_least } = found.counts;
    match own {
        None => found.counts,
        Some(own) => DocumentCounts {
            documents: documents.saturating_sub(1),
            listed: listed.saturating_sub(u64::from(own.posting.is_listed)),
            is_at_least,
        },
    }
}

/// The documents of a match that are shown. Visits none if none is listed.
fn shown<'a>(view: &'a View, search: &Search, found: &Match) -> impl Iterator<Item = Posting> + 'a {
    let count = DOCUMENTS_SHOWN_MAX.min(others_of(search, found).listed as usize);
    let others = others(view, found.fingerprint, search.own, search.visibility);
    others.filter(|posting| posting.is_listed).take(count)
}

impl Documents {
    /// The maximum bytes of the documents kept for one request.
    const BYTES_MAX: usize = 16 << 10;

    fn bytes(&self) -> usize {
        self.bytes + self.known.len() * size_of::<(Sequence, HitDocument)>()
    }

    fn keep(&mut self, stored: StoredDocument) {
        let document = self.hit_document(stored);
        let metadata = document.metadata.as_ref().map_or(0, |metadata| metadata.as_str().len());
        let id = document.id.as_ref().map_or(0, |id| id.as_str().len());
        let bytes = self.bytes + id + metadata;
        if bytes <= Self::BYTES_MAX {
            self.bytes = bytes;
            self.known.insert(document.sequence, document);
        }
    }

    /// What a hit shows of a document; reads its record unless the document is known.
    fn get(&self, records: &Records, posting: Posting) -> Result<HitDocument, Refused> {
        if let Some(known) = self.known.get(&posting.sequence) {
            return Ok(known.clone());
        }
        Ok(self.hit_document(stored(records, posting.sequence)?))
    }

    fn hit_document(&self, stored: StoredDocument) -> HitDocument {
        let StoredDocument { document, sequence, stored_at_ms } = stored;
        HitDocument {
            id: document.id,
            sequence,
            stored_at_ms,
            expiry: document.expiry,
            metadata: document.metadata.filter(|_| self.with_metadata),
        }
    }
}
