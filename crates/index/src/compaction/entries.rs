//! The entries of the segments of a merge, each with a number.
//!
//! Entries are numbered by precedence: segments oldest first; within one, resets, then removals,
//! then inserts (one entry for each fingerprint with documents). So the entries of a fingerprint,
//! applied in the order of their numbers, give its state after all segments. [`NewNumbers`] tells
//! which number a fingerprint has after the merge, for the rows of its labels.

use std::sync::Arc;

use crate::labels::tables::{LabelTables, LabelTarget, Renumbered};
use crate::levels::segment::{FingerprintRow, Segment};
use crate::permutation::Permuted;
use crate::plan::Key;
use crate::tables::runs;
use crate::tables::runs::{Run, RunItem};
use crate::tables::table::Number;

/// For each entry of a merge, the number that its fingerprint has in the result. 4 bytes each.
#[derive(Debug)]
pub(crate) struct NewNumbers(Vec<Number>);

/// The number of an entry whose fingerprint has no document any more.
const NONE: Number = Number::MAX;

impl NewNumbers {
    pub(crate) fn set(&mut self, entry: u32, number: Number) {
        if let Some(new) = self.0.get_mut(entry as usize) {
            *new = number;
        }
    }
}

/// The entries of some segments, oldest first.
#[derive(Debug)]
pub(crate) struct MergeEntries<'a> {
    segments: &'a [Arc<Segment>],
    /// The number of each segment's first entry.
    firsts: Vec<u32>,
}

impl<'a> MergeEntries<'a> {
    pub(crate) fn of(segments: &'a [Arc<Segment>]) -> Self {
        let firsts = segments.iter().scan(0, |next, segment| {
            let first = *next;
            *next += (segment.tombstones() + segment.sorted().numbers()) as u32;
            Some(first)
        });
        Self { segments, firsts: firsts.collect() }
    }

    /// No new numbers yet; none are kept if no segment has labels.
    pub(crate) fn new_numbers(&self) -> NewNumbers {
        let has_labels = |segment: &Arc<Segment>| !segment.labels().is_empty();
        let (Some(last), true) = (self.segments.last(), self.segments.iter().any(has_labels))
        else {
            return NewNumbers(Vec::new());
        };
        let first = self.firsts.last().copied().unwrap_or_default() as usize;
        NewNumbers(vec![NONE; first + last.tombstones() + last.sorted().numbers()])
    }

    /// The labels of all segments, of fingerprints with these new numbers.
    pub(crate) fn labels(&self, numbers: &NewNumbers, target: &LabelTarget<'_>) -> LabelTables {
        if numbers.0.is_empty() {
            return LabelTables::default();
        }
        let renumber = |(segment, &first): (&'a Arc<Segment>, &u32)| {
            let put = first as usize + segment.tombstones();
            move |number: Number| Some(numbers.0[put + number as usize]).filter(|&new| new != NONE)
        };
        let renumber: Vec<_> = self.segments.iter().zip(&self.firsts).map(renumber).collect();
        let inputs = self.segments.iter().zip(&renumber);
        let inputs: Vec<Renumbered<'_>> =
            inputs.map(|(segment, renumber)| (segment.labels(), renumber as _)).collect();
        LabelTables::merged(&inputs, target)
    }

    /// All entries, in no particular order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Permuted, u32)> {
        let of_segment = |(segment, &first): (&'a Arc<Segment>, &u32)| {
            let (resets, removals) = (segment.resets(), segment.removals());
            let tombstones = resets.iter().map(|reset| reset.value);
            let tombstones = tombstones.chain(removals.iter().map(|removal| removal.value));
            let (put, sorted) = (first + segment.tombstones() as u32, segment.sorted());
            let puts = sorted.entries().map(move |(key, at)| (sorted.order().value(key), put + at));
            tombstones.zip(first..).chain(puts)
        };
        self.segments.iter().zip(&self.firsts).flat_map(of_segment)
    }

    /// Calls `each` with the entries of each fingerprint, by key. All segments must have the same
    /// order.
    pub(crate) fn each(&self, mut each: impl FnMut(Key, &[RunItem])) {
        runs::each_stretch(self.runs(), |stretch| {
            for items in stretch.chunk_by(|a, b| a.0 == b.0) {
                each(items[0].0, items);
            }
        });
    }

    /// Applies an entry to the row of its fingerprint.
    #[inline]
    pub(crate) fn add(&self, entry: u32, row: &mut FingerprintRow) {
        let at = self.firsts.partition_point(|&first| first <= entry) - 1;
        let (segment, entry) = (&self.segments[at], (entry - self.firsts[at]) as usize);
        let Some(number) = entry.checked_sub(segment.tombstones()) else {
            return add_tombstone(segment, entry, row);
        };
        segment.postings_at(number as Number).for_each(|posting| row.put(posting));
    }

    fn runs(&self) -> Vec<Run<'a>> {
        let of_segment = |(segment, &first): (&'a Arc<Segment>, &u32)| {
            let order = segment.sorted().order();
            let resets = segment.resets().iter().map(move |reset| order.key(reset.value));
            let removals = segment.removals().iter().map(move |removal| order.key(removal.value));
            let (removal, put) = (first + resets.len() as u32, first + segment.tombstones() as u32);
            let mut entries = segment.sorted().entries();
            [
                Run::of(resets.zip(first..)),
                Run::of(removals.zip(removal..)),
                Run::new(move |ahead| {
                    entries.next_few(|(key, number)| ahead.push((key, put + number)))
                }),
            ]
        };
        self.segments.iter().zip(&self.firsts).flat_map(of_segment).collect()
    }
}

#[cold]
fn add_tombstone(segment: &Segment, entry: usize, row: &mut FingerprintRow) {
    let (resets, removals) = (segment.resets(), segment.removals());
    match resets.get(entry) {
        Some(reset) => row.reset(reset.sequence),
        None => row.remove(removals[entry - resets.len()].posting),
    }
}
