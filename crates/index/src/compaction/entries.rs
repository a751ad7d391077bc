//! The entries of the segments of a merge, each with a number.
//!
//! Entries are numbered by precedence: segments oldest first; within one, resets, then removals,
//! then inserts (one entry for each fingerprint with documents). So the entries of a fingerprint,
//! applied in the order of their numbers, give its state after all segments.

use std::sync::Arc;

use crate::compaction::numbers::{NewNumbers, NumbersInOrder};
use crate::id_key::IdKey;
use crate::labels::tables::{LabelTables, LabelTarget, Renumbered};
use crate::levels::ids::{IdTable, IdTableBuilder};
use crate::levels::segment::{FingerprintRow, Segment};
use crate::memory::placed::Placement;
use crate::permutation::Permuted;
use crate::plan::Key;
use crate::tables::runs;
use crate::tables::runs::{Run, RunItem};
use crate::tables::table::Number;

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
            return NewNumbers::of_entries(0);
        };
        let first = self.firsts.last().copied().unwrap_or_default() as usize;
        NewNumbers::of_entries(first + last.tombstones() + last.sorted().numbers())
    }

    /// No new numbers yet, in a result with the order of the segments and at most `numbers`.
    pub(crate) fn numbers_in_order(&self, numbers: usize) -> NumbersInOrder {
        let old = self.segments.iter().map(|segment| segment.sorted().numbers());
        NumbersInOrder::below(old, numbers)
    }

    /// The labels of all segments, of fingerprints with these new numbers.
    pub(crate) fn labels(&self, numbers: &NewNumbers, target: &LabelTarget<'_>) -> LabelTables {
        let of = |at: usize, number: Number| {
            let put = self.firsts[at] + self.segments[at].tombstones() as u32;
            numbers.of(put + number)
        };
        self.renumbered_labels(&Placement::Memory, &of, target)
    }

    /// The labels of all segments, of fingerprints to which `renumber` gives new numbers: by the
    /// index of a segment and the number there.
    pub(crate) fn renumbered_labels(
        &self,
        placement: &Placement,
        renumber: &impl Fn(usize, Number) -> Option<Number>,
        target: &LabelTarget<'_>,
    ) -> LabelTables {
        let of_segment = |at| move |number| renumber(at, number);
        let renumber: Vec<_> = (0..self.segments.len()).map(of_segment).collect();
        let inputs = self.segments.iter().zip(&renumber);
        let inputs: Vec<Renumbered<'_>> =
            inputs.map(|(segment, renumber)| (segment.labels(), renumber as _)).collect();
        LabelTables::merged(placement, &inputs, target)
    }

    /// The ids of all segments, of documents with these new numbers in a result with fingerprints
    /// below `numbers`.
    pub(crate) fn ids(
        &self,
        placement: &Placement,
        new: &NumbersInOrder,
        numbers: usize,
    ) -> IdTable {
        let count = self.segments.iter().map(|segment| segment.ids().len()).sum();
        let mut ids = IdTableBuilder::new(placement, count);
        for (key, at, document) in newest_ids(self.segments) {
            if let Some(document) = new.document(at, document, numbers) {
                ids.push(key, document);
            }
        }
        ids.finish()
    }

    /// The segment of an entry, and the number of the fingerprint that it puts, if it puts one.
    pub(crate) fn put_of(&self, entry: u32) -> Option<(usize, &'a Segment, Number)> {
        let at = self.firsts.partition_point(|&first| first <= entry) - 1;
        let segment = &self.segments[at];
        let number = (entry - self.firsts[at]).checked_sub(segment.tombstones() as u32)?;
        Some((at, segment, number))
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

/// The newest document of each id, by key: its segment, and its number there.
pub(crate) fn newest_ids(
    segments: &[Arc<Segment>],
) -> impl Iterator<Item = (IdKey, usize, u32)> + '_ {
    let mut sources: Vec<_> = segments.iter().map(|s| s.ids().iter().peekable()).collect();
    std::iter::from_fn(move || {
        let key = sources.iter_mut().filter_map(|source| Some(source.peek()?.0)).min()?;
        let mut newest = None;
        for (at, source) in sources.iter_mut().enumerate() {
            if let Some((_, number)) = source.next_if(|(other, _)| *other == key) {
                newest = Some((at, number));
            }
        }
        let (at, number) = newest.expect("a source has the smallest key");
        Some((key, at, number))
    })
}

#[cold]
fn add_tombstone(segment: &Segment, entry: usize, row: &mut FingerprintRow) {
    let (resets, removals) = (segment.resets(), segment.removals());
    match resets.get(entry) {
        Some(reset) => row.reset(reset.sequence),
        None => row.remove(removals[entry - resets.len()].posting),
    }
}
