//! How many distinct fingerprints deltas add to the segments below them.
//!
//! Whether a fingerprint is new has to be asked of every segment, and nobody but statistics wants to
//! know. So the writer does not ask: it is counted when a delta becomes a segment, beside the writer
//! and in the order of the fingerprints, so that neighbours share lines; what is still in deltas is
//! counted when somebody wants the number.

use std::sync::Arc;

use crate::index::delta::DeltaAt;
use crate::index::permutation::Permuted;
use crate::index::segment::{Segment, Tally};

/// How many fingerprints' lines are loaded together.
const AT_A_TIME: usize = 64;

/// How many more fingerprints have a document with some deltas, oldest first, than in the segments below
/// them alone. Some 0.1 us a fingerprint and segment; nothing where it is known to be new.
pub fn added(segments: &[Arc<Segment>], deltas: &[DeltaAt<'_>]) -> i64 {
    let numbered = (0..).zip(deltas).flat_map(|(delta, values)| {
        values.values().map(move |(value, number)| (value, delta, number))
    });
    let mut nodes: Vec<(Permuted, usize, u32)> = numbered.collect();
    nodes.sort_unstable();
    let mut added = 0;
    let mut unknown: Vec<(Permuted, Tally)> = Vec::new();
    for nodes in nodes.chunk_by(|a, b| a.0 == b.0) {
        let mut said = nodes.iter().map(|&(_, delta, number)| deltas[delta].said(number));
        let Some((oldest, is_new)) = said.next() else { continue };
        let tally = said.fold(oldest, |so_far, (newer, _)| so_far.then(newer));
        if is_new {
            added += has_document(tally);
        } else {
            unknown.push((nodes[0].0, tally));
        }
    }
    added + unknown.chunks(AT_A_TIME).map(|some| added_by(segments, some)).sum::<i64>()
}

fn added_by(segments: &[Arc<Segment>], said: &[(Permuted, Tally)]) -> i64 {
    let mut below = [Tally::default(); AT_A_TIME];
    for segment in segments {
        for &(value, _) in said {
            segment.sorted().expect_value(value);
        }
        for &(value, _) in said {
            segment.sorted().locate_value(value);
        }
        for (below, &(value, _)) in below.iter_mut().zip(said) {
            *below = below.then(segment.tally(value));
        }
    }
    let added = |(below, (_, newer)): (Tally, &(Permuted, Tally))| {
        has_document(below.then(*newer)) - has_document(below)
    };
    below.into_iter().zip(said).map(added).sum()
}

fn has_document(tally: Tally) -> i64 {
    i64::from(tally.documents > 0)
}
