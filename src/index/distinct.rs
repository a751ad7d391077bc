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
    let mut unknown: Vec<(Permuted, Tally)> = Vec::new();
    let mut added = 0;
    for (value, tally, is_new) in delta.said() {
        if is_new {
            added += has_document(tally);
        } else {
            unknown.push((value, tally));
        }
    }
    unknown.sort_unstable_by_key(|&(value, _)| value);
    added + unknown.chunks(AT_A_TIME).map(|some| added_by(segments, older, some)).sum::<i64>()
}

fn added_by(segments: &[Arc<Segment>], older: &[DeltaAt<'_>], said: &[(Permuted, Tally)]) -> i64 {
    let mut before = [Tally::default(); AT_A_TIME];
    for segment in segments {
        for &(value, _) in said {
            segment.sorted().expect_value(value);
        }
        for &(value, _) in said {
            segment.sorted().locate_value(value);
        }
        for (before, &(value, _)) in before.iter_mut().zip(said) {
            *before = before.then(segment.tally(value));
        }
    }
    for delta in older {
        for (before, &(value, _)) in before.iter_mut().zip(said) {
            *before = before.then(delta.tally(value));
        }
    }
    let added = |(before, (_, newer)): (Tally, &(Permuted, Tally))| {
        has_document(before.then(*newer)) - has_document(before)
    };
    before.into_iter().zip(said).map(added).sum()
}

fn has_document(tally: Tally) -> i64 {
    i64::from(tally.documents > 0)
}
