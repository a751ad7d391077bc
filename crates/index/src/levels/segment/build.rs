//! Building a segment by one pass over the rows of its fingerprints.

use nearprint_fingerprint::Distance;

use crate::document::Sequence;
use crate::id_key::IdKey;
use crate::labels::tables::{LabelTables, LabelTarget};
use crate::levels::ids::IdTable;
use crate::levels::posting::{Common, Posting, Postings};
use crate::levels::segment::removals::{Removal, Removals};
use crate::levels::segment::{FingerprintRow, NamespaceGroup, ResetEntry, Segment};
use crate::levels::sorted::{Sorted, SortedBuilder};
use crate::memory::placed::Placement;
use crate::namespaces::NamespaceNumber;
use crate::permutation::Permuted;
use crate::plan::{Key, TablePlan};
use crate::tables::table::Number;

/// Takes the rows of a new segment in ascending order of key.
#[derive(Debug)]
pub struct SegmentBuilder {
    sorted: SortedBuilder,
    oldest: Postings,
    rest: RestOfSegment,
}

/// The parts of a new segment other than its fingerprints and their oldest postings.
#[derive(Debug)]
struct RestOfSegment {
    placement: Placement,
    order: TablePlan,
    groups: Vec<NamespaceGroup>,
    later: Vec<Posting>,
    removals: Vec<Removal>,
    resets: Vec<ResetEntry>,
}

impl SegmentBuilder {
    /// A builder of a small segment with at most `count` fingerprints, whose postings share
    /// `common`.
    pub fn small(distance_max: Distance, count: usize, common: Common) -> Self {
        Self::new(&Placement::Memory, SortedBuilder::small(distance_max, count), common)
    }

    /// A builder of a large segment with at most `count` fingerprints.
    pub fn large(placement: &Placement, order: TablePlan, count: u64, common: Common) -> Self {
        let sorted = SortedBuilder::large(placement, order, count);
        Self::new(placement, sorted, common)
    }

    /// A builder of the first partition of such a segment: [`Self::finish_partition`] gives those
    /// of the others.
    pub fn of_first_partition(order: TablePlan, count: u64, common: Common) -> Self {
        let sorted = SortedBuilder::of_first_partition(order, count);
        Self::new(&Placement::Memory, sorted, common)
    }

    fn new(placement: &Placement, sorted: SortedBuilder, common: Common) -> Self {
        let oldest = Postings::placed(placement, common, sorted.numbers());
        Self::with(placement.clone(), sorted, oldest)
    }

    fn with(placement: Placement, sorted: SortedBuilder, oldest: Postings) -> Self {
        let rest = RestOfSegment {
            placement,
            order: sorted.order(),
            groups: Vec::new(),
            later: Vec::new(),
            removals: Vec::new(),
            resets: Vec::new(),
        };
        Self { sorted, oldest, rest }
    }

    /// Adds the row of the fingerprint with the next larger key, and returns its number if it has a
    /// document.
    #[inline]
    pub fn push(&mut self, key: Key, row: &FingerprintRow) -> Option<Number> {
        let mut pushed = None;
        if let Some((oldest, later)) = row.postings.split_first() {
            let number = self.sorted.push(key);
            pushed = Some(number);
            self.oldest.set(number as usize, *oldest);
            if !later.is_empty() {
                let listed = row.postings.iter().filter(|posting| posting.is_listed).count() as u32;
                let namespaces = row.postings.iter().map(|posting| posting.group_namespace());
                let is_uniform =
                    namespaces.reduce(NamespaceNumber::and) != Some(NamespaceNumber::MIXED);
                let start = self.rest.later.len() as u32;
                self.rest.later.extend(later);
                self.rest.groups.push(NamespaceGroup { number, start, listed, is_uniform });
            }
        }
        if !row.removals.is_empty() || row.reset.is_some() {
            let value = self.rest.order.value(key);
            self.rest
                .removals
                .extend(row.removals.iter().map(|&posting| Removal { value, posting }));
            self.rest.resets.extend(row.reset.map(|sequence| ResetEntry { value, sequence }));
        }
        pushed
    }

    /// An upper bound of the numbers.
    pub(crate) fn numbers(&self) -> usize {
        self.sorted.numbers()
    }

    /// How many later postings there are so far.
    pub(crate) fn later(&self) -> u32 {
        self.rest.later.len() as u32
    }

    /// Builds the segment. `ids` are sorted by distinct keys; ids whose document is not in the rows
    /// are dropped. `labels` makes the label tables.
    pub(crate) fn finish(
        self,
        ids: impl IntoIterator<Item = (IdKey, Permuted, Sequence)>,
        labels: impl FnOnce(&LabelTarget<'_>) -> LabelTables,
    ) -> Segment {
        self.finish_with(|segment| segment.numbered(ids), labels)
    }

    /// The same; `ids` makes the id table of the segment that has everything else but the labels.
    pub(crate) fn finish_with(
        mut self,
        ids: impl FnOnce(&Segment) -> IdTable,
        labels: impl FnOnce(&LabelTarget<'_>) -> LabelTables,
    ) -> Segment {
        let sorted = self.sorted.finish();
        self.oldest.truncate(sorted.numbers());
        self.rest.into_segment((sorted, self.oldest), ids, labels)
    }

    /// The same for a partition; and a builder of the next one.
    pub(crate) fn finish_partition(
        mut self,
        ids: impl IntoIterator<Item = (IdKey, Permuted, Sequence)>,
        labels: impl FnOnce(&LabelTarget<'_>) -> LabelTables,
    ) -> (Segment, Option<Self>) {
        let (sorted, next) = self.sorted.finish_partition();
        let numbers = sorted.numbers();
        let next =
            next.map(|next| Self::with(Placement::Memory, next, self.oldest.split_off(numbers)));
        self.oldest.truncate(numbers);
        let ids = |segment: &Segment| segment.numbered(ids);
        (self.rest.into_segment((sorted, self.oldest), ids, labels), next)
    }
}

impl RestOfSegment {
    fn into_segment(
        self,
        (sorted, oldest): (Sorted, Postings),
        ids: impl FnOnce(&Segment) -> IdTable,
        labels: impl FnOnce(&LabelTarget<'_>) -> LabelTables,
    ) -> Segment {
        let mut segment = Segment {
            sorted,
            oldest,
            groups: self.groups,
            later: Postings::placed_of(&self.placement, &self.later),
            ids: IdTable::default(),
            labels: LabelTables::default(),
            removals: Removals::of_sorted(self.order, self.removals)
                .expect("rows are pushed by key"),
            resets: self.resets,
        };
        segment.ids = ids(&segment);
        segment.labels = segment.with_target(labels);
        segment
    }
}
