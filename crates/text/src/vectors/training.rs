//! Learns a model of `spectral-D` from a sample of vectors.
//!
//! The principal directions come from orthogonal iteration on the sample: a covariance matrix of
//! 8,192 dimensions would be too large, and only up to 64 directions are wanted. One sweep costs
//! four multiplications for each component of the sample and each of up to 72 directions. No random
//! number: the same sample gives the same model.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "counts of a sample, and positions in it"
)]

use crate::vectors::eigen::eigenvectors;
use crate::vectors::spectral::{BadModel, DIRECTIONS_MAX, INTERVALS, SpectralModel};

/// The fewest vectors that a model is learned from.
pub const SAMPLE_MIN: usize = 100;
/// The most components that a sample keeps: 256 MiB.
pub(crate) const SAMPLE_COMPONENTS_MAX: usize = 64 << 20;
/// The most vectors that a sample keeps.
pub(crate) const SAMPLE_MAX: usize = 20_000;

/// Directions that are computed in addition, so that the wanted ones converge.
const GUARDS: usize = 8;
const SWEEPS_MAX: u32 = 100;
/// Iteration ends when no wanted variance changes by more than this part of the largest.
const TOLERANCE: f64 = 1e-6;
/// Directions of less than this part of the largest variance are noise.
const VARIANCE_MIN: f64 = 1e-9;

/// A uniform sample of a stream of vectors, scaled to length 1.
#[derive(Debug)]
pub struct TrainingSample {
    dimensions: usize,
    vectors_max: usize,
    /// One after the other.
    components: Vec<f32>,
    seen: u64,
    state: u64,
}

/// No model can be learned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotLearn {
    /// There are too few vectors.
    #[error("a model is learned from at least {SAMPLE_MIN} vectors, and there are {0}")]
    TooFew(u64),
    /// They have no direction in which they differ.
    #[error("all vectors have the same direction")]
    AllEqual,
    /// The numbers make no model.
    #[error("the sample makes no model: {0}")]
    Model(#[from] BadModel),
}

impl TrainingSample {
    /// An empty sample of vectors of this many dimensions.
    pub fn new(dimensions: u16) -> Self {
        let dimensions = usize::from(dimensions).max(1);
        let vectors_max = SAMPLE_MAX.min(SAMPLE_COMPONENTS_MAX / dimensions);
        Self { dimensions, vectors_max, components: Vec::new(), seen: 0, state: 0 }
    }

    /// Takes a vector of the right number of dimensions, which has a direction; keeps it, or not
    /// (reservoir sampling).
    pub fn add(&mut self, vector: &[f32]) {
        let square: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        let length = square.sqrt();
        let scaled = vector.iter().map(|&x| (f64::from(x) / length) as f32);
        self.seen += 1;
        if self.kept() < self.vectors_max {
            self.components.extend(scaled);
            return;
        }
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let slot = (u128::from(mixed(self.state)) * u128::from(self.seen)) >> 64;
        let first = slot as usize * self.dimensions;
        if let Some(kept) = self.components.get_mut(first..first + self.dimensions) {
            kept.iter_mut().zip(scaled).for_each(|(to, from)| *to = from);
        }
    }

    /// How many vectors it keeps.
    pub fn kept(&self) -> usize {
        self.components.len() / self.dimensions
    }

    fn vectors(&self) -> impl Iterator<Item = &[f32]> {
        self.components.chunks_exact(self.dimensions)
    }

    /// Learns a model. `progress` receives the number of each sweep.
    ///
    /// # Errors
    /// [`CannotLearn`].
    pub fn learn(&self, progress: &mut dyn FnMut(u32)) -> Result<SpectralModel, CannotLearn> {
        if self.kept() < SAMPLE_MIN {
            return Err(CannotLearn::TooFew(self.seen));
        }
        let directions = self.directions(progress);
        if directions.is_empty() {
            return Err(CannotLearn::AllEqual);
        }
        let quantiles = directions.iter().map(|direction| self.quantiles(direction));
        Ok(SpectralModel::new(&directions, quantiles.collect())?)
    }

    fn mean(&self) -> Vec<f64> {
        let mut mean = vec![0.0; self.dimensions];
        for vector in self.vectors() {
            mean.iter_mut().zip(vector).for_each(|(sum, &x)| *sum += f64::from(x));
        }
        for sum in &mut mean {
            *sum /= self.kept() as f64;
        }
        mean
    }

