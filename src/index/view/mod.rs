//! The view: the whole index at one sequence.
//!
//! ```text
//!   segments          all documents, oldest first; a small segment has all of its tables,
//!                     a large one the first
//!   secondary tables  the other tables of large segments; by role, oldest first
//!   deltas            the newest changes; the last one is appended to
//! ```
//!
//! The writer owns the newest view and changes it. It publishes clones, which cost a few reference
//! counts and never change; readers keep a clone as long as they like. A look-up visits every
//! level, so its cost is the sum of the probes of all segments. Only for hits it checks whether
//! documents still exist.

mod changes;
mod values;
mod work;

pub use values::{Counts, DocumentCounts, Located, Near, Parts, Put, Shape};

use std::sync::Arc;

use crate::document::Sequence;
use crate::fingerprint::{Distance, Fingerprint};
use crate::index::compaction::built::Built;
use crate::index::compaction::distinct;
use crate::index::levels::delta::{Delta, DeltaAt, DeltaEvent};
use crate::index::levels::ids::IdKey;
use crate::index::levels::level::Level;
use crate::index::levels::posting::Posting;
use crate::index::levels::segment::{Segment, Tally};
use crate::index::levels::sorted::Sorted;
use crate::index::lookup::{BUFFERS, Levels, Lookup, Reach, VALUES_KEPT};
use crate::index::permutation::Permuted;
use crate::index::plan::Plans;
use crate::index::tables::secondary::SecondaryTable;
use crate::index::tables::table::Table;

/// Look-ups of a batch that run together.
const QUERIES_AT_A_TIME: usize = 64;

/// A look-up prefetches the documents of at most this many matches.
const PREFETCHED_MAX: usize = 4;

/// The index at one sequence.
#[derive(Debug, Clone)]
pub struct View {
    shape: Arc<Shape>,
    plans: Arc<Plans>,
    segments: Arc<[Arc<Segment>]>,
    secondary_tables: Arc<[SecondaryTable]>,
    /// The number of fingerprints that merges of segments have dropped.
    dropped: u64,
    /// Oldest first; the last one is appended to. Never empty.
    deltas: Arc<[Arc<Delta>]>,
    live_length: u32,
    sequence: Sequence,
    documents: u64,
}

impl View {
    /// An empty index.
    pub fn new(shape: Shape) -> Self {
        Self::restored(shape, Parts::default())
    }

    /// Restores an index from its parts.
    pub fn restored(shape: Shape, parts: Parts) -> Self {
        let Parts { segments, secondary_tables, dropped, counts } = parts;
        // Only the sum of what the segments add is known, and only the sum is needed: the first
        // segment takes all of it.
        let mut fingerprints = counts.fingerprints as i64;
        for segment in &segments {
            segment.added(|| std::mem::take(&mut fingerprints));
        }
        let delta = Delta::new(0, shape.distance_max, counts.sequence);
        Self {
            plans: Arc::new(shape.plans()),
            shape: Arc::new(shape),
            segments: segments.into(),
            secondary_tables: secondary_tables.into(),
            dropped,
            deltas: [Arc::new(delta)].into(),
            live_length: 0,
            sequence: counts.sequence,
            documents: counts.documents,
        }
    }

    /// The index after `documents` documents without id and sketch were put, one after the other.
    /// This is much quicker than putting them one by one, and needs 24 bytes a fingerprint in
    /// addition to the index while it works.
    pub fn filled(
        shape: Shape,
        documents: u64,
        fingerprints: impl Iterator<Item = Fingerprint>,
    ) -> Self {
        let values = fingerprints.map(|fingerprint| shape.permutation.apply(fingerprint));
        let Level { segment, secondary_tables } = Level::of_bare(&shape.plans(), documents, values);
        let fingerprints = segment.fingerprints() as u64;
        let counts = Counts { sequence: Sequence::new(documents), documents, fingerprints };
        let other = |table| SecondaryTable { table, cleaned_at: 0 };
        let secondary_tables = secondary_tables.into_iter().map(other).collect();
        Self::restored(
            shape,
            Parts { segments: vec![segment], secondary_tables, dropped: 0, counts },
        )
    }

