//! How many distinct fingerprints a level adds to what is older.
//!
//! Whether a fingerprint is new has to be asked of every older segment, and nobody but statistics and
//! snapshots want to know. So nobody who writes asks. It is counted when small segments become a large
//! one, of the few older ones, in their order, so that neighbours share lines; or before, when somebody
//! wants the number. What a level adds never changes, however what is older is merged; it is counted
//! once, and a merged level adds what its parts added.

use std::sync::Arc;

use crate::index::compaction::merge::each_row_by_segment;
use crate::index::levels::delta::DeltaAt;
use crate::index::levels::segment::{Segment, Tally};
use crate::index::permutation::Permuted;

/// Of a full delta so small a part is asked for at once.
const FEW: usize = 8;

/// How many fingerprints' lines are loaded together.
const BATCH: usize = 64;

/// How many more fingerprints have a document with a delta than in the segments and deltas before it,
/// oldest first. Some 0.03 us a fingerprint and segment; nothing where it is known to be new.
pub fn added_by_delta(segments: &[Arc<Segment>], older: &[DeltaAt<'_>], delta: DeltaAt<'_>) -> i64 {
    let (known, unknown) = known_and_unknown(delta);
    known + added_by_some(segments, older, delta, unknown)
}

/// The same of a full delta that becomes a segment, if it was counted or is soon counted.
pub fn added_by_full(segments: &[Arc<Segment>], full: DeltaAt<'_>) -> Option<i64> {
    full.delta().known_added().or_else(|| {
        let (known, unknown) = known_and_unknown(full);
        let few = unknown.len() <= full.length() as usize / FEW;
        few.then(|| known + added_by_some(segments, &[], full, unknown))
    })
}

/// How many fingerprints have a document in all segments, oldest first. Counts what was not counted yet: some
/// 0.1 us for each fingerprint of that.
pub fn added_by_all(segments: &[Arc<Segment>]) -> i64 {
    count(segments, 0);
    segments.iter().filter_map(|segment| segment.known_added()).sum()
}

/// Counts what a segment adds that was merged of adjacent ones, oldest first; a small one only where they
/// were, else it can wait.
pub fn count_merged(older: &[Arc<Segment>], from: &[Arc<Segment>], merged: &Arc<Segment>) {
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

/// Counts what each segment from a place on adds to those before it, where that is not known.
fn count(segments: &[Arc<Segment>], from: usize) {
    // Those of one form have one order, and are gone through together.
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

/// What a delta adds by fingerprints that are known to be new, and the number of each of the others.
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

/// What a delta adds by some of its fingerprints.
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
        let mut before = [Tally::default(); BATCH];
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

/// Counts what some segments add, a few fingerprints at a time.
struct Count<'a> {
    segments: &'a [Arc<Segment>],
    /// The places of those that are counted; they are of one form.
    wanted: &'a [usize],
    values: Vec<Permuted>,
    /// What each segment that is counted says, of which of these values.
    tallies: Vec<Option<Vec<(usize, Tally)>>>,
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

    /// Asks all segments in turn, those that are not counted for what they say.
    fn count_batch(&mut self) {
        let mut before = [Tally::default(); BATCH];
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

/// Adds to what was said before about some fingerprints what a segment says.
fn add_tallies(segment: &Segment, values: &[Permuted], before: &mut [Tally; BATCH]) {
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

/// Adds to what was said before about a fingerprint what a level says; whether that gives it its first document
/// (1) or takes its last (-1).
fn add_tally(before: &mut Tally, tally: Tally) -> i64 {
    let had = has_document(*before);
    *before = before.then(tally);
    i64::from(has_document(*before)) - i64::from(had)
}

fn has_document(tally: Tally) -> bool {
    tally.documents > 0
}