    /// The directions of the largest variance, largest first.
    fn directions(&self, progress: &mut dyn FnMut(u32)) -> Vec<Vec<f32>> {
        let wanted = DIRECTIONS_MAX.min(self.dimensions);
        let count = (wanted + GUARDS).min(self.dimensions);
        let mean = self.mean();
        let mut basis = first_basis(self.dimensions, count);
        let mut variances = vec![0.0; count];
        for sweep in 1..=SWEEPS_MAX {
            progress(sweep);
            let image = self.covariance_times(&basis, &mean);
            let inner: Vec<Vec<f64>> =
                basis.iter().map(|q| image.iter().map(|y| dot(q, y)).collect()).collect();
            let (values, vectors) = eigenvectors(inner);
            basis = vectors.iter().map(|weights| combined(&image, weights)).collect();
            orthonormalise(&mut basis);
            let largest = values.first().copied().unwrap_or_default();
            let change = values.iter().zip(&variances).take(wanted);
            let change = change.map(|(new, old): (&f64, &f64)| (new - old).abs());
            let is_stable = change.fold(0.0, f64::max) <= TOLERANCE * largest;
            variances = values;
            if is_stable {
                break;
            }
        }
        let largest = variances.first().copied().unwrap_or_default();
        let counts = |variance: f64| variance > 1e-15 && variance > VARIANCE_MIN * largest;
        let kept = basis.into_iter().zip(variances).take(wanted);
        kept.filter(|&(_, variance)| counts(variance))
            .map(|(direction, _)| direction.into_iter().map(|weight| weight as f32).collect())
            .collect()
    }

    /// The covariance matrix times each vector of a basis.
    fn covariance_times(&self, basis: &[Vec<f64>], mean: &[f64]) -> Vec<Vec<f64>> {
        let mut image = vec![vec![0.0; self.dimensions]; basis.len()];
        let offsets: Vec<f64> = basis.iter().map(|q| dot(q, mean)).collect();
        let mut centred = vec![0.0; self.dimensions];
        for vector in self.vectors() {
            for ((to, &x), m) in centred.iter_mut().zip(vector).zip(mean) {
                *to = f64::from(x) - m;
            }
            for ((q, y), offset) in basis.iter().zip(&mut image).zip(&offsets) {
                let share = (dot_single(q, vector) - offset) / self.kept() as f64;
                y.iter_mut().zip(&centred).for_each(|(to, x)| *to += share * x);
            }
        }
        image
    }

    /// The quantiles of the projections on a direction, as a model computes them.
    fn quantiles(&self, direction: &[f32]) -> [f64; INTERVALS + 1] {
        let project = |vector: &[f32]| {
            let pairs = || vector.iter().zip(direction);
            let sum: f64 = pairs().map(|(&x, &w)| f64::from(x) * f64::from(w)).sum();
            let square: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
            sum / square.sqrt()
        };
        let mut projections: Vec<f64> = self.vectors().map(project).collect();
        projections.sort_by(f64::total_cmp);
        let last = projections.len() - 1;
        std::array::from_fn(|i| {
            let at = (i * last) as f64 / INTERVALS as f64;
            let below = at.floor();
            let (low, high) = (projections[below as usize], projections[at.ceil() as usize]);
            low + (high - low) * (at - below)
        })
    }
}

/// An output of SplitMix64.
const fn mixed(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Orthonormal vectors in no special direction.
fn first_basis(dimensions: usize, count: usize) -> Vec<Vec<f64>> {
    let mut state = 0_u64;
    let mut number = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mixed(state) >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
    };
    let mut basis: Vec<Vec<f64>> =
        (0..count).map(|_| (0..dimensions).map(|_| number()).collect()).collect();
    orthonormalise(&mut basis);
    basis
}

/// Modified Gram-Schmidt, twice; a vector that depends on those before it becomes zero.
fn orthonormalise(basis: &mut [Vec<f64>]) {
    for at in 0..basis.len() {
        let (before, rest) = basis.split_at_mut(at);
        let vector = &mut rest[0];
        let length = dot(vector, vector).sqrt();
        for _ in 0..2 {
            for q in &*before {
                let share = dot(q, vector);
                vector.iter_mut().zip(q).for_each(|(to, x)| *to -= share * x);
            }
        }
        let left = dot(vector, vector).sqrt();
        let scale = if left > 1e-12 * length { left.recip() } else { 0.0 };
        for x in vector {
            *x *= scale;
        }
    }
}

/// The sum of vectors with weights.
fn combined(vectors: &[Vec<f64>], weights: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; vectors.first().map_or(0, Vec::len)];
    for (vector, weight) in vectors.iter().zip(weights) {
        sum.iter_mut().zip(vector).for_each(|(to, x)| *to += weight * x);
    }
    sum
}

/// Eight sums, which a compiler keeps in registers.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in a.iter().zip(b) {
        for ((sum, x), y) in sums.iter_mut().zip(a).zip(b) {
            *sum += x * y;
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}

