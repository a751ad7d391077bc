//! The search for similar texts over all levels of a view.

use nearprint_fingerprint::{Distance, Fingerprint, MinResemblance, Sample, Sketch};
use smallvec::SmallVec;

use super::{Near, View};
use crate::document::Sequence;
use crate::labels::{self, LOOKED_AT_MAX, LabelKey, LabelKeys, ROWS_MAX};
use crate::levels::delta::{DeltaAt, DeltaEvent};
use crate::levels::posting::Posting;
use crate::permutation::Permuted;
use crate::tables::table::Number;
use crate::visibility::Visibility;

/// A row that shares the first two minima of a label with the query.
#[derive(Debug, Clone, Copy)]
struct FingerprintRow {
    /// The bits in which its key differs from that of the query.
    differing: LabelKey,
    /// A segment, or beyond them a delta; oldest first.
    level: usize,
    /// Of the fingerprint in the segment, or the node of the delta.
    number: Number,
}

/// The rows of a look-up in one table: rarely more than this.
type Rows = SmallVec<[FingerprintRow; 64]>;

/// The largest number of rows that are passed over because their documents are not visible. They
/// are gone after the next merges.
const PASSED_MAX: usize = 16 * LOOKED_AT_MAX;

/// Rows that are collected before all but the nearest are dropped.
const COLLECTED_MAX: usize = 2 * PASSED_MAX;

/// A text that is looked up: what is compared before a sketch is read.
#[derive(Debug, Clone, Copy)]
pub struct SimilarTo<'a> {
    pub fingerprint: Fingerprint,
    pub sketch: &'a Sketch,
    /// What a sketch must reach. Samples that refute it are passed over.
    pub threshold: MinResemblance,
    /// Fingerprints within this distance are found otherwise.
    pub beyond: Distance,
}

impl View {
    /// Every fingerprint that is similar to a text ([`crate::labels`]), each once, the nearest
    /// first, and whether a bound left any out. A document counts if it is visible, if its sample
    /// may reach the threshold, and if `may_count` accepts it.
    pub fn similar(
        &self,
        text: SimilarTo<'_>,
        visibility: &Visibility,
        may_count: &mut dyn FnMut(Posting) -> bool,
    ) -> (Vec<Near>, bool) {
        let SimilarTo { fingerprint, sketch, threshold, beyond } = text;
        let shape = self.shape();
        let masked = visibility.masked(fingerprint);
        let keys = labels::keys_of(sketch.labels(), masked, visibility.mask, &shape.permutation);
        self.prefetch_labels(&keys);
        let (mut candidates, mut is_cut) = (Rows::new(), false);
        let (query, sample) = (shape.permutation.apply(masked), sketch.sample());
        let may_reach = |stored: Sample| sample.may_reach(stored, threshold);
        let mut counted = |row: FingerprintRow| {
            let value = self.value_of(row);
            let distance = Fingerprint::new(query).distance(Fingerprint::new(value));
            let mut counts =
                |posting: Posting| posting.sample.is_some_and(may_reach) && may_count(posting);
            let counts = distance > beyond
                && self.has_counting_document(row, value, visibility, &mut counts);
            counts.then_some(value)
        };
        for (table, &key) in keys.iter().enumerate() {
            let (mut rows, are_more) = self.nearest_rows(table, key, visibility);
            is_cut |= are_more;
            self.prefetch_samples(&rows);
            rows.retain(|row| self.may_have_sample(*row, &may_reach));
            if rows.len() > ROWS_MAX {
                is_cut |= self.keep_nearest_rows(&mut rows, &mut counted);
            }
            candidates.extend(rows);
        }
        // The nearest texts are found in several tables.
        candidates.sort_unstable_by_key(|row| (row.level, row.number));
        candidates.dedup_by_key(|row| (row.level, row.number));
        let mut found: Vec<Permuted> = candidates.into_iter().filter_map(&mut counted).collect();
        found.sort_unstable();
        found.dedup();
        let near = found.into_iter().map(|value| self.near_of(query, value, visibility));
        let mut near: Vec<Near> = near.collect();
        near.sort_unstable_by_key(|near| (near.distance, near.fingerprint));
        (near, is_cut)
    }

