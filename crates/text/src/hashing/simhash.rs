//! SimHash (Charikar 2002): hashes with weights become a fingerprint.
//!
//! Sum i adds the weight of every feature whose hash has bit i set, and subtracts that of every
//! other feature. Bit i of the fingerprint is 1 where sum i is above 0; bit 0 is the least
//! significant.
//!
//! This is the definition: 64 additions a feature. The recipe `np2`, whose features count once per
//! occurrence, uses [`crate::kernel::text::BitCounts`], which is tested against it. Sums of whole
//! numbers are exact up to 2^53. Tested by the worked examples of the literature.

/// The running sums of a SimHash.
#[derive(Debug, Clone)]
pub(crate) struct SimHash {
    sums: [f64; 64],
}

impl Default for SimHash {
    fn default() -> Self {
        Self { sums: [0.0; 64] }
    }
}

impl SimHash {
    /// Adds a feature. A weight of zero changes nothing.
    pub(crate) fn add(&mut self, hash: u64, weight: f64) {
        for (bit, sum) in self.sums.iter_mut().enumerate() {
            if hash >> bit & 1 == 1 {
                *sum += weight;
            } else {
                *sum -= weight;
            }
        }
    }

    /// The sums, starting with bit 0.
    pub(crate) const fn sums(&self) -> &[f64; 64] {
        &self.sums
    }

    pub(crate) fn bits(&self) -> u64 {
        self.sums.iter().rev().fold(0, |bits, &sum| bits << 1 | u64::from(sum > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::Simd;
    use crate::kernel::text::{BitCounts, count_bits};

    fn simhash(features: &[(u64, f64)]) -> SimHash {
        let mut simhash = SimHash::default();
        for &(hash, weight) in features {
            simhash.add(hash, weight);
        }
        simhash
    }

    /// The lowest sums, rounded to hundredths, as the literature prints them: the highest bit
    /// first.
    fn printed(simhash: &SimHash, width: usize) -> Vec<String> {
        simhash.sums()[..width].iter().rev().map(|sum| format!("{sum:.2}")).collect()
    }

    #[test]
    fn published_two_words_of_eight_bits_with_real_weights() {
        let simhash = simhash(&[(0b0101_1001, 45.11), (0b1100_1011, 32.09)]);
        let expected = ["-13.02", "77.20", "-77.20", "13.02", "77.20", "-77.20", "-13.02", "77.20"];
        assert_eq!(printed(&simhash, 8), expected);
        assert_eq!(simhash.bits(), 0b0101_1001);
    }

    #[test]
    fn published_two_words_of_six_bits() {
        let simhash = simhash(&[(0b10_0101, 4.0), (0b10_1011, 5.0)]);
        assert_eq!(printed(&simhash, 6), ["9.00", "-9.00", "1.00", "-1.00", "1.00", "9.00"]);
        assert_eq!(simhash.bits(), 0b10_1011);
    }

    #[test]
    fn published_vector_of_three_dimensions_on_two_bits() {
        let simhash = simhash(&[(0b10, 3.0), (0b01, 2.0), (0b11, 4.0)]);
        assert_eq!(printed(&simhash, 2), ["5.00", "3.00"]);
        assert_eq!(simhash.bits(), 0b11);
    }

    #[test]
    fn published_zero_weights_drop_out() {
        let features = [(0b101, 1.0), (0b011, 2.0), (0b100, 0.0), (0b001, 3.0), (0b110, 0.0)];
        let all = simhash(&features);
        assert_eq!(printed(&all, 3), ["-4.00", "-2.00", "6.00"]);
        assert_eq!(all.bits(), 0b001);
        let without: Vec<_> = features.into_iter().filter(|&(_, weight)| weight > 0.0).collect();
        assert_eq!(printed(&simhash(&without), 64), printed(&all, 64));
    }

    #[test]
    fn a_sum_of_zero_gives_a_zero_bit() {
        assert_eq!(simhash(&[(1, 2.0), (0, 2.0)]).bits(), 0);
    }

    #[test]
    fn all_sixty_four_bits_take_part() {
        assert_eq!(simhash(&[(u64::MAX, 1.0)]).bits(), u64::MAX);
    }

    proptest! {
        #[test]
        fn counted_bits_give_the_sums_of_the_definition(
            hashes in prop::collection::vec(any::<u64>(), 0..600),
        ) {
            let mut simhash = SimHash::default();
            for &hash in &hashes {
                simhash.add(hash, 1.0);
            }
            let mut counts = BitCounts::default();
            count_bits(Simd::best(), &hashes, &mut counts);
            let total = counts.total().cast_signed();
            for (ones, &sum) in counts.ones().into_iter().zip(simhash.sums()) {
                prop_assert_eq!(2 * ones.cast_signed() - total, sum as i64);
            }
        }
    }
}
