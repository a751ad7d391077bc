//! The search for similar texts over all levels of a view.

use nearprint_fingerprint::{Distance, Fingerprint, LABELS, Label};
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
struct Row {
    /// The bits in which its key differs from that of the query.
    differing: LabelKey,
    /// A segment, or beyond them a delta; oldest first.
    level: usize,
    /// Of the fingerprint in the segment, or the node of the delta.
    number: Number,
}

/// The rows of a look-up in one table: rarely more than this.
type Rows = SmallVec<[Row; 64]>;

impl View {
    /// Every fingerprint that is similar to a text ([`crate::labels`]), each once, the nearest
    /// first, and whether a bound left any out. A document counts if it is in scope and `may_count`
    /// accepts it; it gets the distance, and the posting with the sample of the sketch.
    pub fn similar(
        &self,
        query: Fingerprint,
        labels: &[Label; LABELS],
        visibility: &Visibility,
        may_count: &mut dyn FnMut(Distance, Posting) -> bool,
    ) -> (Vec<Near>, bool) {
        let shape = self.shape();
        let masked = visibility.masked(query);
        let keys = labels::keys_of(labels, masked, visibility.mask, &shape.permutation);
        self.prefetch_labels(&keys);
        let (mut found, mut is_cut) = (SmallVec::<[Permuted; 16]>::new(), false);
        let query = shape.permutation.apply(masked);
        for (table, &key) in keys.iter().enumerate() {
            let (rows, are_more) = self.nearest_rows(table, key);
            is_cut |= are_more;
            let mut taken = 0;
            for row in rows {
                let value = self.value_of(row);
                if found.last() == Some(&value) && taken > 0 {
                    continue;
                }
                let distance = Fingerprint::new(query).distance(Fingerprint::new(value));
                let mut may_count = |posting: Posting| may_count(distance, posting);
                if !self.has_counting_document(row, value, visibility, &mut may_count) {
                    continue;
                }
                if taken == ROWS_MAX {
                    is_cut = true;
                    break;
                }
                taken += 1;
                found.push(value);
            }
        }
        found.sort_unstable();
        found.dedup();
        let near = found.into_iter().map(|value| self.near_of(query, value, visibility));
        let mut near: Vec<Near> = near.collect();
        near.sort_unstable_by_key(|near| (near.distance, near.fingerprint));
        (near, is_cut)
    }

    /// The fingerprints with a change after a sequence that `is_wanted` accepts, each once; some may
    /// have no document in scope. `None` as for [`Self::near_changed_since`]. Cost: in proportion to
    /// the number of those changes.
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
    /// [`LOOKED_AT_MAX`], and whether there are more. If they are more than [`ROWS_MAX`], they are
    /// in order.
    fn nearest_rows(&self, table: usize, key: LabelKey) -> (Rows, bool) {
        let (mut rows, mut is_cut) = (Rows::new(), false);
        for (level, segment) in self.segments().iter().enumerate() {
            let labels = &segment.labels().all()[table];
            is_cut |= labels.sharing(key, LOOKED_AT_MAX, |differing, number| {
                rows.push(Row { differing, level, number });
            });
        }
        let segments = self.segments().len();
        for (at, delta) in self.deltas().enumerate() {
            delta.each_sharing(table, key, |text| {
                let differing = text.keys[table] ^ key;
                rows.push(Row { differing, level: segments + at, number: text.node });
            });
        }
        if rows.len() > LOOKED_AT_MAX {
            self.sort_rows(&mut rows);
            is_cut |= rows.len() > LOOKED_AT_MAX;
            rows.truncate(LOOKED_AT_MAX);
        }
        rows.retain(|row| labels::is_near(row.differing));
        if rows.len() > ROWS_MAX {
            self.sort_rows(&mut rows);
        }
        (rows, is_cut)
    }

    /// The nearest first; of equal labels and sampled bits, by fingerprint.
    fn sort_rows(&self, rows: &mut Rows) {
        rows.sort_by_cached_key(|row| (row.differing, self.value_of(*row)));
    }

    fn value_of(&self, row: Row) -> Permuted {
        match self.segments().get(row.level) {
            Some(segment) => segment.sorted().value(row.number),
            None => self.delta_of(row).value_of(row.number),
        }
    }

    fn has_counting_document(
        &self,
        row: Row,
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

    fn delta_of(&self, row: Row) -> DeltaAt<'_> {
        let at = row.level - self.segments().len();
        self.deltas().nth(at).expect("a row is of a level")
    }
}