fn dot_single(a: &[f64], b: &[f32]) -> f64 {
    let mut sums = [0.0; 8];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in a.iter().zip(b) {
        for ((sum, x), &y) in sums.iter_mut().zip(a).zip(b) {
            *sum += x * f64::from(y);
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, &y)| x * f64::from(y)).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that are nearly normal.
    fn numbers(seed: u64) -> impl FnMut() -> f32 {
        let mut state = seed;
        move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let sum: i32 = mixed(state).to_le_bytes().into_iter().map(i32::from).sum();
            (sum - 1_020) as f32 / 209.0
        }
    }

    /// Vectors whose variance falls from one dimension to the next, around a mean.
    fn vectors(seed: u64, count: usize, dimensions: usize) -> Vec<Vec<f32>> {
        let mut number = numbers(seed);
        let mut vector = || -> Vec<f32> {
            (0..dimensions).map(|d| 1.0 + 3.0 * 0.97_f32.powi(d as i32) * number()).collect()
        };
        (0..count).map(|_| vector()).collect()
    }

    fn sample(vectors: &[Vec<f32>]) -> TrainingSample {
        let mut sample = TrainingSample::new(u16::try_from(vectors[0].len()).unwrap());
        for vector in vectors {
            sample.add(vector);
        }
        sample
    }

    #[test]
    fn directions_are_those_of_the_covariance_matrix() {
        let sample = sample(&vectors(1, 500, 24));
        let mean = sample.mean();
        let mut covariance = vec![vec![0.0; 24]; 24];
        for vector in sample.vectors() {
            for (i, row) in covariance.iter_mut().enumerate() {
                for (j, to) in row.iter_mut().enumerate() {
                    *to += (f64::from(vector[i]) - mean[i]) * (f64::from(vector[j]) - mean[j]);
                }
            }
        }
        let (_, expected) = eigenvectors(covariance);
        let directions = sample.directions(&mut |_| {});
        // Scaled vectors of 24 dimensions lie on a sphere, and vary in all dimensions.
        assert_eq!(directions.len(), 24);
        for (direction, expected) in directions.iter().zip(&expected).take(8) {
            let cosine = dot_single(expected, direction).abs();
            assert!((cosine - 1.0).abs() < 1e-3, "{cosine}");
        }
    }

    #[test]
    fn bits_of_other_vectors_are_balanced_and_nearly_uncorrelated() {
        let all = vectors(2, 6_000, 96);
        let model = sample(&all[..3_000]).learn(&mut |_| {}).unwrap();
        let bits: Vec<u64> = all[3_000..]
            .iter()
            .map(|vector| {
                let sums = model.sums(vector);
                (0..64).zip(sums).fold(0, |bits, (bit, sum)| bits | u64::from(sum > 0.0) << bit)
            })
            .collect();
        let share = |set: &dyn Fn(u64) -> u64| {
            bits.iter().map(|&bits| set(bits) & 1).sum::<u64>() as f64 / bits.len() as f64
        };
        let mut correlation = 0.0;
        for a in 0..64 {
            let ones = share(&|bits| bits >> a);
            assert!((0.4..0.6).contains(&ones), "bit {a}: {ones}");
            for b in 0..a {
                correlation += 2.0 * (share(&|bits| bits >> a ^ bits >> b) - 0.5).abs();
            }
        }
        assert!(correlation / 2_016.0 < 0.04, "{}", correlation / 2_016.0);
    }

    #[test]
    fn the_same_vectors_give_the_same_model_and_lengths_make_no_difference() {
        let all = vectors(3, 200, 16);
        let model = sample(&all).learn(&mut |_| {}).unwrap();
        assert_eq!(sample(&all).learn(&mut |_| {}).unwrap().digest(), model.digest());
        let longer: Vec<f32> = all[0].iter().map(|x| 4.0 * x).collect();
        let bits = |vector: &[f32]| model.sums(vector).map(f64::to_bits);
        assert_eq!(bits(&all[0]), bits(&longer));
    }

    #[test]
    fn too_few_vectors_and_vectors_of_one_direction_make_no_model() {
        let few = vectors(4, SAMPLE_MIN - 1, 8);
        let learnt = sample(&few).learn(&mut |_| {});
        assert_eq!(learnt.unwrap_err(), CannotLearn::TooFew(SAMPLE_MIN as u64 - 1));
        let equal = vec![vec![0.5, 0.25, -1.0]; 2 * SAMPLE_MIN];
        assert_eq!(sample(&equal).learn(&mut |_| {}).unwrap_err(), CannotLearn::AllEqual);
    }

    #[test]
    fn a_vector_of_few_directions_has_a_model_with_higher_modes() {
        let all = vectors(5, 300, 2);
        let model = sample(&all).learn(&mut |_| {}).unwrap();
        assert!((1..=2).contains(&model.directions()));
    }

    #[test]
    fn a_sample_keeps_a_bounded_number_of_vectors_from_all_of_the_stream() {
        let mut sample = TrainingSample::new(2);
        for number in 0..3 * SAMPLE_MAX {
            sample.add(&[1.0, number as f32]);
        }
        assert_eq!(sample.kept(), SAMPLE_MAX);
        let late = sample
            .vectors()
            .filter(|vector| f64::from(vector[1] / vector[0]) > 2.0 * SAMPLE_MAX as f64);
        let late = late.count() as f64 / SAMPLE_MAX as f64;
        assert!((0.31..0.36).contains(&late), "{late}");
        assert_eq!(TrainingSample::new(8_192).vectors_max, SAMPLE_COMPONENTS_MAX / 8_192);
    }
}
