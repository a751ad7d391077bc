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

mod bytes;
mod changes;
mod counts;
mod listing;
mod located;
mod similar;
mod values;
mod work;
mod write;

pub use counts::COUNTED_MAX;
pub use listing::{Expired, Listed, Selection};
pub use similar::SimilarTo;
pub use values::{Counts, DocumentCounts, Located, Near, Parts, Put, Shape};

use std::cell::Cell;
use std::sync::Arc;

use nearprint_fingerprint::{Distance, Fingerprint};

use crate::compaction::built::Built;
use crate::document::{Expiry, Sequence};
use crate::id_key::IdKey;
use crate::labels::LabelKeys;
use crate::levels::delta::{Delta, DeltaAt, DeltaEvent};
use crate::levels::level::Level;
use crate::levels::posting::{Common, Posting};
use crate::levels::segment::Segment;
use crate::lookup::{BUFFERS, COLLECTED_MAX, Levels, Lookup, NEAR_MAX, SearchRadius, VALUES_KEPT};
use crate::memory::placed::Placement;
use crate::namespace_key::NamespaceKey;
use crate::namespaces::NamespaceNumber;
use crate::namespaces::Namespaces;
use crate::permutation::Permuted;
use crate::plan::Plans;
use crate::tables::secondary::SecondaryTable;
use crate::tables::table::Table;
use crate::times::{Times, second};
use crate::visibility::Visibility;

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
    namespaces: Namespaces,
    times: Times,
    /// What the documents of all levels share, at least: removed ones count until they are merged
    /// away.
    common: Option<Common>,
    /// Where merges put what they merge from files, or what does not fit into memory.
    placement: Placement,
    /// What segments and tables may take of memory, in bytes; 0 is no limit.
    memory_bytes_max: u64,
    /// Whether any of them is in files.
    in_files: bool,
}

impl View {
    /// An empty index.
    pub fn new(shape: Shape) -> Self {
        Self::restored(shape, Parts::default())
    }

    /// Restores an index from its parts.
    pub fn restored(shape: Shape, parts: Parts) -> Self {
        let Parts { segments, secondary_tables, dropped, counts, namespaces, times } = parts;
        let delta = Delta::new(0, shape.distance_max, counts.sequence);
        let common = segments.iter().filter_map(|segment| segment.common()).reduce(Common::and);
        let mut view = Self {
            plans: Arc::new(shape.plans()),
            shape: Arc::new(shape),
            segments: segments.into(),
            secondary_tables: secondary_tables.into(),
            dropped,
            deltas: [Arc::new(delta)].into(),
            live_length: 0,
            sequence: counts.sequence,
            documents: counts.documents,
            namespaces,
            times,
            common,
            placement: Placement::Memory,
            memory_bytes_max: 0,
            in_files: false,
        };
        view.notice_files();
        view
    }

    /// The same view, whose merges put there what they merge from files, and what they merge while
    /// segments and tables take more than `memory_bytes_max` bytes, if that is not 0.
    #[must_use]
    pub fn with_placement(self, placement: Placement, memory_bytes_max: u64) -> Self {
        Self { placement, memory_bytes_max, ..self }
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
        let Level { segment, secondary_tables } =
            Level::of_bare(&shape.plans(), (Sequence::ZERO.next(), documents), values);
        let counts = Counts { sequence: Sequence::new(documents), documents };
        let other = |table| SecondaryTable { table, cleaned_at: 0 };
        let secondary_tables = secondary_tables.into_iter().map(other).collect();
        let segments = vec![segment];
        Self::restored(shape, Parts { segments, secondary_tables, counts, ..Parts::default() })
    }

