//! A reader's work: search a view, verify by the records' sketches, show the ids.
//!
//! Look-ups touch memory only; records are read for hits alone, from the page cache or the disk,
//! each read checked. Runs on the caller's thread.

use crate::document::{Document, DocumentId, Sequence};
use crate::engine::answers::{Findings, Refused, StoredDocument};
use crate::fingerprint::{Distance, Fingerprint};
use crate::index::posting::Posting;
use crate::index::view::View;
use crate::machine::apply::NO_HIT;
use crate::machine::change::{Change, Record};
use crate::machine::query::{Hit, IDS_SHOWN_MAX};
use crate::machine::search::{DOCUMENTS_COMPARED_MAX, Match, Probe, Search, others};
use crate::sketch::Sketch;
use crate::storage::Records;

/// Whether verifying or showing these matches reads records.
pub fn reads_records(view: &View, search: &Search) -> bool {
    search.matches.iter().any(|found| {
        let mut compared = others(view, found.fingerprint, search.own).take(DOCUMENTS_COMPARED_MAX);
        view.held(found.fingerprint).with_id > 0 || compared.any(|posting| posting.has_sketch)
    })
}

/// Verifies matches by the sketches of their documents.
///
/// # Errors
/// [`Refused::Unreadable`].
pub fn verify(
    view: &View,
    records: &Records,
    probe: &Probe<'_>,
    search: &mut Search,
) -> Result<(), Refused> {
    search.verify(view, probe, &mut |fingerprint, posting| {
        sketch(view, records, fingerprint, posting)
    })
}

/// The hits of a search, with the ids of their documents as they were in the view.
///
/// # Errors
/// [`Refused::Unreadable`].
pub fn show(
    view: &View,
    records: &Records,
    search: &Search,
    short: bool,
    limit: usize,
) -> Result<Findings, Refused> {
    let shown = search.matches.iter().take(limit);
    let hits = shown.map(|found| hit(view, records, search, found));
    Ok(Findings {
        duplicate: search.is_duplicate(short),
        hits: hits.collect::<Result<_, _>>()?,
        hit_count: search.matches.len(),
    })
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

fn hit(view: &View, records: &Records, search: &Search, found: &Match) -> Result<Hit, Refused> {
    let own = search.own.filter(|own| own.fingerprint == found.fingerprint);
    let own_ids = own.map_or(0, |own| u64::from(own.posting.has_id));
    let id_count = view.held(found.fingerprint).with_id - own_ids;
    // Not one posting is visited where no document has an id.
    let ids = others(view, found.fingerprint, search.own)
        .filter(|posting| posting.has_id)
        .take(IDS_SHOWN_MAX.min(id_count as usize))
        .map(|posting| id(records, posting));
    Ok(Hit {
        fingerprint: found.fingerprint,
        distance: found.distance,
        verification: found.verification,
        ids: ids.collect::<Result<_, _>>()?,
        id_count,
    })
}

fn id(records: &Records, posting: Posting) -> Result<DocumentId, Refused> {
    let Document { id, .. } = stored(records, posting.sequence)?.document;
    id.ok_or_else(|| unreadable(posting.sequence, "the record has no id"))
}

fn sketch(
    view: &View,
    records: &Records,
    fingerprint: Fingerprint,
    posting: Posting,
) -> Result<Option<Sketch>, Refused> {
    if let Some(sketch) = view.sketch_in_memory(fingerprint, posting.sequence) {
        return Ok(Some(sketch.clone()));
    }
    let stored = stored(records, posting.sequence)?;
    Ok(stored.document.sketch.map(|sketch| *sketch))
}
