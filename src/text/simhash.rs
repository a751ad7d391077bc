//! SimHash itself (Charikar 2002): hashes with weights become a fingerprint.
//!
//! Bit i of the result is 1 where sum i is above 0; sum i adds the weight of every feature whose
//! hash has bit i set and subtracts that of every other. A sum of exactly 0 gives a 0 bit. Bit 0
//! is the least significant bit.
//!
//! Two forms. [`SimHash`] is the definition: any width of 1 to 64 bits, real or integer weights,
//! 64 additions a feature. [`Occurrences`] is what texts use: 64 bits, each occurrence counts 1,
//! eight additions an occurrence. Neither knows what a feature is. Tested by the worked examples
//! of the literature, and against each other.

use std::ops::{AddAssign, SubAssign};

/// What can be a weight: a number with a zero, sums and an order.
pub trait Weight: Copy + Default + PartialOrd + AddAssign + SubAssign {}

impl Weight for f64 {}
impl Weight for i64 {}

/// The running sums of a SimHash of `WIDTH` bits, 1 to 64.
///
/// ```
/// use nearprint::text::simhash::SimHash;
/// let mut sums = SimHash::<f64, 6>::default();
/// sums.add(0b10_0101, 4.0);
/// sums.add(0b10_1011, 5.0);
/// assert_eq!(sums.bits(), 0b10_1011);
/// ```
#[derive(Debug, Clone)]
pub struct SimHash<W, const WIDTH: usize = 64> {
    sums: [W; WIDTH],
}

impl<W: Weight, const WIDTH: usize> Default for SimHash<W, WIDTH> {
    /// All sums 0.
    fn default() -> Self {
        const { assert!(WIDTH >= 1 && WIDTH <= 64, "a fingerprint has 1 to 64 bits") };
        Self { sums: [W::default(); WIDTH] }
    }
}

impl<W: Weight, const WIDTH: usize> SimHash<W, WIDTH> {
    /// Counts a feature; bits of its hash above the width are ignored. A weight of zero changes
    /// nothing.
    pub fn add(&mut self, hash: u64, weight: W) {
        for (bit, sum) in self.sums.iter_mut().enumerate() {
            if hash >> bit & 1 == 1 {
                *sum += weight;
            } else {
                *sum -= weight;
            }
        }
    }

    /// The sums, that of bit 0 first.
    pub const fn sums(&self) -> &[W; WIDTH] {
        &self.sums
    }

    /// The fingerprint, in the low `WIDTH` bits.
    pub fn bits(&self) -> u64 {
        let zero = W::default();
        self.sums
            .iter()
            .enumerate()
            .fold(0, |bits, (bit, &sum)| bits | u64::from(sum > zero) << bit)
    }
}

/// A SimHash of 64 bits whose features count once an occurrence.
///
/// The sums are kept as the number of hashes that have a bit set, first in one byte a bit (eight
/// words of eight bytes), which go to full counters before a byte can overflow. About 2 ns an
/// occurrence, without a branch on the hash.
#[derive(Debug, Clone)]
pub(crate) struct Occurrences {
    /// Byte b of word j counts bit `8 * b + j`.
    lanes: [u64; 8],
    /// How many hashes the lanes hold: at most 255.
    in_lanes: u8,
    /// How many of the hashes before those had each bit.
    ones: [u64; 64],
    /// How many hashes came before those in the lanes.
    total: u64,
}

