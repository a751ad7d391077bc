//! What some segments say about fingerprints, each saying with a number.
//!
//! They are numbered in the order in which they count: of each segment, oldest first, its resets, its removals, its
//! documents put (for each fingerprint with some). So what was said about a fingerprint, added up by number, is what
//! the segments together say.

use std::sync::Arc;

use crate::index::compaction::runs;
use crate::index::compaction::runs::{Item, Run};
use crate::index::levels::segment::{Row, Segment};
use crate::index::permutation::Permuted;
use crate::index::plan::Key;
use crate::index::tables::table::Number;

/// What some segments say, oldest first.
#[derive(Debug)]
pub(crate) struct Sayings<'a> {
    segments: &'a [Arc<Segment>],
    /// The number of the first one of each.
    firsts: Vec<u32>,
}

impl<'a> Sayings<'a> {
    /// Those of some segments.
    pub(crate) fn of(segments: &'a [Arc<Segment>]) -> Self {
        let firsts = segments.iter().scan(0, |next, segment| {
            let first = *next;
            *next += (segment.hiding() + segment.sorted().numbers()) as u32;
            Some(first)
        });
        Self { segments, firsts: firsts.collect() }
    }

    /// All, in no order.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Permuted, u32)> {
        let of_segment = |(segment, &first): (&'a Arc<Segment>, &u32)| {
            let (resets, removals) = (segment.resets(), segment.removals());
            let hiding = resets.iter().map(|reset| reset.value);
            let hiding = hiding.chain(removals.iter().map(|removal| removal.value));
            let (put, sorted) = (first + segment.hiding() as u32, segment.sorted());
            let puts = sorted.entries().map(move |(key, at)| (sorted.order().value(key), put + at));
            hiding.zip(first..).chain(puts)
        };
        self.segments.iter().zip(&self.firsts).flat_map(of_segment)
    }

    /// Calls `each` with what was said about each fingerprint, by key. All segments have one order.
    pub(crate) fn each(&self, mut each: impl FnMut(Key, &[Item])) {
        runs::each_stretch(self.runs(), |stretch| {
            for said in stretch.chunk_by(|a, b| a.0 == b.0) {
                each(said[0].0, said);
            }
        });
    }

    /// The place of the segment that said it.
    #[inline]
    pub(crate) fn segment_of(&self, said: u32) -> usize {
        self.firsts.partition_point(|&first| first <= said) - 1
    }

    /// Adds it to what was said before about its fingerprint.
    #[inline]
    pub(crate) fn add(&self, said: u32, row: &mut Row) {
        let at = self.segment_of(said);
        let (segment, said) = (&self.segments[at], (said - self.firsts[at]) as usize);
        let Some(number) = said.checked_sub(segment.hiding()) else {
            return add_hiding(segment, said, row);
        };
        segment.postings_at(number as Number).for_each(|posting| row.put(posting));
    }

    fn runs(&self) -> Vec<Run<'a>> {
        let of_segment = |(segment, &first): (&'a Arc<Segment>, &u32)| {
            let order = segment.sorted().order();
            let resets = segment.resets().iter().map(move |reset| order.key(reset.value));
            let removals = segment.removals().iter().map(move |removal| order.key(removal.value));
            let (removal, put) = (first + resets.len() as u32, first + segment.hiding() as u32);
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
fn add_hiding(segment: &Segment, said: usize, row: &mut Row) {
    let (resets, removals) = (segment.resets(), segment.removals());
    match resets.get(said) {
        Some(reset) => row.reset(reset.sequence),
        None => row.remove(removals[said - resets.len()].posting),
    }
}
