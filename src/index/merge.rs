//! Merging adjacent segments into one, and choosing which.
//!
//! Sizes stay geometric: a segment is at least `ratio` times as large as all newer ones together, so
//! there are about log4 of (all / one delta) of them under load, and each entry is rewritten a
//! handful of times on its way. When writes pause, a larger ratio leaves fewer segments, and
//! look-ups get quicker. A merge needs the memory of its result beside that of its inputs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;

use crate::document::Sequence;
use crate::fingerprint::Distance;
use crate::index::ids::IdKey;
use crate::index::permutation::Permuted;
use crate::index::segment::{Builder, Row, Segment};

/// How many times as large as all newer ones together a segment has to be to be left alone.
pub const RATIO: u64 = 3;

/// The same for a time without writes.
pub const RATIO_IDLE: u64 = 10;

/// Which segments to merge next, given their sizes, oldest first.
pub fn choose(sizes: &[u64], ratio: u64) -> Option<Range<usize>> {
    let mut newer = 0;
    let mut from = None;
    for (i, &size) in sizes.iter().enumerate().rev() {
        if newer > 0 && size < ratio * newer {
            from = Some(i);
        }
        newer += size.max(1);
    }
    from.map(|from| from..sizes.len())
}

/// What counts towards a segment's size: it costs to keep, to visit and to merge.
pub fn size(segment: &Segment) -> u64 {
    (segment.documents() + segment.hiding()) as u64
}

/// Merges adjacent segments, oldest first, into the segment that says the same.
///
/// With `oldest`, nothing lies below them: removals and resets have done their work and go.
/// Cost: one pass over all fingerprints, and building the tables.
pub fn merge(segments: &[Arc<Segment>], distance_max: Distance, oldest: bool) -> Segment {
    let fingerprints = segments.iter().map(|segment| segment.fingerprints()).sum();
    let mut builder = Builder::with_capacity(fingerprints);
    let mut cursors: Vec<Cursor<'_>> =
        segments.iter().map(|segment| Cursor::new(segment)).collect();
    let mut heads: BinaryHeap<Reverse<Permuted>> =
        cursors.iter().filter_map(|cursor| cursor.value().map(Reverse)).collect();
    let mut row = Row::default();
    let mut last = None;
    while let Some(Reverse(value)) = heads.pop() {
        if last.replace(value) == Some(value) {
            continue;
        }
        row.clear();
        for cursor in cursors.iter_mut().filter(|cursor| cursor.value() == Some(value)) {
            cursor.fold_into(&mut row);
            heads.extend(cursor.value().map(Reverse));
        }
        if oldest {
            row.removals.clear();
            row.reset = None;
        }
        builder.push(value, &row);
    }
    builder.finish(distance_max, newest_ids(segments))
}

/// The newest document of each id, by key.
fn newest_ids(segments: &[Arc<Segment>]) -> impl Iterator<Item = (IdKey, Permuted, Sequence)> {
    let mut sources: Vec<_> = segments.iter().map(|s| s.ids().iter().peekable()).collect();
    std::iter::from_fn(move || {
        let key = sources.iter_mut().filter_map(|source| Some(source.peek()?.0)).min()?;
        let mut newest = None;
        for (segment, source) in segments.iter().zip(&mut sources) {
            if let Some((_, number)) = source.next_if(|(other, _)| *other == key) {
                newest = Some((segment, number));
            }
        }
        let (segment, number) = newest.expect("a source has the smallest key");
        let (value, posting) = segment.document(number);
        Some((key, value, posting.sequence))
    })
}

/// Walks over everything that a segment says, by fingerprint.
struct Cursor<'a> {
    segment: &'a Segment,
    rank: usize,
    removal: usize,
    reset: usize,
}

impl<'a> Cursor<'a> {
    fn new(segment: &'a Segment) -> Self {
        Self { segment, rank: 0, removal: 0, reset: 0 }
    }

    /// The fingerprint it stands at.
    fn value(&self) -> Option<Permuted> {
        let row =
            (self.rank < self.segment.fingerprints()).then(|| self.segment.value(self.rank as u32));
        let removal = self.segment.removals().get(self.removal).map(|removal| removal.value);
        let reset = self.segment.resets().get(self.reset).map(|reset| reset.value);
        [row, removal, reset].into_iter().flatten().min()
    }

    /// Adds what the segment says about the fingerprint to what older ones said, and moves on.
    fn fold_into(&mut self, row: &mut Row) {
        let value = self.value();
        if let Some(reset) = self.segment.resets().get(self.reset)
            && Some(reset.value) == value
        {
            row.reset(reset.sequence);
            self.reset += 1;
        }
        while let Some(removal) = self.segment.removals().get(self.removal)
            && Some(removal.value) == value
        {
            row.remove(removal.posting);
            self.removal += 1;
        }
        if self.rank < self.segment.fingerprints()
            && Some(self.segment.value(self.rank as u32)) == value
        {
            self.segment.postings_at(self.rank as u32).for_each(|posting| row.put(posting));
            self.rank += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_geometric_and_few_while_segments_arrive() {
        let mut sizes: Vec<u64> = Vec::new();
        let mut rewritten = 0;
        for _ in 0..4_000 {
            sizes.push(1);
            while let Some(range) = choose(&sizes, RATIO) {
                let merged: u64 = sizes.drain(range).sum();
                rewritten += merged;
                sizes.push(merged);
            }
            assert!(sizes.len() <= 8, "{sizes:?}");
        }
        assert_eq!(sizes.iter().sum::<u64>(), 4_000);
        assert!(rewritten < 4_000 * 24, "each entry was rewritten {} times", rewritten / 4_000);
    }

    #[test]
    fn nothing_is_chosen_where_nothing_gains() {
        assert_eq!(choose(&[], RATIO), None);
        assert_eq!(choose(&[5], RATIO), None);
        assert_eq!(choose(&[100, 10], RATIO), None);
        assert_eq!(choose(&[100, 10, 10], RATIO), Some(1..3));
        assert_eq!(choose(&[20, 10], RATIO), Some(0..2));
        assert_eq!(choose(&[50, 10], RATIO_IDLE), Some(0..2));
    }
}
