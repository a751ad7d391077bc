//! Counting the distinct fingerprints that a level adds to the older levels.
//!
//! To know whether a fingerprint is new, every older segment has to be searched, and only
//! statistics and snapshots need the count. So writes never trigger a count. A level is counted
//! when small segments become a large one, against few older segments and in their order, so that
//! neighbours share lines; or earlier, when statistics need the number. What a level adds never
//! changes, however the older levels are merged: it is counted once, and a merged level adds the
//! sum of its inputs.

use std::sync::Arc;

use crate::compaction::merge::each_row_by_segment;
use crate::levels::delta::DeltaAt;
use crate::levels::segment::{PostingTally, Segment};
use crate::permutation::Permuted;

/// A full delta is counted at once if at most one in this many fingerprints is not known to be new.
const FEW: usize = 8;

/// Fingerprints whose lines are in flight together.
const BATCH: usize = 64;

/// The number of fingerprints that a delta adds to the segments and older deltas, each oldest
/// first. About 0.03 us for each fingerprint and segment; nothing for fingerprints known to be new.
pub(crate) fn added_by_delta(
    segments: &[Arc<Segment>],
    older: &[DeltaAt<'_>],
    delta: DeltaAt<'_>,
) -> i64 {
    let (known, unknown) = known_and_unknown(delta);
    known + added_by_some(segments, older, delta, unknown)
}

/// The number of fingerprints that a full delta adds, if it has been counted or is quick to count.
pub(crate) fn added_by_full(segments: &[Arc<Segment>], full: DeltaAt<'_>) -> Option<i64> {
    full.delta().known_added().or_else(|| {
        let (known, unknown) = known_and_unknown(full);
        let few = unknown.len() <= full.length() as usize / FEW;
        few.then(|| known + added_by_some(segments, &[], full, unknown))
    })
}

/// The number of fingerprints that have a document in the segments, oldest first. Counts the
/// segments that were not counted yet: about 0.1 us for each of their fingerprints.
pub(crate) fn added_by_all(segments: &[Arc<Segment>]) -> i64 {
    count(segments, 0);
    segments.iter().filter_map(|segment| segment.known_added()).sum()
}

/// Counts what a segment merged from adjacent ones adds. A small one is counted only if one of its
/// inputs was; otherwise it can wait.
pub(crate) fn count_merged(older: &[Arc<Segment>], from: &[Arc<Segment>], merged: &Arc<Segment>) {
    let (mut segments, at) = (older.to_vec(), older.len());
    if from.iter().any(|segment| segment.known_added().is_some()) {
        segments.extend_from_slice(from);
        count(&segments, at);
        merged.added(|| from.iter().filter_map(|segment| segment.known_added()).sum());
    } else if !merged.sorted().is_small() {
        segments.push(Arc::clone(merged));
        count(&segments, at);
    }
}

/// Counts what each uncounted segment from an index on adds to those before it.
fn count(segments: &[Arc<Segment>], from: usize) {
    // Small segments have one order and large ones another; those of one order are counted
    // together.
    for small in [true, false] {
        let wanted = |at: &usize| {
            let segment = &segments[*at];
            segment.sorted().is_small() == small && segment.known_added().is_none()
        };
        let wanted: Vec<usize> = (from..segments.len()).filter(wanted).collect();
        if !wanted.is_empty() {
            Count::new(segments, &wanted).run();
        }
    }
}

/// The fingerprints that a delta adds and that are known to be new, and the number of each other
/// fingerprint.
fn known_and_unknown(delta: DeltaAt<'_>) -> (i64, Vec<(Permuted, u32)>) {
    let mut unknown = Vec::new();
    let mut added = 0;
    for (value, number) in delta.values() {
        if delta.is_new(number) {
            added += i64::from(has_document(delta.tally_of(number)));
        } else {
            unknown.push((value, number));
        }
    }
    (added, unknown)
}

/// The number of fingerprints that a delta adds, out of some.
fn added_by_some(
    segments: &[Arc<Segment>],
    older: &[DeltaAt<'_>],
    delta: DeltaAt<'_>,
    mut some: Vec<(Permuted, u32)>,
) -> i64 {
    some.sort_unstable();
    let (mut added, mut values) = (0, Vec::with_capacity(BATCH));
    for some in some.chunks(BATCH) {
        values.clear();
        values.extend(some.iter().map(|&(value, _)| value));
        let mut before = [PostingTally::default(); BATCH];
        for segment in segments {
            add_tallies(segment, &values, &mut before);
        }
        for (before, &(value, number)) in before.iter_mut().zip(some) {
            for delta in older {
                *before = before.then(delta.tally(value));
            }
            added += add_tally(before, delta.tally_of(number));
        }
    }
    added
}

/// Counts what some segments add, one batch of fingerprints at a time.
struct Count<'a> {
    segments: &'a [Arc<Segment>],
    /// The indices of the segments to count: all small or all large.
    wanted: &'a [usize],
    values: Vec<Permuted>,
    /// For each segment to count, its tallies, with the index of the value of each.
    tallies: Vec<Option<Vec<(usize, PostingTally)>>>,
    added: Vec<i64>,
}

impl<'a> Count<'a> {
    fn new(segments: &'a [Arc<Segment>], wanted: &'a [usize]) -> Self {
        let tallies = |at| wanted.contains(&at).then(|| Vec::with_capacity(BATCH));
        Self {
            segments,
            wanted,
            values: Vec::with_capacity(BATCH),
            tallies: (0..segments.len()).map(tallies).collect(),
            added: vec![0; segments.len()],
        }
    }

    fn run(mut self) {
        let wanted = self.wanted;
        let counted: Vec<_> = wanted.iter().map(|&at| Arc::clone(&self.segments[at])).collect();
        let order = counted[0].sorted().order();
        each_row_by_segment(&counted, |key, at, row| {
            let value = order.value(key);
            if self.values.last() != Some(&value) {
                if self.values.len() == BATCH {
                    self.count_batch();
                }
                self.values.push(value);
            }
            if let Some(tallies) = &mut self.tallies[wanted[at]] {
                tallies.push((self.values.len() - 1, row.tally()));
            }
        });
        self.count_batch();
        for &at in wanted {
            self.segments[at].added(|| self.added[at]);
        }
    }

    /// Applies the tallies of all segments in turn to the batch.
    fn count_batch(&mut self) {
        let mut before = [PostingTally::default(); BATCH];
        for ((segment, tallies), added) in
            self.segments.iter().zip(&mut self.tallies).zip(&mut self.added)
        {
            match tallies {
                Some(tallies) => {
                    for (value, tally) in tallies.drain(..) {
                        *added += add_tally(&mut before[value], tally);
                    }
                }
                None => add_tallies(segment, &self.values, &mut before),
            }
        }
        self.values.clear();
    }
}

/// Applies a segment's tallies to those of the older levels.
fn add_tallies(segment: &Segment, values: &[Permuted], before: &mut [PostingTally; BATCH]) {
    for &value in values {
        segment.sorted().prefetch_value(value);
    }
    for &value in values {
        segment.sorted().locate_value(value);
    }
    for (before, &value) in before.iter_mut().zip(values) {
        *before = before.then(segment.tally(value));
    }
}

/// Applies a level's tally to that of the older levels. Returns 1 if the fingerprint gets its first
/// document, -1 if it loses its last.
fn add_tally(before: &mut PostingTally, tally: PostingTally) -> i64 {
    let had = has_document(*before);
    *before = before.then(tally);
    i64::from(has_document(*before)) - i64::from(had)
}

fn has_document(tally: PostingTally) -> bool {
    tally.documents > 0
}
