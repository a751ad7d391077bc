//! Look-ups: the near-duplicates of a document or of bare fingerprints, and the document of an id.

use std::borrow::Borrow;
use std::sync::Arc;

use arc_swap::Guard;
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_index::id_key::IdKey;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::view::View;
use nearprint_machine::document::{Document, DocumentId, Namespace};
use nearprint_machine::search::{Probe, nearest};
use nearprint_storage::Records;

use crate::api::blocking::{off_async, reading, with_records};
use crate::api::clock;
use crate::api::error::Refused;
use crate::api::replies::{Findings, PackedQuery, QueryOptions, StoredDocument};
use crate::handle::Engine;
use crate::read::found::{Found, Unread};
use crate::read::reader::{self, HitLimits, RECORDS_READ_HERE_MAX, RecordLookup};
use crate::state::published::Published;
use crate::state::scheduler::{Share, piece};

/// A single look-up that visits more cells is a piece of work for the batch scheduler: it takes
/// more than about 100 us, for which an async thread would serve nobody else.
const CELLS_ON_ASYNC_THREADS_MAX: usize = 4_096;

/// The same for a single look-up that finds more than this, counted in every table.
const FOUND_ON_ASYNC_THREADS_MAX: usize = 1_024;

impl Engine {
    /// Looks up near-duplicates of a document, without the stored document with its id.
    ///
    /// Cost: microseconds without hits; with hits it reads their records, off the async threads.
    ///
    /// # Errors
    /// [`Refused::DistanceAboveMax`], [`Refused::Unreadable`], [`Refused::UnreadableIndex`].
    pub async fn query(
        &self,
        document: impl Borrow<Document>,
        options: QueryOptions,
    ) -> Result<Findings, Refused> {
        Ok(self.find(document.borrow(), options).await?.show(usize::MAX).await?.into_findings())
    }

    /// The same for callers that bound the bytes of the hits ([`Found::show`]).
    ///
    /// # Errors
    /// As [`Self::query`].
    pub async fn find(&self, document: &Document, options: QueryOptions) -> Result<Found, Refused> {
        let QueryOptions { criteria, limit, .. } = options;
        self.check_distance(criteria.distance)?;
        let finish = move |state: &Published, probe: &Probe<'_>, lookup| {
            finish_query(state, probe, lookup, limit)
        };
        self.look_up(document, options, clock::now_ms(), finish).await
    }

    /// One request's share of the batch scheduler.
    pub fn share(&self) -> Share {
        self.shared.scheduler.share(self.client.clone())
    }

    /// For each fingerprint the distance of the nearest stored one, or 255 if none is within the
    /// distance. The batch scheduler runs the look-ups.
    ///
    /// # Errors
    /// [`Refused::DistanceAboveMax`].
    pub async fn nearest_scheduled(
        &self,
        share: &Share,
        fingerprints: Vec<Fingerprint>,
        query: &PackedQuery,
    ) -> Result<Vec<u8>, Refused> {
        let criteria = query.criteria;
        self.check_distance(criteria.distance)?;
        let shared = Arc::clone(&self.shared);
        let (namespace, at_ms) = (self.namespace_key(query.namespace.as_ref()), clock::now_ms());
        let look_up = move |piece: &[Fingerprint]| {
            let view = &shared.published.load().view;
            let visibility = view.visibility(namespace, at_ms, criteria.max_age_s);
            nearest(view, piece, criteria.distance, visibility)
        };
        let cells = self.shared.published.load().view.cells_visited(criteria.distance);
        share.look_up(&fingerprints.into(), piece(cells), look_up).await
    }

    /// The same in the default namespace, on the caller's thread, without a permit. Call it off the
    /// async threads for more than a few hundred fingerprints.
    ///
    /// # Errors
    /// [`Refused::DistanceAboveMax`], [`Refused::Unreadable`], [`Refused::UnreadableIndex`].
    pub fn nearest(
        &self,
        fingerprints: &[Fingerprint],
        distance: Distance,
    ) -> Result<Vec<u8>, Refused> {
        self.check_distance(distance)?;
        let view = &self.shared.published.load().view;
        let visibility = view.visibility(None, clock::now_ms(), None);
        reading(|| Ok(nearest(view, fingerprints, distance, visibility)))
    }

    /// The document with an id in a namespace.
    ///
    /// # Errors
    /// [`Refused::Unreadable`].
    pub async fn document(
        &self,
        namespace: Option<&Namespace>,
        id: &DocumentId,
    ) -> Result<Option<StoredDocument>, Refused> {
        let key = IdKey::of(id.as_str(), namespace, &self.shared.id_secret);
        let state = self.shared.published.load_full();
        let visibility =
            state.view.visibility(self.namespace_key(namespace), clock::now_ms(), None);
        let found = self.ask(&state, move |view| view.find_id(key)).await?;
        let found = found.filter(|found| !visibility.has_expired(found.posting));
        let Some(found) = found else { return Ok(None) };
        let sequence = found.posting.sequence;
        let read = move |records: &Records| reader::stored(records, sequence).map(Some);
        with_records(&state.records, read).await
    }

    /// Asks a view, on a thread that may block if parts of it are in files.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        state: &Arc<Published>,
        ask: impl FnOnce(&View) -> T + Send + 'static,
    ) -> Result<T, Refused> {
        if !state.view.is_in_files() {
            return Ok(ask(&state.view));
        }
        let state = Arc::clone(state);
        off_async(move || Ok(ask(&state.view))).await
    }

    pub(super) fn namespace_key(&self, namespace: Option<&Namespace>) -> Option<NamespaceKey> {
        namespace.map(|namespace| NamespaceKey::of(namespace, &self.shared.id_secret))
    }

    /// Finds the matches of a document, and finishes the look-up: here, if that reads no records or
    /// few that are in memory; else off the async threads, and in turn with long work of other
    /// clients if it takes long.
    pub(crate) async fn look_up<T: Send + 'static>(
        &self,
        document: &Document,
        options: QueryOptions,
        at_ms: u64,
        finish: impl Fn(&Published, &Probe<'_>, RecordLookup) -> Result<T, Refused> + Send + 'static,
    ) -> Result<T, Refused> {
        let QueryOptions { criteria, limit, with_metadata } = options;
        let probe = Probe::new(document, criteria, at_ms, &self.shared.id_secret);
        let state = self.shared.published.load();
        let crowd = FOUND_ON_ASYNC_THREADS_MAX;
        let in_files = state.view.is_in_files();
        let mut begun = if state.view.cells_visited(criteria.distance) > CELLS_ON_ASYNC_THREADS_MAX
        {
            None
        } else if in_files {
            let (state, document) = (Arc::clone(&state), document.clone());
            let (key, namespace) = (probe.key, probe.namespace);
            let begin = move || {
                let probe = Probe { document: &document, key, namespace, criteria, at_ms };
                let view = &state.view;
                Ok(RecordLookup::begin_unless_crowded(view, &probe, with_metadata, crowd))
            };
            off_async(begin).await?
        } else {
            RecordLookup::begin_unless_crowded(&state.view, &probe, with_metadata, crowd)
        };
        if let Some(lookup) = begun.take_if(|lookup| !in_files && !lookup.reads_records()) {
            return finish(&state, &probe, lookup);
        }
        let records = |lookup: &RecordLookup| {
            lookup.search.sketches_to_read() + lookup.search.matches.len().min(limit)
        };
        let is_long = begun.as_ref().is_none_or(|lookup| records(lookup) > RECORDS_READ_HERE_MAX);
        if let Some(lookup) = begun.take_if(|_| !in_files && !is_long)
            && let Ok(done) = finish(&state.in_memory(), &probe, lookup)
        {
            return Ok(done);
        }
        let (state, document) = (Guard::into_inner(state), document.clone());
        let (key, namespace) = (probe.key, probe.namespace);
        let look_up = move || {
            let probe = Probe { document: &document, key, namespace, criteria, at_ms };
            let begin = || RecordLookup::begin(&state.view, &probe, with_metadata);
            let lookup = begun.unwrap_or_else(begin);
            finish(&state, &probe, lookup)
        };
        if is_long {
            return self.share().run(look_up).await?;
        }
        off_async(look_up).await
    }

    pub(super) fn check_distance(&self, asked: Distance) -> Result<(), Refused> {
        let max = self.shared.options.distance_max;
        if asked <= max {
            return Ok(());
        }
        Err(Refused::DistanceAboveMax { asked: asked.get(), max: max.get() })
    }
}

