//! SimHash itself (Charikar 2002): hashes with weights become a fingerprint.
//!
//! Bit i of the result is 1 where sum i is above 0; sum i adds the weight of every feature whose
//! hash has bit i set and subtracts that of every other. A sum of exactly 0 gives a 0 bit. Bit 0
//! is the least significant bit.
//!
//! This is the definition: any width of 1 to 64 bits, real or integer weights, 64 additions a feature.
//! Texts, whose features count once an occurrence, use [`crate::kernel::text::BitCounts`], which is
//! tested against it. Knows nothing of what a feature is. Tested by the worked examples of the
//! literature.

use std::ops::{AddAssign, SubAssign};

/// What can be a weight: a number with a zero, sums and an order.
pub trait Weight: Copy + Default + PartialOrd + AddAssign + SubAssign {}

impl Weight for f64 {}
impl Weight for i64 {}

/// The running sums of a SimHash of `WIDTH` bits, 1 to 64.
///
/// ```
/// use nearprint::text::hashing::simhash::SimHash;
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::Simd;
    use crate::kernel::text::{BitCounts, count_bits};

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
    }

    proptest! {
        #[test]
        fn counted_bits_give_the_sums_of_the_definition(
            hashes in prop::collection::vec(any::<u64>(), 0..600),
        ) {
            let mut simhash = SimHash::<i64>::default();
            for &hash in &hashes {
                simhash.add(hash, 1);
            }
            let mut counts = BitCounts::default();
            count_bits(Simd::best(), &hashes, &mut counts);
            let total = counts.total().cast_signed();
            prop_assert_eq!(&counts.ones().map(|ones| 2 * ones.cast_signed() - total), simhash.sums());
        }
    }
}