    /// Every stored fingerprint within `distance` of the query, each once, in no particular order.
    pub fn near(&self, query: Fingerprint, distance: Distance) -> Vec<Near> {
        let query = self.shape.permutation.apply(query);
        let reach = Reach::of(&self.plans.large, distance);
        BUFFERS.with_borrow_mut(|(lookup, values)| {
            // A look-up that panicked may have left values.
            values.clear();
            lookup.run(self.levels(), reach, &[query], &mut |_, value| values.push(value));
            if values.len() > 1 {
                values.sort_unstable();
                values.dedup();
            }
            self.prefetch_documents(values);
            if self.has_deletions() {
                values.retain(|&value| self.has_documents(value));
            }
            let near = values.iter().map(|&value| self.near_of(query, value)).collect();
            if values.capacity() > VALUES_KEPT {
                *values = Vec::new();
            }
            near
        })
    }

    /// For each query, the distance of the nearest stored fingerprint within `distance`.
    ///
    /// Several look-ups are in flight at a time, so that their cache misses overlap.
    pub fn nearest(
        &self,
        queries: &[Fingerprint],
        distance: Distance,
    ) -> impl Iterator<Item = Option<Distance>> {
        let (mut lookup, reach, has_deletions) =
            (Lookup::default(), Reach::of(&self.plans.large, distance), self.has_deletions());
        queries.chunks(QUERIES_AT_A_TIME).flat_map(move |queries| {
            let mut room = [0; QUERIES_AT_A_TIME];
            let permuted = self.shape.permutation.apply_all(queries, &mut room);
            let mut nearest = [u32::MAX; QUERIES_AT_A_TIME];
            lookup.run(self.levels(), reach, permuted, &mut |at, value| {
                if !has_deletions || self.has_documents(value) {
                    nearest[at] = nearest[at].min((permuted[at] ^ value).count_ones());
                }
            });
            nearest.into_iter().take(queries.len()).map(Distance::counted)
        })
    }

    /// The number of documents of a fingerprint.
    pub fn document_counts(&self, fingerprint: Fingerprint) -> DocumentCounts {
        self.counts_of_value(self.shape.permutation.apply(fingerprint))
    }