    /// The fingerprints with a change after a sequence that `is_wanted` accepts, each once; some
    /// may have no visible document. `None` as for [`Self::near_changed_since`]. Cost: in
    /// proportion to the number of those changes.
    pub fn changed_since(
        &self,
        since: Sequence,
        query: Fingerprint,
        visibility: &Visibility,
        is_wanted: &mut dyn FnMut(Near, &DeltaEvent) -> bool,
    ) -> Option<Vec<Near>> {
        if !self.reaches_back_to(since) {
            return None;
        }
        let query = self.shape().permutation.apply(visibility.masked(query));
        let mut values: Vec<Permuted> = Vec::new();
        for (value, event) in self.deltas().flat_map(|delta| delta.changed_since(since)) {
            if is_wanted(self.near_of(query, value, visibility), event) {
                values.push(value);
            }
        }
        values.sort_unstable();
        values.dedup();
        Some(values.into_iter().map(|value| self.near_of(query, value, visibility)).collect())
    }

    /// Prefetches the lines that [`Self::nearest_rows`] reads first, in all levels at once.
    fn prefetch_labels(&self, keys: &LabelKeys) {
        for segment in self.segments().iter() {
            for (table, &key) in segment.labels().all().iter().zip(keys) {
                table.prefetch(key);
            }
        }
        for delta in self.deltas() {
            for (table, &key) in keys.iter().enumerate() {
                delta.delta().labels().prefetch(table, key);
            }
        }
        for segment in self.segments().iter() {
            for (table, &key) in segment.labels().all().iter().zip(keys) {
                table.locate(key);
            }
        }
    }

    /// The nearest rows of a table that the sampled bits do not refute, of at most
    /// [`LOOKED_AT_MAX`] with a visible document, and whether there are more.
    fn nearest_rows(&self, table: usize, key: LabelKey, visibility: &Visibility) -> (Rows, bool) {
        let (mut rows, mut looked_at) = (Rows::new(), 0);
        let is_cut = self.each_row((table, key), LOOKED_AT_MAX, &mut |row| {
            looked_at += 1;
            if labels::is_near(row.differing) {
                rows.push(row);
            }
        });
        if !is_cut && looked_at <= LOOKED_AT_MAX {
            return (rows, false);
        }
        let is_cut = self.keep_in_scope(&mut rows, (table, key), visibility);
        rows.retain(|row| labels::is_near(row.differing));
        (rows, is_cut)
    }

    /// Replaces rows by the nearest [`LOOKED_AT_MAX`] with a visible document, of at most
    /// [`PASSED_MAX`]. Returns whether there are more.
    fn keep_in_scope(
        &self,
        rows: &mut Rows,
        place: (usize, LabelKey),
        visibility: &Visibility,
    ) -> bool {
        let needs_check = self.needs_check(visibility);
        let mut max = LOOKED_AT_MAX;
        loop {
            rows.clear();
            let mut are_dropped = false;
            let mut is_cut = self.each_row(place, max, &mut |row| {
                rows.push(row);
                // A delta may have many more.
                if rows.len() == COLLECTED_MAX {
                    rows.sort_by_cached_key(|row| (row.differing, self.value_of(*row)));
                    rows.truncate(PASSED_MAX);
                    are_dropped = true;
                }
            });
            self.sort_rows(rows);
            is_cut |= are_dropped || rows.len() > max;
            rows.truncate(max);
            if needs_check {
                let has_sketch = &mut |posting: Posting| posting.sample.is_some();
                rows.retain(|row| {
                    self.has_counting_document(*row, self.value_of(*row), visibility, has_sketch)
                });
            }
            let end = self.end_of_looked_at(rows);
            if !is_cut || end.is_some() || max == PASSED_MAX {
                rows.truncate(end.unwrap_or(rows.len()));
                return is_cut || end.is_some();
            }
            max = (2 * max).min(PASSED_MAX);
        }
    }

