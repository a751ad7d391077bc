//! The oracle of the rule: its definition over a list of documents. Slow; for tests, here and in
//! the crates that build on this one.

use std::collections::BTreeSet;

use nearprint_fingerprint::{Fingerprint, LABELS, Label};

use super::{LOOKED_AT_MAX, ROWS_MAX, SAMPLED_BITS, SAMPLED_DISTANCE_MAX};

/// A document as the rule sees it.
pub type Labelled = (Fingerprint, [Label; LABELS]);

/// The fingerprints that are similar to a query, among those of documents that may count, and
/// whether a bound left any out. `order` decides between rows that are equally near.
pub fn similar(
    query: &Labelled,
    documents: &[(Labelled, bool)],
    order: impl Fn(Fingerprint) -> u64,
) -> (BTreeSet<Fingerprint>, bool) {
    let (mut found, mut is_cut) = (BTreeSet::new(), false);
    let low = |fingerprint: Fingerprint| fingerprint.bits() & ((1 << SAMPLED_BITS) - 1);
    for table in 0..LABELS {
        let mut rows = BTreeSet::new();
        for &((fingerprint, labels), may_count) in documents {
            let differing = query.1[table].bits() ^ labels[table].bits();
            if differing < 1 << 8 {
                let sampled = low(query.0) ^ low(fingerprint);
                rows.insert((differing, sampled, order(fingerprint), fingerprint, may_count));
            }
        }
        is_cut |= rows.len() > LOOKED_AT_MAX;
        let near = rows.into_iter().take(LOOKED_AT_MAX);
        let near = near.filter(|row| row.4 && row.1.count_ones() <= SAMPLED_DISTANCE_MAX);
        let mut near: Vec<_> = near.map(|row| row.3).collect();
        near.dedup();
        is_cut |= near.len() > ROWS_MAX;
        found.extend(near.into_iter().take(ROWS_MAX));
    }
    (found, is_cut)
}
