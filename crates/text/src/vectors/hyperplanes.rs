//! The recipe `hyperplanes-D`: the sides of 64 random hyperplanes (Charikar 2002).
//!
//! Two vectors at an angle of a degrees differ in each bit with the probability a / 180, whatever
//! their lengths. Bit b is 1 if the sum over all dimensions i of component i x weight(i, b) is
//! above 0. A weight is a sum of eight random bytes less its mean, so nearly normal, with a
//! variance of 43,690: the bytes are those of output 64 i + b of SplitMix64 from the seed 0. The
//! weights of a dimension do not depend on D.
//!
//! A component has 24 significant bits and a weight 11, so their product in double precision is
//! exact, with or without fused instructions. The sums run over the dimensions in order. So all
//! machines compute the same bits.
//!
//! Cost: 20 to 40 ns a dimension (7 microseconds for 384, 0.4 ms for 8,192). Weights take 128 bytes
//! a dimension (1 MiB for 8,192). They are drawn at their first use and kept. Tested against a
//! plain version, worked examples, and their statistics.

use std::sync::OnceLock;

use nearprint_fingerprint::recipe::DIMENSIONS_MAX;

/// The dimensions whose weights are drawn together.
const BLOCK: usize = 64;

/// The weights of a dimension, starting with those of bit 0.
type Weights = [i16; 64];

/// The weights that were used so far.
static WEIGHTS: [OnceLock<Box<[Weights; BLOCK]>>; DIMENSIONS_MAX as usize / BLOCK] =
    [const { OnceLock::new() }; DIMENSIONS_MAX as usize / BLOCK];

/// The sum of each bit, for a vector of at most [`DIMENSIONS_MAX`] finite numbers.
pub(crate) fn sums(vector: &[f32]) -> [f64; 64] {
    let mut sums = [0.0; 64];
    for ((number, components), weights) in (0..).zip(vector.chunks(BLOCK)).zip(&WEIGHTS) {
        let weights = weights.get_or_init(|| Box::new(block(number)));
        for (&component, weights) in components.iter().zip(&**weights) {
            let component = f64::from(component);
            for (sum, &weight) in sums.iter_mut().zip(weights) {
                *sum += component * f64::from(weight);
            }
        }
    }
    sums
}

/// The weights of the dimensions from `number` times [`BLOCK`] on.
fn block(number: u64) -> [Weights; BLOCK] {
    let first = number * BLOCK as u64;
    std::array::from_fn(|i| std::array::from_fn(|bit| weight(64 * (first + i as u64) + bit as u64)))
}

/// The weight from one output of the generator, -1,020 to 1,020.
fn weight(output: u64) -> i16 {
    let sum: i16 = splitmix64(output).to_le_bytes().into_iter().map(i16::from).sum();
    // The mean of eight bytes.
    sum - 1_020
}