    /// Where the rows of the first [`LOOKED_AT_MAX`] fingerprints end, if there are more. The same
    /// fingerprint in several levels is one.
    fn end_of_looked_at(&self, rows: &Rows) -> Option<usize> {
        let is_repeated = |a: &FingerprintRow, b: &FingerprintRow| {
            a.differing == b.differing
                && a.level != b.level
                && self.value_of(*a) == self.value_of(*b)
        };
        let end = rows.chunk_by(is_repeated).take(LOOKED_AT_MAX).map(<[FingerprintRow]>::len).sum();
        (end < rows.len()).then_some(end)
    }

    /// Puts rows in order: the nearest first, equally near ones by fingerprint.
    fn sort_rows(&self, rows: &mut Rows) {
        rows.sort_by_key(|row| row.differing);
        for same in rows.chunk_by_mut(|a, b| a.differing == b.differing) {
            // The rows of one segment come by fingerprint, and this sort keeps their order.
            let level = same[0].level;
            if level >= self.segments().len() || same.iter().any(|row| row.level != level) {
                same.sort_by_cached_key(|row| self.value_of(*row));
            }
        }
    }

    /// Keeps the nearest [`ROWS_MAX`] rows that count. The same fingerprint in several levels is
    /// one. Returns whether there are more.
    fn keep_nearest_rows(
        &self,
        rows: &mut Rows,
        counted: &mut impl FnMut(FingerprintRow) -> Option<Permuted>,
    ) -> bool {
        self.sort_rows(rows);
        let (mut taken, mut last, mut is_cut) = (0, None, false);
        rows.retain(|row| {
            let value = if is_cut { None } else { counted(*row) };
            if value.is_none() || value == last {
                return false;
            }
            is_cut = taken == ROWS_MAX;
            last = value;
            taken += 1;
            !is_cut
        });
        is_cut
    }

    /// Calls `each` with the rows of a table that share the first two minima of a key, of each
    /// segment at most `max`, the nearest. Returns whether a segment has more.
    fn each_row(
        &self,
        (table, key): (usize, LabelKey),
        max: usize,
        each: &mut impl FnMut(FingerprintRow),
    ) -> bool {
        let mut is_cut = false;
        for (level, segment) in self.segments().iter().enumerate() {
            let labels = &segment.labels().all()[table];
            is_cut |= labels.sharing(key, max, |differing, number| {
                each(FingerprintRow { differing, level, number });
            });
        }
        let segments = self.segments().len();
        for (at, delta) in self.deltas().enumerate() {
            delta.each_sharing(table, key, |text| {
                let differing = text.keys[table] ^ key;
                each(FingerprintRow { differing, level: segments + at, number: text.node });
            });
        }
        is_cut
    }

    fn prefetch_samples(&self, rows: &Rows) {
        for row in rows {
            if let Some(segment) = self.segments().get(row.level) {
                segment.prefetch_sample(row.number);
            }
        }
    }

    /// A quick test of a row before its documents are visited.
    fn may_have_sample(&self, row: FingerprintRow, may_reach: &impl Fn(Sample) -> bool) -> bool {
        match self.segments().get(row.level) {
            Some(segment) => segment.may_have_sample(row.number, may_reach),
            None => true,
        }
    }

    fn value_of(&self, row: FingerprintRow) -> Permuted {
        match self.segments().get(row.level) {
            Some(segment) => segment.sorted().value(row.number),
            None => self.delta_of(row).value_of(row.number),
        }
    }

    fn has_counting_document(
        &self,
        row: FingerprintRow,
        value: Permuted,
        visibility: &Visibility,
        may_count: &mut dyn FnMut(Posting) -> bool,
    ) -> bool {
        let mut counts = |posting: Posting| {
            visibility.sees(posting)
                && may_count(posting)
                && (!self.has_deletions() || !self.deleted(value).contains(posting.sequence))
        };
        match self.segments().get(row.level) {
            Some(segment) => segment.postings_at(row.number).any(&mut counts),
            None => self.delta_of(row).puts_of(row.number).any(&mut counts),
        }
    }

    fn delta_of(&self, row: FingerprintRow) -> DeltaAt<'_> {
        let at = row.level - self.segments().len();
        self.deltas().nth(at).expect("a row is of a level")
    }
}