impl Occurrences {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self { lanes: [0; 8], in_lanes: 0, ones: [0; 64], total: 0 }
    }

    /// Counts one occurrence of the feature with this hash.
    #[inline]
    pub(crate) fn add(&mut self, hash: u64) {
        const LOW_BITS: u64 = 0x0101_0101_0101_0101;
        if self.in_lanes == u8::MAX {
            self.empty_lanes();
        }
        for (j, lane) in self.lanes.iter_mut().enumerate() {
            *lane = lane.wrapping_add(hash >> j & LOW_BITS);
        }
        self.in_lanes += 1;
    }

    #[cold]
    fn empty_lanes(&mut self) {
        for (j, lane) in self.lanes.iter_mut().enumerate() {
            for (b, count) in lane.to_le_bytes().into_iter().enumerate() {
                self.ones[8 * b + j] += u64::from(count);
            }
            *lane = 0;
        }
        self.total += u64::from(self.in_lanes);
        self.in_lanes = 0;
    }

    /// The 64 sums, that of bit 0 first.
    pub(crate) fn sums(&mut self) -> [i64; 64] {
        self.empty_lanes();
        let total = self.total;
        self.ones.map(|ones| (2 * ones).cast_signed() - total.cast_signed())
    }

    /// The fingerprint.
    pub(crate) fn bits(&mut self) -> u64 {
        self.sums().iter().enumerate().fold(0, |bits, (bit, &sum)| bits | u64::from(sum > 0) << bit)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The sums as the literature prints them: that of the highest bit first.
    fn printed<W: Weight, const WIDTH: usize>(simhash: &SimHash<W, WIDTH>) -> Vec<W> {
        simhash.sums().iter().rev().copied().collect()
    }

    #[test]
    fn published_two_words_of_eight_bits_with_real_weights() {
        let mut simhash = SimHash::<f64, 8>::default();
        simhash.add(0b0101_1001, 45.11);
        simhash.add(0b1100_1011, 32.09);
        let expected = [-13.02, 77.20, -77.20, 13.02, 77.20, -77.20, -13.02, 77.20];
        for (sum, expected) in printed(&simhash).into_iter().zip(expected) {
            assert!((sum - expected).abs() < 1e-9, "{sum} is not {expected}");
        }
        assert_eq!(simhash.bits(), 0b0101_1001);
    }

    #[test]
    fn published_two_words_of_six_bits() {
        let mut simhash = SimHash::<i64, 6>::default();
        simhash.add(0b10_0101, 4);
        simhash.add(0b10_1011, 5);
        assert_eq!(printed(&simhash), [9, -9, 1, -1, 1, 9]);
        assert_eq!(simhash.bits(), 0b10_1011);
    }

    #[test]
    fn published_vector_of_three_dimensions_on_two_bits() {
        let mut simhash = SimHash::<f64, 2>::default();
        for (hash, weight) in [(0b10, 3.0), (0b01, 2.0), (0b11, 4.0)] {
            simhash.add(hash, weight);
        }
        assert_eq!(printed(&simhash), [5.0, 3.0]);
        assert_eq!(simhash.bits(), 0b11);
    }

    #[test]
    fn published_zero_weights_drop_out() {
        let features = [(0b101, 1), (0b011, 2), (0b100, 0), (0b001, 3), (0b110, 0)];
        let mut simhash = SimHash::<i64, 3>::default();
        for (hash, weight) in features {
            simhash.add(hash, weight);
        }
        assert_eq!(printed(&simhash), [-4, -2, 6]);
        assert_eq!(simhash.bits(), 0b001);

        let mut without = SimHash::<i64, 3>::default();
        for (hash, weight) in features.into_iter().filter(|&(_, weight)| weight != 0) {
            without.add(hash, weight);
        }
        assert_eq!(without.sums(), simhash.sums());
    }

    #[test]
    fn a_sum_of_zero_gives_a_zero_bit() {
        let mut simhash = SimHash::<i64, 1>::default();
        simhash.add(1, 2);
        simhash.add(0, 2);
        assert_eq!((simhash.sums(), simhash.bits()), (&[0], 0));
    }

    #[test]
    fn all_sixty_four_bits_take_part() {
        let mut simhash = SimHash::<i64>::default();
        simhash.add(u64::MAX, 1);
        assert_eq!(simhash.bits(), u64::MAX);
        let mut occurrences = Occurrences::new();
        occurrences.add(u64::MAX);
        assert_eq!(occurrences.bits(), u64::MAX);
    }

    proptest! {
        #[test]
        fn occurrences_sum_as_the_definition_does(
            distinct in prop::collection::vec(any::<u64>(), 1..20),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..1_500),
        ) {
            let mut occurrences = Occurrences::new();
            let mut simhash = SimHash::<i64>::default();
            for pick in picks {
                let hash = *pick.get(&distinct);
                occurrences.add(hash);
                simhash.add(hash, 1);
            }
            prop_assert_eq!(&occurrences.sums(), simhash.sums());
            prop_assert_eq!(occurrences.bits(), simhash.bits());
        }
    }
}
