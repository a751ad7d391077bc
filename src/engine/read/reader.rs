//! Look-ups: find the matches of a document, verify them by their sketches, show their ids.
//!
//! Finding matches touches memory only. For matches it reads records, from the page cache or the
//! disk, and verifies their checksums. Runs on the caller's thread.

use std::collections::HashMap;

use crate::document::{Document, DocumentId, Sequence};
use crate::engine::error::Refused;
use crate::engine::published::Published;
use crate::engine::replies::{Findings, StoredDocument};
use crate::index::levels::posting::Posting;
use crate::index::view::View;
use crate::machine::change::{Change, Record};
use crate::machine::query::{Hit, IDS_SHOWN_MAX};
use crate::machine::search::{Match, Probe, Search, others};
use crate::storage::Records;

/// The matches of a document, and the ids that were read to verify them.
#[derive(Debug)]
pub(crate) struct Lookup {
    /// The matches.
    pub search: Search,
    ids: Ids,
}

/// The ids in the records that were read to compare sketches: showing them reads no record twice.
/// It keeps at most [`Ids::BYTES_MAX`] bytes of them.
#[derive(Debug, Default)]
struct Ids {
    known: HashMap<Sequence, DocumentId>,
    bytes: usize,
}

impl Lookup {
    /// Finds the matches in a view. Touches memory only.
    pub(crate) fn begin(view: &View, probe: &Probe<'_>) -> Self {
        Self { search: Search::begin(view, probe), ids: Ids::default() }
    }

    /// Whether verifying or showing the matches reads records.
    pub(crate) fn reads_records(&self) -> bool {
        self.search.matches.iter().any(|found| found.counts.with_id > 0 || found.has_sketch)
    }

    /// Whether showing the matches reads records that were not read before.
    pub(crate) fn reads_ids(&self, view: &View, limit: usize) -> bool {
        self.search.matches.iter().take(limit).any(|found| {
            let mut shown = shown(view, &self.search, found);
            shown.any(|posting| !self.ids.known.contains_key(&posting.sequence))
        })
    }

    /// Memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.search.bytes() + self.ids.bytes()
    }

    /// Verifies the matches by the sketches of their documents, and keeps the ids that it reads.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub(crate) fn verify(&mut self, state: &Published, probe: &Probe<'_>) -> Result<(), Refused> {
        let Published { view, records } = state;
        self.search.verify(view, probe, &mut |fingerprint, posting| {
            if let Some(sketch) = view.sketch_in_memory(fingerprint, posting.sequence) {
                return Ok(Some(sketch.clone()));
            }
            let Document { id, sketch, .. } = stored(records, posting.sequence)?.document;
            if let Some(id) = id {
                self.ids.keep(posting.sequence, id);
            }
            Ok(sketch.map(|sketch| *sketch))
        })
    }

    /// The first hits, with the ids of their documents in this state, up to the limits of the
    /// listing. The first hit is listed whatever its size, because a duplicate must name what it
    /// duplicates.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub(crate) fn show(&self, state: &Published, listing: Listing) -> Result<Findings, Refused> {
        let Listing { short, limit, bytes_max } = listing;
        let mut hits = Vec::new();
        let mut bytes = 0;
        for found in self.search.matches.iter().take(limit) {
            let hit = self.hit(state, found)?;
            bytes += listed_bytes(&hit);
            if bytes > bytes_max && !hits.is_empty() {
                break;
            }
            hits.push(hit);
        }
        let duplicate = self.search.is_duplicate(short);
        Ok(Findings { duplicate, hits, hit_count: self.search.count })
    }

    fn hit(&self, state: &Published, found: &Match) -> Result<Hit, Refused> {
        let shown = shown(&state.view, &self.search, found);
        let ids = shown.map(|posting| self.ids.get(&state.records, posting));
        Ok(Hit {
            fingerprint: found.fingerprint,
            distance: found.distance,
            verification: found.verification,
            ids: ids.collect::<Result<_, _>>()?,
            id_count: id_count(&self.search, found),
        })
    }
}

/// Which hits are listed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listing {
    /// The document that was looked up is short, so that an unverified hit counts at distance 0
    /// only.
    pub short: bool,
    /// The maximum number of hits.
    pub limit: usize,
    /// The maximum bytes of a reply.
    pub bytes_max: usize,
}

/// The bytes that a hit takes in a reply, about.
pub(crate) fn listed_bytes(hit: &Hit) -> usize {
    const NUMBERS: usize = 160;
    const QUOTES: usize = 3;
    NUMBERS + hit.ids.iter().map(|id| id.as_str().len() + QUOTES).sum::<usize>()
}

/// The stored document of a posting.
///
/// # Errors
/// [`Refused::Unreadable`].
pub(crate) fn stored(records: &Records, sequence: Sequence) -> Result<StoredDocument, Refused> {
    let read = records.read(sequence.get());
    let record = read
        .map_err(|error| error.to_string())
        .and_then(|read| Record::decode(&read.payload).map_err(|error| error.to_string()));
    match record {
        Ok(Record { at_ms, change: Change::Put { document } }) => {
            Ok(StoredDocument { document, sequence, stored_at_ms: at_ms })
        }
        Ok(_) => Err(unreadable(sequence, "the record stored no document")),
        Err(error) => Err(unreadable(sequence, &error)),
    }
}

/// Logs damage where the facts are known; callers get no details.
fn unreadable(sequence: Sequence, error: &str) -> Refused {
    tracing::error!(%sequence, error, "a stored record could not be read");
    Refused::Unreadable
}

/// The number of documents of a match that have an id, without the probe's own.
fn id_count(search: &Search, found: &Match) -> u64 {
    let own = search.own.filter(|own| own.fingerprint == found.fingerprint);
    let own_ids = own.map_or(0, |own| u64::from(own.posting.has_id));
    found.counts.with_id - own_ids
}

/// The documents of a match whose ids are shown. Visits none if none has an id.
fn shown<'a>(view: &'a View, search: &Search, found: &Match) -> impl Iterator<Item = Posting> + 'a {
    let count = IDS_SHOWN_MAX.min(id_count(search, found) as usize);
    others(view, found.fingerprint, search.own).filter(|posting| posting.has_id).take(count)
}

impl Ids {
    /// The maximum bytes of the ids kept for one request.
    const BYTES_MAX: usize = 16 << 10;

    fn bytes(&self) -> usize {
        self.bytes + self.known.len() * size_of::<(Sequence, DocumentId)>()
    }

    fn keep(&mut self, sequence: Sequence, id: DocumentId) {
        let bytes = self.bytes + id.as_str().len();
        if bytes <= Self::BYTES_MAX {
            self.bytes = bytes;
            self.known.insert(sequence, id);
        }
    }

    /// The id of a document; reads its record unless the id is known.
    fn get(&self, records: &Records, posting: Posting) -> Result<DocumentId, Refused> {
        if let Some(id) = self.known.get(&posting.sequence) {
            return Ok(id.clone());
        }
        let Document { id, .. } = stored(records, posting.sequence)?.document;
        id.ok_or_else(|| unreadable(posting.sequence, "the record has no id"))
    }
}