/// Verifies the matches, and reads the documents of the hits if they are few.
fn finish_query(
    state: &Published,
    probe: &Probe<'_>,
    mut lookup: RecordLookup,
    limit: usize,
) -> Result<Found, Refused> {
    lookup.verify(state, probe)?;
    let short = probe.document.short;
    let listing = HitLimits { short, limit, bytes_max: Found::READ_AT_ONCE_BYTES };
    let findings = lookup.show(state, listing)?;
    if !findings.is_cut {
        return Ok(Found::read(findings));
    }
    Ok(Unread { published: state.on_disk(), lookup, short, limit }.into())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use nearprint_fingerprint::recipe::Recipe;
    use nearprint_machine::query::Criteria;
    use nearprint_storage::{Disk as _, RealDisk};

    use super::*;
    use crate::api::options::Options;
    use crate::write::outbox::Admission;

    #[tokio::test]
    async fn a_hit_is_read_here_if_it_is_in_memory_and_else_on_a_thread_that_may_block() {
        let directory = tempfile::tempdir().unwrap();
        // Some file systems, such as those of containers, cannot tell what is in memory.
        let file = RealDisk::open(directory.path()).unwrap().create("probe").unwrap();
        file.write_at(0, b"x").unwrap();
        let can_tell = file.read_in_memory(0, &mut [0]).is_some();
        let engine = Engine::open(Options::new(directory.path(), Recipe::Features)).unwrap();
        let fingerprint = Fingerprint::new(0xff);
        let document = Document { id: DocumentId::new("a").ok(), ..Document::bare(fingerprint) };
        engine.begin_insert(document, Admission::Wait).await.unwrap().wait().await.unwrap();
        let criteria = Criteria::within(Distance::new(3).unwrap());
        let options = QueryOptions { criteria, limit: 1, with_metadata: false };
        let (tries, here) = (Arc::new(AtomicUsize::new(0)), thread::current().id());
        for in_memory in [true, false] {
            tries.store(0, Ordering::Relaxed);
            let counted = Arc::clone(&tries);
            let finish = move |state: &Published, probe: &Probe<'_>, lookup: RecordLookup| {
                let first = counted.fetch_add(1, Ordering::Relaxed) == 0;
                if first && !in_memory {
                    return Err(Refused::Unreadable);
                }
                assert_eq!(first, thread::current().id() == here);
                finish_query(state, probe, lookup, 1)
            };
            let bare = Document::bare(fingerprint);
            let found = engine.look_up(&bare, options, clock::now_ms(), finish).await.unwrap();
            let hits = found.show(usize::MAX).await.unwrap().into_findings().hits;
            let id = hits[0].documents[0].id.as_ref();
            assert_eq!(id.map(DocumentId::as_str), Some("a"));
            assert_eq!(tries.load(Ordering::Relaxed), if in_memory && can_tell { 1 } else { 2 });
        }
        tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
    }
}
