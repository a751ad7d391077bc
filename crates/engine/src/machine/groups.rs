//! Which fingerprints belong to one group: the rule of hits, for both sides.

use nearprint_fingerprint::{Distance, MinResemblance, Sketch};

use crate::machine::query::Verification;

/// The maximum number of sketches of one fingerprint that are compared with those of another, each
/// with another sample: texts with the same sample are nearly the same.
pub const SKETCHES_COMPARED_MAX: usize = 256;

/// The documents of a fingerprint that are compared: of those with a sketch, the oldest of each
/// sample.
#[derive(Debug, Clone, Default)]
pub struct Compared {
    /// Their sketches.
    pub sketches: Vec<Sketch>,
    /// Whether there are any and all of them are short.
    pub is_short: bool,
}

/// Whether two fingerprints within the distance join: whether a document of one would find the other
/// to be a hit that counts. So the best resemblance decides; where nothing can be compared the
/// distance does, unless all documents are short.
pub fn joins(
    one: &Compared,
    other: &Compared,
    distance: Distance,
    threshold: MinResemblance,
) -> bool {
    let mut best = Verification::Unverifiable;
    for sketch in &one.sketches {
        for stored in &other.sketches {
            let found = Verification::between(Some(sketch), Some(stored), Some(threshold));
            best = best.better(found);
        }
    }
    best.counts(distance, one.is_short && other.is_short)
}