/// An output of SplitMix64 (Steele, Lea, Flood 2014) from the seed 0, counted from 0.
const fn splitmix64(output: u64) -> u64 {
    let mut z = output.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    #![expect(clippy::cast_precision_loss, reason = "counts of a test are small")]

    use proptest::prelude::*;

    use super::*;

    /// The definition, one bit after the other and without any table.
    fn plain(vector: &[f32]) -> u64 {
        let mut bits = 0;
        for bit in 0..64 {
            let mut state = 0_u64;
            let mut sum = 0.0_f64;
            for component in vector {
                let mut weight = 0;
                for column in 0..64 {
                    // The generator as it is published, with a state.
                    state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    let mut z = state;
                    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                    z ^= z >> 31;
                    if column == bit {
                        weight = (0..8).map(|at| (z >> (8 * at) & 0xff) as i32).sum::<i32>() - 1020;
                    }
                }
                sum = f64::from(*component).mul_add(f64::from(weight), sum);
            }
            bits |= u64::from(sum > 0.0) << bit;
        }
        bits
    }

    fn bits(vector: &[f32]) -> u64 {
        (0..64).zip(sums(vector)).fold(0, |bits, (bit, sum)| bits | u64::from(sum > 0.0) << bit)
    }

    fn random_vectors(count: u64, dimensions: u64) -> Vec<Vec<f32>> {
        let number = |n: u64| f32::from(weight((1 << 40) + n));
        (0..count).map(|v| (0..dimensions).map(|d| number(v * dimensions + d)).collect()).collect()
    }

    #[test]
    fn the_generator_is_the_published_one() {
        let first = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        assert_eq!([splitmix64(0), splitmix64(1), splitmix64(2)], first);
        assert_eq!(weight(0), 0xe2 + 0x20 + 0xa8 + 0x39 + 0x7b + 0x1d + 0xcd + 0xaf - 1_020);
    }

    #[test]
    fn the_weights_are_nearly_normal() {
        let weights: Vec<f64> = (0..1 << 20).map(|output| f64::from(weight(output))).collect();
        let moment = |power: i32| {
            weights.iter().map(|weight| weight.powi(power)).sum::<f64>() / weights.len() as f64
        };
        let variance = moment(2);
        assert!(moment(1).abs() < 1.0, "{}", moment(1));
        assert!((variance / 43_690.0 - 1.0).abs() < 0.01, "{variance}");
        assert!((moment(4) / variance.powi(2) - 2.85).abs() < 0.05);
    }

    #[test]
    fn bits_of_random_vectors_are_balanced_and_uncorrelated() {
        let fingerprints: Vec<u64> = random_vectors(4_000, 32).iter().map(|v| bits(v)).collect();
        let share = |set: &dyn Fn(u64) -> u64| {
            fingerprints.iter().map(|&f| set(f) & 1).sum::<u64>() as f64 / 4_000.0
        };
        for a in 0..64 {
            let ones = share(&|f| f >> a);
            assert!((0.4..0.6).contains(&ones), "bit {a}: {ones}");
        }
        // Two random planes are not orthogonal; in 32 dimensions their bits agree in about half.
        let mut agreement = 0.0;
        for a in 0..64 {
            for b in 0..a {
                agreement += (share(&|f| !(f >> a ^ f >> b)) - 0.5).abs();
            }
        }
        assert!(agreement / 2_016.0 < 0.07, "{}", agreement / 2_016.0);
    }

    #[test]
    fn the_distance_follows_the_angle() {
        let mut distances = [0_u32; 3];
        let vectors = random_vectors(400, 64);
        for pair in vectors.chunks(2) {
            for (total, (a, b)) in distances.iter_mut().zip([(1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]) {
                let mixed: Vec<f32> =
                    pair[0].iter().zip(&pair[1]).map(|(x, y)| a * x + b * y).collect();
                *total += (bits(&pair[0]) ^ bits(&mixed)).count_ones();
            }
        }
        // Angles of 0, 45 and 90 degrees.
        let mean = distances.map(|total| f64::from(total) / 200.0);
        assert!(distances[0] == 0 && (14.0..18.0).contains(&mean[1]), "{mean:?}");
        assert!((30.0..34.0).contains(&mean[2]), "{mean:?}");
    }

    #[test]
    fn the_length_of_a_vector_makes_no_difference_and_its_opposite_has_the_other_bits() {
        let vector = &random_vectors(1, 100)[0];
        let scaled = |factor: f32| vector.iter().map(|x| factor * x).collect::<Vec<_>>();
        assert_eq!(bits(&scaled(0.125)), bits(vector));
        assert_eq!(bits(&scaled(-1.0)), !bits(vector));
    }

    proptest! {
        #[test]
        fn fingerprints_are_those_of_the_plain_version(
            vector in prop::collection::vec(any::<f32>(), 1..150),
        ) {
            let vector: Vec<f32> =
                vector.into_iter().map(|x| if x.is_finite() { x } else { 1.0 }).collect();
            prop_assume!(vector.iter().any(|&x| x != 0.0));
            prop_assert_eq!(bits(&vector), plain(&vector));
        }
    }

    #[test]
    fn the_largest_vector_is_that_of_the_plain_version() {
        let vector = &random_vectors(1, u64::from(DIMENSIONS_MAX))[0];
        let subset: Vec<f32> = vector[..200].to_vec();
        assert_eq!(bits(&subset), plain(&subset));
        assert_eq!(sums(vector).len(), 64);
        assert!(sums(vector).iter().all(|sum| *sum != 0.0));
    }
}