    /// What a look-up sees at a time, in milliseconds since 1970: the documents of a namespace, and
    /// with an age, only those that were stored at most this many seconds ago.
    pub fn visibility(
        &self,
        namespace: Option<NamespaceKey>,
        at_ms: u64,
        age_s: Option<u32>,
    ) -> Visibility {
        let now_s = second(at_ms);
        let number = match namespace {
            None => NamespaceNumber::DEFAULT,
            Some(namespace) => {
                let known = self.namespaces.get(namespace.key);
                known.map_or(NamespaceNumber::NONE, |entry| entry.number)
            }
        };
        let since = age_s.map_or(Sequence::ZERO, |age_s| {
            let first = self.times.first_within(age_s, now_s);
            first.unwrap_or(self.sequence.next())
        });
        Visibility { namespace: number, mask: namespace.map_or(0, |n| n.mask), now_s, since }
    }

    /// Every fingerprint with a visible document within `distance` of the query, each once, in no
    /// particular order; of more than [`NEAR_MAX`], the nearest. Takes two megabytes at most.
    pub fn near(
        &self,
        query: Fingerprint,
        distance: Distance,
        visibility: &Visibility,
    ) -> Vec<Near> {
        self.near_unless_crowded(query, distance, visibility, usize::MAX).expect("never too many")
    }

    /// The same; `None`, after a small part of the work, if more than about `crowd` fingerprints
    /// are that near, each counted in every table that leads to it.
    pub fn near_unless_crowded(
        &self,
        query: Fingerprint,
        distance: Distance,
        visibility: &Visibility,
        crowd: usize,
    ) -> Option<Vec<Near>> {
        let query = self.permuted(query, visibility);
        let reach = SearchRadius::of(&self.plans.large, distance);
        BUFFERS.with_borrow_mut(|(lookup, values)| {
            // A look-up that panicked may have left values.
            values.clear();
            let (mut farthest, collected) = (None, Cell::new(0_usize));
            let mut found = |value| {
                collected.set(collected.get() + 1);
                if collected.get() > crowd {
                    return;
                }
                if farthest.is_none_or(|farthest| farness(query, value) <= farthest) {
                    values.push(value);
                }
                if values.len() == COLLECTED_MAX {
                    farthest = self.keep_nearest(query, values, visibility);
                }
            };
            let is_crowded = || collected.get() > crowd;
            if !lookup.run_until(self.levels(), (reach, query), &mut found, is_crowded) {
                return None;
            }
            self.keep_nearest(query, values, visibility);
            let near = values.iter().map(|&value| self.near_of(query, value, visibility)).collect();
            if values.capacity() > VALUES_KEPT {
                *values = Vec::new();
            }
            Some(near)
        })
    }

    /// The number of cells and buckets that a look-up visits: at large distances nearly all of its
    /// cost, 10 to 30 ns each.
    pub fn cells_visited(&self, distance: Distance) -> usize {
        SearchRadius::of(&self.plans.large, distance).cells(self.levels())
    }

    /// For each query, the distance of the nearest stored fingerprint within `distance`.
    ///
    /// Several look-ups are in flight at a time, so that their cache misses overlap.
    pub fn nearest(
        &self,
        queries: &[Fingerprint],
        distance: Distance,
        visibility: Visibility,
    ) -> impl Iterator<Item = Option<Distance>> {
        let (mut lookup, reach, needs_check) = (
            Lookup::default(),
            SearchRadius::of(&self.plans.large, distance),
            self.needs_check(&visibility),
        );
        queries.chunks(QUERIES_AT_A_TIME).flat_map(move |queries| {
            let (mut room, mut masked) = ([0; QUERIES_AT_A_TIME], [Fingerprint::default(); _]);
            let permuted = if visibility.mask == 0 {
                self.shape.permutation.apply_all(queries, &mut room)
            } else {
                let masked: &mut [_; QUERIES_AT_A_TIME] = &mut masked;
                masked
                    .iter_mut()
                    .zip(queries)
                    .for_each(|(to, query)| *to = visibility.masked(*query));
                self.shape.permutation.apply_all(&masked[..queries.len()], &mut room)
            };
            let mut nearest = [u32::MAX; QUERIES_AT_A_TIME];
            lookup.run(self.levels(), reach, permuted, &mut |at, value| {
                if needs_check {
                    self.prefetch_documents(&[value]);
                }
                if !needs_check || self.has_documents(value, &visibility) {
                    nearest[at] = nearest[at].min((permuted[at] ^ value).count_ones());
                }
            });
            nearest.into_iter().take(queries.len()).map(Distance::counted)
        })
    }

