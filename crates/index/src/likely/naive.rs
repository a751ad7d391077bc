//! The oracle of the rule: its definition, word by word, on lists of bits. Slow; for tests, here
//! and in the crates that build on this one.

use std::collections::BTreeSet;

use nearprint_fingerprint::{Distance, Fingerprint, Margins};

use super::flips::MASKS;
use super::{LIKELY_DISTANCE_MAX, MASKS_OF_HALVES, MASKS_OF_THIRDS, RANKS};
use crate::permutation::Permutation;

/// Whether a likely search for a text with these margins finds a fingerprint that differs in these
/// bits, in an index that is exact up to `distance_max`.
pub fn finds(
    margins: &Margins,
    flips: u64,
    permutation: &Permutation,
    distance_max: Distance,
) -> bool {
    if flips.count_ones() > LIKELY_DISTANCE_MAX {
        return false;
    }
    // By place in the permuted fingerprint, the least significant first.
    let mut bits = [(0, false); 64];
    for (bit, &margin) in margins.magnitudes().iter().enumerate() {
        let place = permutation.apply(Fingerprint::new(1 << bit)).trailing_zeros();
        bits[place as usize] = (margin, flips >> bit & 1 == 1);
    }
    let (parts, masks): (&[std::ops::Range<usize>], _) = match distance_max.get() {
        0 => (std::slice::from_ref(&(32..64)), MASKS_OF_HALVES),
        1..=3 => (&[32..64, 0..32], MASKS_OF_HALVES),
        _ => (&[43..64, 22..43, 0..22], MASKS_OF_THIRDS),
    };
    parts.iter().cloned().any(|part| {
        let mut by_margin: Vec<usize> = part.clone().collect();
        by_margin.sort_by_key(|&place| (bits[place].0, place));
        let flipped: BTreeSet<usize> = part.filter(|&place| bits[place].1).collect();
        flipped.len() <= 1
            || MASKS[..masks].iter().any(|mask| {
                let of_mask = (0..RANKS).filter(|rank| mask >> rank & 1 == 1);
                of_mask.map(|rank| by_margin[rank]).collect::<BTreeSet<usize>>() == flipped
            })
    })
}