    /// The documents of a fingerprint, oldest first.
    pub fn documents_of(&self, fingerprint: Fingerprint) -> impl Iterator<Item = Posting> + '_ {
        let value = self.shape.permutation.apply(fingerprint);
        let deleted = self.deleted(value);
        let in_segments = self.segments.iter().flat_map(move |segment| segment.postings(value));
        let in_deltas =
            self.deltas().flat_map(move |delta| delta.events(value)).filter_map(|(_, event)| {
                match event {
                    DeltaEvent::Put { posting, .. } => Some(*posting),
                    DeltaEvent::Removed { .. } | DeltaEvent::Reset => None,
                }
            });
        in_segments.chain(in_deltas).filter(move |posting| !deleted.contains(posting.sequence))
    }

    /// The document under an id.
    pub fn find_id(&self, key: IdKey) -> Option<Located> {
        let in_deltas = self.deltas().rev().find_map(|delta| delta.find_id(key));
        let (value, posting) = in_deltas
            .or_else(|| self.segments.iter().rev().find_map(|segment| segment.find_id(key)))?;
        let fingerprint = self.shape.permutation.restore(value);
        // Removals name the document, not the id.
        (!self.deleted(value).contains(posting.sequence))
            .then_some(Located { fingerprint, posting })
    }

    /// The last change that the view contains.
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// The number of stored documents.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The totals. Looks up every fingerprint of the newest levels that has not been counted yet in
    /// the older segments ([`crate::index::compaction::distinct`]), which takes about 0.3 us each.
    pub fn counts(&self) -> Counts {
        let deltas: Vec<_> = self.deltas().collect();
        let added = (0..deltas.len()).map(|at| {
            let count = || distinct::added_by_delta(&self.segments, &deltas[..at], deltas[at]);
            let is_full = at + 1 < deltas.len();
            if is_full { deltas[at].delta().added(count) } else { count() }
        });
        self.counts_with(self.in_segments().strict_add_signed(added.sum()))
    }

    /// The totals as far as they have been counted, without counting any further: fingerprints of
    /// uncounted levels are missing.
    pub fn counts_so_far(&self) -> Counts {
        let segments = self.segments.iter().filter_map(|segment| segment.known_added());
        let deltas = self.deltas().filter_map(|delta| delta.delta().known_added());
        let added: i64 = segments.chain(deltas).sum();
        self.counts_with(u64::try_from(added).unwrap_or(0))
    }

    /// The number of fingerprints that [`Self::counts`] still has to look up.
    pub fn uncounted(&self) -> u64 {
        let segments = self.segments.iter().filter(|segment| segment.known_added().is_none());
        let segments =
            segments.map(|segment| (segment.fingerprints() + segment.tombstones()) as u64);
        let deltas = self.deltas().filter(|delta| delta.delta().known_added().is_none());
        segments.chain(deltas.map(|delta| u64::from(delta.length()))).sum()
    }

    fn counts_with(&self, fingerprints: u64) -> Counts {
        Counts { sequence: self.sequence, documents: self.documents, fingerprints }
    }

    /// The number of fingerprints that have a document in the segments.
    fn in_segments(&self) -> u64 {
        let added = distinct::added_by_all(&self.segments);
        u64::try_from(added).expect("only what is there is removed")
    }

    /// The parts from which to restore a view that has these segments and tables and no deltas. The
    /// sequence and document count are those of `frozen`, the view when its deltas were closed.
    /// Counts fingerprints as [`Self::counts`] does.
    pub fn parts_of(&self, frozen: &Self) -> Parts {
        Parts {
            segments: self.segments.to_vec(),
            secondary_tables: self.secondary_tables.to_vec(),
            dropped: self.dropped,
            counts: Counts {
                sequence: frozen.sequence,
                documents: frozen.documents,
                fingerprints: self.in_segments(),
            },
        }
    }

    /// The parameters that all views of the directory share.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The segments, oldest first.
    pub fn segments(&self) -> &Arc<[Arc<Segment>]> {
        &self.segments
    }

    /// The full deltas, oldest first: they wait to become segments.
    pub fn full_deltas(&self) -> &[Arc<Delta>] {
        &self.deltas[..self.deltas.len() - 1]
    }

    /// The secondary tables, by role, oldest first.
    pub fn secondary_tables(&self) -> &[SecondaryTable] {
        &self.secondary_tables
    }

    /// The number of fingerprints that all merges of segments have dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The plans of its segments.
    pub fn plans(&self) -> &Arc<Plans> {
        &self.plans
    }

    /// The deltas as this view sees them, oldest first.
    pub fn deltas(&self) -> impl DoubleEndedIterator<Item = DeltaAt<'_>> {
        self.levels().deltas()
    }

    /// All that a look-up visits.
    fn levels(&self) -> Levels<'_> {
        Levels {
            segments: &self.segments,
            secondary_tables: &self.secondary_tables,
            deltas: &self.deltas,
            live_length: self.live_length,
        }
    }

    /// Memory of the secondary tables, in bytes.
    pub fn secondary_tables_bytes(&self) -> u64 {
        self.secondary_tables.iter().map(|other| other.table.bytes() as u64).sum()
    }

    /// Memory of the deltas, in bytes.
    pub fn delta_bytes(&self) -> u64 {
        self.deltas.iter().map(|delta| delta.bytes() as u64).sum()
    }

    /// Stores a document as the next change.
    pub fn put(&mut self, fingerprint: Fingerprint, put: Put) {
        let value = self.shape.permutation.apply(fingerprint);
        debug_assert!(!put.is_new || !self.has_documents(value), "what is new has no document");
        let at = self.sequence.next();
        let posting =
            Posting { sequence: at, has_id: put.id.is_some(), has_sketch: put.sketch.is_some() };
        let event = DeltaEvent::Put { posting, is_new: put.is_new, sketch: put.sketch };
        self.append(value, (event, put.id), 0);
        self.documents += 1;
        self.sequence = at;
    }

    /// Stores a document without id and sketch for each fingerprint.
    pub fn put_bare(&mut self, fingerprints: &[Fingerprint]) {
        for fingerprints in fingerprints.chunks(QUERIES_AT_A_TIME) {
            if let Some(newest) = self.deltas().next_back() {
                let values = fingerprints.iter().map(|&f| self.shape.permutation.apply(f));
                values.clone().for_each(|value| newest.prefetch_value(value));
                values.for_each(|value| newest.locate_value(value));
            }
            for &fingerprint in fingerprints {
                self.put(fingerprint, Put::default());
            }
        }
    }

    /// Removes an existing document, as part of the next change. The caller completes that change
    /// with [`Self::put`] (a replacement) or [`Self::advance`].
    pub fn remove(&mut self, located: Located) {
        let value = self.shape.permutation.apply(located.fingerprint);
        let event = DeltaEvent::Removed { posting: located.posting };
        // A put may follow in the same change and must fit into the same delta.
        self.append(value, (event, None), 1);
        self.documents -= 1;
    }

    /// Removes a fingerprint with all its documents. The caller completes the change with
    /// [`Self::advance`].
    pub fn reset(&mut self, fingerprint: Fingerprint) {
        let value = self.shape.permutation.apply(fingerprint);
        self.documents -= self.counts_of_value(value).documents;
        self.append(value, (DeltaEvent::Reset, None), 0);
    }

    /// Completes a change that stored no document.
    pub fn advance(&mut self) {
        self.sequence = self.sequence.next();
    }

    /// Closes the newest delta, unless it is empty. The next one has no capacity and takes no
    /// memory until it is needed.
    pub fn rotate(&mut self) {
        if self.live_length > 0 {
            let closed = self.deltas.iter().cloned();
            let fresh = Delta::new(0, self.shape.distance_max, self.sequence);
            self.deltas = closed.chain([Arc::new(fresh)]).collect();
            self.live_length = 0;
        }
    }

    /// Replaces the newest delta, which is empty and has no capacity, by one with capacity.
    fn open_delta(&mut self) {
        let Shape { delta_events, distance_max, .. } = *self.shape;
        let fresh = Delta::new(delta_events, distance_max, self.sequence);
        let closed = self.full_deltas().iter().cloned();
        self.deltas = closed.chain([Arc::new(fresh)]).collect();
    }

    /// Installs the result of background work on this view or an earlier one. A merge whose inputs
    /// are no longer all in the view changes nothing.
    ///
    /// # Panics
    /// When a flushed delta was not full.
    pub fn install(&mut self, built: &Built) {
        match built {
            Built::Flushed(level) => {
                assert!(self.deltas.len() > 1, "only a full delta becomes a segment");
                self.deltas = self.deltas[1..].into();
                let segment = Arc::clone(&level.segment);
                self.segments = self.segments.iter().cloned().chain([segment]).collect();
                self.add_secondary_tables(&level.secondary_tables);
            }
            Built::Segments { from, into, secondary_tables, dropped } => {
                let segments = replaced(&self.segments, from.len(), into, |at| {
                    self.segments[at..].iter().zip(from).all(|(a, b)| Arc::ptr_eq(a, b))
                });
                if let Some(segments) = segments {
                    self.segments = segments;
                    self.add_secondary_tables(secondary_tables);
                    self.dropped += dropped;
                }
            }
            Built::Tables { from, into } => {
                let secondary_tables = replaced(&self.secondary_tables, from.len(), into, |at| {
                    self.secondary_tables[at..]
                        .iter()
                        .zip(from)
                        .all(|(a, b)| Arc::ptr_eq(&a.table, &b.table))
                });
                self.secondary_tables =
                    secondary_tables.unwrap_or_else(|| Arc::clone(&self.secondary_tables));
            }
        }
    }

    /// Adds the secondary tables of a new large segment.
    fn add_secondary_tables(&mut self, tables: &[Arc<Table>]) {
        if tables.is_empty() {
            return;
        }
        let cleaned_at = self.dropped;
        let added =
            tables.iter().map(|table| SecondaryTable { table: Arc::clone(table), cleaned_at });
        let mut secondary_tables: Vec<SecondaryTable> =
            self.secondary_tables.iter().cloned().chain(added).collect();
        secondary_tables.sort_by_key(|other| other.table.role());
        self.secondary_tables = secondary_tables.into();
    }

    /// Whether a fingerprint has a document.
    pub(crate) fn has_documents(&self, value: Permuted) -> bool {
        self.counts_of_value(value).documents > 0
    }

    /// Appends an event to the newest delta. Opens a new delta unless this one has room for the
    /// event and for `more` further events of the same change: when a delta becomes a segment, a
    /// change that spans two deltas would be half forgotten ([`Self::near_changed_since`]).
    fn append(&mut self, value: Permuted, event: (DeltaEvent, Option<IdKey>), more: usize) {
        if self.deltas[self.deltas.len() - 1].room() <= more {
            self.rotate();
            self.open_delta();
        }
        let (what, id) = event;
        self.deltas[self.deltas.len() - 1].append(self.sequence.next(), value, what, id);
        self.live_length += 1;
    }

    /// Prefetches the data that leads to the documents of the first few fingerprints, in all
    /// segments at once.
    fn prefetch_documents(&self, values: &[Permuted]) {
        let values = &values[..values.len().min(PREFETCHED_MAX)];
        for step in [Sorted::prefetch_value, Sorted::locate_value] {
            for segment in self.segments.iter() {
                for &value in values {
                    step(segment.sorted(), value);
                }
            }
        }
    }

    fn near_of(&self, query: Permuted, value: Permuted) -> Near {
        let distance = Fingerprint::new(query).distance(Fingerprint::new(value));
        Near { fingerprint: self.shape.permutation.restore(value), distance }
    }

    fn counts_of_value(&self, value: Permuted) -> DocumentCounts {
        let segments = self.segments.iter().map(|segment| segment.tally(value));
        let deltas = self.deltas().map(|delta| delta.tally(value));
        let tally = segments.chain(deltas).fold(Tally::default(), Tally::then);
        DocumentCounts {
            documents: u64::try_from(tally.documents).expect("only what is there is removed"),
            with_id: u64::try_from(tally.with_id).expect("only what is there is removed"),
        }
    }

    /// Whether any level has a tombstone, or a secondary table may still have fingerprints that
    /// segments have dropped.
    fn has_deletions(&self) -> bool {
        self.segments.iter().any(|segment| segment.tombstones() > 0)
            || self.deltas.iter().any(|delta| delta.tombstones() > 0)
            || self.secondary_tables.iter().any(|other| other.cleaned_at < self.dropped)
    }

    fn deleted(&self, value: Permuted) -> Deleted {
        let mut deleted = Deleted::default();
        if !self.has_deletions() {
            return deleted;
        }
        for segment in self.segments.iter() {
            deleted.reset = deleted.reset.max(segment.reset_of(value));
            deleted.removed.extend(segment.removals_of(value).iter().map(|r| r.posting.sequence));
        }
        for (at, event) in self.deltas().flat_map(|delta| delta.events(value)) {
            match event {
                DeltaEvent::Put { .. } => {}
                DeltaEvent::Removed { posting } => deleted.removed.push(posting.sequence),
                DeltaEvent::Reset => deleted.reset = Some(at),
            }
        }
        deleted.removed.sort_unstable();
        deleted
    }
}

/// Replaces `count` adjacent items of a list, where `is_place` finds them.
fn replaced<T: Clone>(
    list: &[T],
    count: usize,
    by: &[T],
    is_place: impl Fn(usize) -> bool,
) -> Option<Arc<[T]>> {
    let at = (0..(list.len() + 1).saturating_sub(count)).find(|&at| is_place(at))?;
    Some(list[..at].iter().chain(by).chain(&list[at + count..]).cloned().collect())
}

/// The documents of one fingerprint that were removed.
#[derive(Debug, Default)]
struct Deleted {
    reset: Option<Sequence>,
    removed: Vec<Sequence>,
}

impl Deleted {
    fn contains(&self, sequence: Sequence) -> bool {
        self.reset.is_some_and(|reset| sequence < reset)
            || self.removed.binary_search(&sequence).is_ok()
    }
}
