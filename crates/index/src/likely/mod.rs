//! Likely search: near-duplicates of a text beyond the distance of an exact look-up.
//!
//! A small change of a text flips the bits of its fingerprint whose sums are nearest to zero, and
//! the sums of the text that is looked up are known ([`Margins`]). A table finds a fingerprint if
//! the look-up expects all differences in the key of the table, whatever differs elsewhere. For
//! the key of each table of large segments (a *part* of the permuted fingerprint: a half, or a
//! third), a look-up expects that no bit differs, or any one bit, or a set of bits from a list.
//!
//! **The rule.** In each part, the bits are ranked by margin, the smallest first; of equal margins
//! the less significant bit of the permuted fingerprint comes first. A stored fingerprint is
//! *found* if it differs in at most [`LIKELY_DISTANCE_MAX`] bits, and if the bits that differ in at
//! least one part are none, one, or one of the listed sets of the first [`RANKS`] ranks:
//! [`MASKS_OF_HALVES`] sets where the parts are halves, [`MASKS_OF_THIRDS`] where they are thirds.
//!
//! Every candidate is tested by the rule itself, so whether a fingerprint is found depends only on
//! the margins, the permutation and the fingerprint, never on segments or merges. The rule is not
//! symmetric: the margins of the text that is looked up decide. The approach is query-directed
//! probing (Lv et al. 2007, "Multi-probe LSH").
//!
//! Cost: about 200 cache lines in large segments, and 30 buckets or chains in each small segment
//! and delta. Tested against a scan of all fingerprints with the rule.

mod flips;
mod keys;
pub mod naive;
#[cfg(test)]
pub(crate) mod tests;

pub use flips::RANKS;
pub(crate) use keys::Keys;

use nearprint_fingerprint::Margins;
use smallvec::SmallVec;

use crate::permutation::{Permutation, Permuted};
use crate::plan::Plan;

/// The largest distance of what a likely search finds.
pub const LIKELY_DISTANCE_MAX: u32 = 10;

/// The number of listed sets where the parts are halves.
pub const MASKS_OF_HALVES: usize = 96;

/// The number of listed sets where the parts are thirds.
pub const MASKS_OF_THIRDS: usize = 16;

/// The rule of one text: what its likely search finds.
#[derive(Debug, Clone)]
pub struct LikelyRule {
    parts: SmallVec<[Part; 3]>,
    /// The margin of each bit of the permuted fingerprint.
    margins: [u32; 64],
    /// The number of listed sets.
    masks: usize,
}

/// The key of a table of large segments.
#[derive(Debug, Clone)]
struct Part {
    /// The bits of the permuted fingerprint that belong to it.
    bits: Permuted,
    /// The bit of each rank.
    ranked: [Permuted; RANKS],
    /// The bits of all ranks together.
    all_ranked: Permuted,
}

impl LikelyRule {
    /// The rule of a text with these margins, in an index with this plan of large segments.
    pub(crate) fn of(plan: &Plan, permutation: &Permutation, margins: &Margins) -> Self {
        let mut permuted = [0; 64];
        for (margin, place) in margins.magnitudes().iter().zip(permutation.places()) {
            permuted[usize::from(place)] = *margin;
        }
        let part = |bits| Part::of(bits, &permuted);
        let parts: SmallVec<[Part; 3]> =
            plan.tables().iter().map(|table| part(table.mask())).collect();
        let masks = if parts.len() > 2 { MASKS_OF_THIRDS } else { MASKS_OF_HALVES };
        Self { parts, margins: permuted, masks }
    }

    /// Whether it finds a fingerprint that differs from the query in these bits.
    pub(crate) fn finds(&self, flips: Permuted) -> bool {
        flips.count_ones() <= LIKELY_DISTANCE_MAX
            && self.parts.iter().any(|part| part.expects(flips & part.bits, self.masks))
    }

    /// The sum of the margins of these bits: the smaller it is, the likelier they flip together.
    pub(crate) fn margin(&self, flips: Permuted) -> u64 {
        let mut rest = flips;
        let mut sum = 0;
        while rest != 0 {
            sum += u64::from(self.margins[rest.trailing_zeros() as usize]);
            rest &= rest - 1;
        }
        sum
    }

    /// The sets of more than one bit that are expected in the key of a table, each as the flips of
    /// the upper 32 bits of a fingerprint that is rotated so that the key comes first.
    pub(crate) fn flips(&self, role: usize, first_bit: u32) -> impl Iterator<Item = u32> + '_ {
        self.listed(role).map(move |flips| (flips.rotate_left(first_bit) >> 32) as u32)
    }

    /// The listed sets of a part, as bits of the permuted fingerprint.
    fn listed(&self, part: usize) -> impl Iterator<Item = Permuted> + '_ {
        let part = &self.parts[part];
        flips::MASKS[..self.masks].iter().map(|&ranks| part.bits_of(ranks))
    }
}

impl Part {
    fn of(bits: Permuted, margins: &[u32; 64]) -> Self {
        let mut by_margin: SmallVec<[(u32, u32); 32]> = (0..64)
            .filter(|bit| bits >> bit & 1 == 1)
            .map(|bit| (margins[bit as usize], bit))
            .collect();
        by_margin.sort_unstable();
        let mut ranked = [0; RANKS];
        for (ranked, (_, bit)) in ranked.iter_mut().zip(by_margin) {
            *ranked = 1 << bit;
        }
        Self { bits, ranked, all_ranked: ranked.iter().fold(0, |all, bit| all | bit) }
    }

    /// Whether these differences in the part are expected.
    fn expects(&self, flips: Permuted, masks: usize) -> bool {
        flips & flips.wrapping_sub(1) == 0
            || (flips & !self.all_ranked == 0 && flips::is_listed(self.ranks_of(flips), masks))
    }

    fn ranks_of(&self, flips: Permuted) -> u16 {
        let is_set = |bit: &Permuted| u16::from(flips & bit != 0);
        self.ranked.iter().rev().fold(0, |ranks, bit| ranks << 1 | is_set(bit))
    }

    #[inline]
    fn bits_of(&self, ranks: u16) -> Permuted {
        let (mut rest, mut bits) = (ranks, 0);
        while rest != 0 {
            bits |= self.ranked[rest.trailing_zeros() as usize];
            rest &= rest - 1;
        }
        bits
    }
}