    /// Calls `found` with the index of a query and each fingerprint within `distance` of it, all as
    /// the index has them. The same fingerprint may be reported more than once, and its documents
    /// may have been removed.
    pub fn near_values(
        &self,
        lookup: &mut Lookup,
        queries: &[Permuted],
        distance: Distance,
        found: &mut impl FnMut(usize, Permuted),
    ) {
        let reach = SearchRadius::of(&self.plans.large, distance);
        lookup.run(self.levels(), reach, queries, found);
    }

    /// Whether a document may have a sketch.
    pub fn may_have_sketches(&self) -> bool {
        self.common.is_some_and(|common| common.any_sketch)
    }

    /// The number of documents of a fingerprint that are visible; at most [`COUNTED_MAX`] where
    /// each has to be visited.
    pub fn document_counts(
        &self,
        fingerprint: Fingerprint,
        visibility: &Visibility,
    ) -> DocumentCounts {
        self.counts_of_value(self.permuted(fingerprint, visibility), visibility)
    }

    /// The documents of a fingerprint that are visible, oldest first.
    pub fn documents_of(
        &self,
        fingerprint: Fingerprint,
        visibility: Visibility,
    ) -> impl Iterator<Item = Posting> + '_ {
        let value = self.permuted(fingerprint, &visibility);
        let postings = self.postings_from(value, visibility.since);
        postings.filter(move |posting| visibility.sees(*posting))
    }

    fn postings_of(&self, value: Permuted) -> impl Iterator<Item = Posting> + '_ {
        self.postings_from(value, Sequence::ZERO)
    }

    /// The documents of a fingerprint from a change on, oldest first. Those before it cost nothing.
    fn postings_from(
        &self,
        value: Permuted,
        first: Sequence,
    ) -> impl Iterator<Item = Posting> + '_ {
        let deleted = self.deleted_from(value, first);
        let segments = self.segments.iter().filter(move |segment| segment.reaches(first));
        let in_segments = segments.flat_map(move |segment| segment.postings_from(value, first));
        let in_deltas = self
            .deltas()
            .flat_map(move |delta| delta.events_from(value, first))
            .filter_map(|(_, event)| match event {
                DeltaEvent::Put { posting, .. } => Some(*posting),
                DeltaEvent::Removed { .. } | DeltaEvent::Reset => None,
            });
        in_segments.chain(in_deltas).filter(move |posting| !deleted.contains(posting.sequence))
    }

    /// The same, the newest first: for callers that want any of them.
    fn newest_postings(
        &self,
        value: Permuted,
        first: Sequence,
    ) -> impl Iterator<Item = Posting> + '_ {
        let deleted = self.deleted_from(value, first);
        let deltas = self.deltas().rev();
        let in_deltas = deltas.flat_map(move |delta| delta.newest_puts(value, first));
        let segments = self.segments.iter().rev().filter(move |segment| segment.reaches(first));
        let in_segments =
            segments.flat_map(move |segment| segment.postings_from(value, first).rev());
        in_deltas.chain(in_segments).filter(move |posting| !deleted.contains(posting.sequence))
    }

    /// The document under an id, also if it has expired.
    pub fn find_id(&self, key: IdKey) -> Option<Located> {
        let in_deltas = self.deltas().rev().find_map(|delta| delta.find_id(key));
        let (value, posting) = in_deltas
            .or_else(|| self.segments.iter().rev().find_map(|segment| segment.find_id(key)))?;
        let masked = self.shape.permutation.restore(value);
        // Removals name the document, not the id.
        (!self.deleted(value).contains(posting.sequence)).then_some(Located { masked, posting })
    }

    /// The namespaces with documents, other than the default one.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    pub fn times(&self) -> &Times {
        &self.times
    }

    /// Sets the time to that of the next command.
    pub fn set_time(&mut self, at_ms: u64) {
        self.times.set(at_ms);
    }

    /// When the first document expires that has not been merged away, if any expires.
    pub fn first_expiry(&self) -> Option<Expiry> {
        self.common.and_then(|common| common.expiries).map(|(first, _)| first)
    }

    /// The last change that the view contains.
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// The number of stored documents.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// The parts from which to restore a view that has these segments and tables and no deltas. The
    /// sequence and document count are those of `frozen`, the view when its deltas were closed.
    pub fn parts_of(&self, frozen: &Self) -> Parts {
        Parts {
            segments: self.segments.to_vec(),
            secondary_tables: self.secondary_tables.to_vec(),
            dropped: self.dropped,
            counts: frozen.counts(),
            namespaces: frozen.namespaces.clone(),
            times: frozen.times.clone(),
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

    /// Replaces the newest delta, which is empty and has no capacity, by one with capacity for this
    /// many events at least.
    fn open_delta(&mut self, events: usize) {
        let Shape { delta_events, distance_max, .. } = *self.shape;
        // Changes without events, such as the begin of a job, may have come since it was opened.
        let after = self.deltas[self.deltas.len() - 1].after();
        let fresh = Delta::new(delta_events.max(events), distance_max, after);
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
        let segments = self.segments.iter().filter_map(|segment| segment.common());
        let deltas = self.deltas.iter().filter_map(|delta| delta.common());
        self.common = segments.chain(deltas).reduce(Common::and);
        self.notice_files();
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

    fn permuted(&self, fingerprint: Fingerprint, visibility: &Visibility) -> Permuted {
        self.shape.permutation.apply(visibility.masked(fingerprint))
    }

    /// Appends an event to the newest delta. Opens a new delta unless this one has room for the
    /// event and for `more` further events of the same change: when a delta becomes a segment, a
    /// change that spans two deltas would be half forgotten ([`Self::near_changed_since`]).
    fn append(
        &mut self,
        value: Permuted,
        event: (DeltaEvent, (Option<IdKey>, Option<LabelKeys>)),
        more: usize,
    ) {
        if self.deltas[self.deltas.len() - 1].room() <= more {
            self.rotate();
            self.open_delta(more + 1);
        }
        let (what, keys) = event;
        self.deltas[self.deltas.len() - 1].append(self.sequence.next(), value, what, keys);
        self.live_length += 1;
    }

    /// Keeps distinct fingerprints with visible documents, at most [`NEAR_MAX`], the nearest.
    /// Returns the farness of the last one if there may be others that are as near.
    fn keep_nearest(
        &self,
        query: Permuted,
        values: &mut Vec<Permuted>,
        visibility: &Visibility,
    ) -> Option<(u32, Permuted)> {
        if values.len() > 1 {
            values.sort_unstable();
            values.dedup();
        }
        self.prefetch_documents(&values[..values.len().min(PREFETCHED_MAX)]);
        if self.needs_check(visibility) {
            values.retain(|&value| self.has_documents(value, visibility));
        }
        if values.len() <= NEAR_MAX {
            return None;
        }
        values.sort_unstable_by_key(|&value| farness(query, value));
        values.truncate(NEAR_MAX);
        values.last().map(|&value| farness(query, value))
    }

    fn near_of(&self, query: Permuted, value: Permuted, visibility: &Visibility) -> Near {
        let distance = Fingerprint::new(query).distance(Fingerprint::new(value));
        let fingerprint = visibility.masked(self.shape.permutation.restore(value));
        Near { fingerprint, distance }
    }
}

/// The order in which a look-up with too many matches keeps them.
fn farness(query: Permuted, value: Permuted) -> (u32, Permuted) {
    ((query ^ value).count_ones(), value)
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
