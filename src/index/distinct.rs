//! How many distinct fingerprints a delta adds to what is older.
//!
//! Whether a fingerprint is new has to be asked of every segment, and nobody but statistics wants to
//! know. So the writer does not ask: it is counted when a delta becomes a segment, beside the writer
//! and in the order of the fingerprints, so that neighbours share lines; or before, when somebody
//! wants the number. What a full delta adds never changes, and is counted once.

use std::sync::Arc;

use crate::index::delta::DeltaAt;
use crate::index::permutation::Permuted;
use crate::index::segment::{Segment, Tally};

/// How many fingerprints' lines are loaded together.
const AT_A_TIME: usize = 64;

/// How many more fingerprints have a document with a delta than in the segments and deltas before it,
/// oldest first. Some 0.1 us a fingerprint and segment; nothing where it is known to be new.
pub fn added(segments: &[Arc<Segment>], older: &[DeltaAt<'_>], delta: DeltaAt<'_>) -> i64 {
    let mut unknown: Vec<(Permuted, u32)> = Vec::new();
    let mut added = 0;
    for (value, number) in delta.values() {
        if delta.is_new(number) {
            added += has_document(delta.tally_of(number));
        } else {
            unknown.push((value, number));
        }
    }
    unknown.sort_unstable();
    added
        + unknown.chunks(AT_A_TIME).map(|some| added_by(segments, older, delta, some)).sum::<i64>()
}

/// The same for some of the delta's fingerprints.
fn added_by(
    segments: &[Arc<Segment>],
    older: &[DeltaAt<'_>],
    delta: DeltaAt<'_>,
    some: &[(Permuted, u32)],
) -> i64 {
    let mut before = [Tally::default(); AT_A_TIME];
    for segment in segments {
        for &(value, _) in some {
            segment.sorted().expect_value(value);
        }
        for &(value, _) in some {
            segment.sorted().locate_value(value);
        }
        for (before, &(value, _)) in before.iter_mut().zip(some) {
            *before = before.then(segment.tally(value));
        }
    }
    for delta in older {
        for (before, &(value, _)) in before.iter_mut().zip(some) {
            *before = before.then(delta.tally(value));
        }
    }
    let added = |(before, &(_, number)): (Tally, &(Permuted, u32))| {
        has_document(before.then(delta.tally_of(number))) - has_document(before)
    };
    before.into_iter().zip(some).map(added).sum()
}

fn has_document(tally: Tally) -> i64 {
    i64::from(tally.documents > 0)
}
