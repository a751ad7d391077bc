//! Reading: verifies the matches of a search by the records' sketches, and shows their ids.
//!
//! Look-ups touch memory only; records are read for hits alone, from the page cache or the disk,
//! each read checked. Runs on the caller's thread.

use std::collections::HashMap;

use crate::document::{Document, DocumentId, Sequence};
use crate::engine::answers::{Findings, StoredDocument};
use crate::engine::error::Refused;
use crate::fingerprint::{Distance, Fingerprint};
use crate::index::levels::posting::Posting;
use crate::index::view::View;
use crate::machine::apply::NO_HIT;
use crate::machine::change::{Change, Record};
use crate::machine::query::{Hit, IDS_SHOWN_MAX};
use crate::machine::search::{Match, Probe, Search, others};
use crate::storage::Records;

/// Whether verifying or showing these matches reads records.
pub fn reads_records(search: &Search) -> bool {
    search.matches.iter().any(|found| found.counts.with_id > 0 || found.has_sketch)
}

/// Whether showing these matches reads records that were not read before.
pub fn reads_ids(view: &View, search: &Search, limit: usize, ids: &Ids) -> bool {
    search.matches.iter().take(limit).any(|found| {
        let mut shown = shown(view, search, found);
        shown.any(|posting| !ids.known.contains_key(&posting.sequence))
    })
}

/// Ids in the records that a request has read: what is compared is often shown as well, and need
/// not be read twice. It keeps at most [`Ids::BYTES_MAX`] of them, because it waits with its request.
#[derive(Debug, Default)]
pub struct Ids {
    known: HashMap<Sequence, DocumentId>,
    bytes: usize,
}

/// Verifies matches by the sketches of their documents, and notes the ids of those that it read.
///
/// # Errors
/// [`Refused::Unreadable`].
pub fn verify(
    view: &View,
    records: &Records,
    probe: &Probe<'_>,
    search: &mut Search,
    ids: &mut Ids,
) -> Result<(), Refused> {
    search.verify(view, probe, &mut |fingerprint, posting| {
        if let Some(sketch) = view.sketch_in_memory(fingerprint, posting.sequence) {
            return Ok(Some(sketch.clone()));
        }
        let Document { id, sketch, .. } = stored(records, posting.sequence)?.document;
        if let Some(id) = id {
            ids.keep(posting.sequence, id);
        }
        Ok(sketch.map(|sketch| *sketch))
    })
}

/// The hits of a search, with the ids of their documents as they were in the view: the first
/// `limit` of them, or fewer where those would take more than `bytes_max` ([`listed_bytes`]). The first
/// one is always there: a duplicate must name what it duplicates.
///
/// # Errors
/// [`Refused::Unreadable`].
pub fn show(
    view: &View,
    records: &Records,
    search: &Search,
    ids: &Ids,
    Listing { short, limit, bytes_max }: Listing,
) -> Result<Findings, Refused> {
    let mut hits = Vec::new();
    let mut bytes = 0;
    for found in search.matches.iter().take(limit) {
        let hit = hit(view, records, search, found, ids)?;
        bytes += listed_bytes(&hit);
        if bytes > bytes_max && !hits.is_empty() {
            break;
        }
        hits.push(hit);
    }
    Ok(Findings { duplicate: search.is_duplicate(short), hits, hit_count: search.count })
}

/// How many hits are listed.
#[derive(Debug, Clone, Copy)]
pub struct Listing {
    /// The document that was looked up is short, so that a hit counts at distance 0 alone.
    pub short: bool,
    /// At most this many.
    pub limit: usize,
    /// Within this many bytes.
    pub bytes_max: usize,
}

/// About how many bytes a reply has for a hit: its numbers, and its ids.
pub fn listed_bytes(hit: &Hit) -> usize {
    const NUMBERS: usize = 160;
    const QUOTES: usize = 3;
    NUMBERS + hit.ids.iter().map(|id| id.as_str().len() + QUOTES).sum::<usize>()
}

/// For each fingerprint the distance of the nearest stored one, or [`NO_HIT`].
pub fn nearest(view: &View, queries: &[Fingerprint], distance: Distance) -> Vec<u8> {
    view.nearest(queries, distance).map(|nearest| nearest.map_or(NO_HIT, Distance::get)).collect()
}

/// The stored document of a posting.
///
/// # Errors
/// [`Refused::Unreadable`].
pub fn stored(records: &Records, sequence: Sequence) -> Result<StoredDocument, Refused> {
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

/// Damage found while serving is logged here, where its facts are; callers get no details.
fn unreadable(sequence: Sequence, error: &str) -> Refused {
    tracing::error!(%sequence, error, "a stored record could not be read");
    Refused::Unreadable
}

fn hit(
    view: &View,
    records: &Records,
    search: &Search,
    found: &Match,
    ids: &Ids,
) -> Result<Hit, Refused> {
    let shown = shown(view, search, found).map(|posting| ids.get(records, posting));
    Ok(Hit {
        fingerprint: found.fingerprint,
        distance: found.distance,
        verification: found.verification,
        ids: shown.collect::<Result<_, _>>()?,
        id_count: id_count(search, found),
    })
}

/// How many documents of a match have an id, but the probe's own.
fn id_count(search: &Search, found: &Match) -> u64 {
    let own = search.own.filter(|own| own.fingerprint == found.fingerprint);
    let own_ids = own.map_or(0, |own| u64::from(own.posting.has_id));
    found.counts.with_id - own_ids
}

/// The documents of a match whose ids are shown. Not one is visited where none has an id.
fn shown<'a>(view: &'a View, search: &Search, found: &Match) -> impl Iterator<Item = Posting> + 'a {
    let count = IDS_SHOWN_MAX.min(id_count(search, found) as usize);
    others(view, found.fingerprint, search.own).filter(|posting| posting.has_id).take(count)
}

impl Ids {
    /// Ids kept for one request.
    const BYTES_MAX: usize = 16 << 10;

    /// Memory that they take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes + self.known.len() * size_of::<(Sequence, DocumentId)>()
    }

    fn keep(&mut self, sequence: Sequence, id: DocumentId) {
        let bytes = self.bytes + id.as_str().len();
        if bytes <= Self::BYTES_MAX {
            self.bytes = bytes;
            self.known.insert(sequence, id);
        }
    }

    /// The id of a document, from its record unless that was read before.
    fn get(&self, records: &Records, posting: Posting) -> Result<DocumentId, Refused> {
        if let Some(id) = self.known.get(&posting.sequence) {
            return Ok(id.clone());
        }
        let Document { id, .. } = stored(records, posting.sequence)?.document;
        id.ok_or_else(|| unreadable(posting.sequence, "the record has no id"))
    }
}
