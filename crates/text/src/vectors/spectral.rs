//! The recipe `spectral-D`: spectral hashing (Weiss, Torralba, Fergus 2008) with a learned model.
//!
//! The vector, scaled to length 1, is projected on up to 64 principal directions of a sample. Each
//! projection becomes a position from 0 to 1 by the quantiles of the sample, so that positions are
//! uniform, as the analysis of the paper assumes. A bit is the sign of one eigenfunction:
//! cos(pi x mode x position) of its direction. Only the parity of mode x position matters, so no
//! cosine is computed.
//!
//! Weights are in single precision, so products are exact, and all sums run over the dimensions in
//! order: with one model, all machines compute the same bits. Cost: as for `hyperplanes-D`, with
//! twice the memory. Tested against a plain version.

use nearprint_fingerprint::recipe::DIMENSIONS_MAX;
use xxhash_rust::xxh3::xxh3_128;

/// The largest number of directions.
pub(crate) const DIRECTIONS_MAX: usize = 64;
/// The largest mode of an eigenfunction.
pub(crate) const MODE_MAX: u16 = 64;
/// The intervals between the quantiles of a direction.
pub(crate) const INTERVALS: usize = 16;

const MAGIC: [u8; 8] = *b"NPSPECTR";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 8 + 4 + 4 + 4;
const CHECKSUM_BYTES: usize = 16;

/// One eigenfunction: the direction whose position it takes, and how often it changes its sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Eigenfunction {
    pub(crate) direction: u16,
    pub(crate) mode: u16,
}

/// What `nearprint train spectral` learns from a sample.
pub struct SpectralModel {
    /// For each dimension its weight in each direction, 0 for directions that are not there.
    weights: Vec<[f32; DIRECTIONS_MAX]>,
    /// For each direction the quantiles of the projections, in order.
    quantiles: Vec<[f64; INTERVALS + 1]>,
    bits: [Eigenfunction; 64],
    digest: u128,
}

/// This version cannot use the model in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadModel {
    /// It does not begin as a model file does.
    #[error("it is not a model file")]
    Magic,
    /// Another version of the program wrote it.
    #[error("it is a model file of version {0}, and this program reads version {VERSION}")]
    Version(u32),
    /// Its length, its checksum or its numbers are wrong.
    #[error("it is cut or damaged ({0})")]
    Damaged(&'static str),
}

const fn bytes_of(dimensions: usize, directions: usize) -> usize {
    HEADER_BYTES
        + dimensions * directions * 4
        + directions * (INTERVALS + 1) * 8
        + 64 * 4
        + CHECKSUM_BYTES
}

impl SpectralModel {
    /// The most bytes of a file.
    pub const BYTES_MAX: u64 = bytes_of(DIMENSIONS_MAX as usize, DIRECTIONS_MAX) as u64;

    /// A model of directions, each with its weights and the quantiles of its projections. The bits
    /// are the 64 eigenfunctions of the smallest eigenvalues.
    ///
    /// # Errors
    /// [`BadModel::Damaged`] when no model can be made of these numbers.
    pub(crate) fn new(
        directions: &[Vec<f32>],
        quantiles: Vec<[f64; INTERVALS + 1]>,
    ) -> Result<Self, BadModel> {
        let dimensions = directions.first().map_or(0, Vec::len);
        let mut weights = vec![[0.0; DIRECTIONS_MAX]; dimensions];
        for (number, direction) in directions.iter().enumerate() {
            for (row, &weight) in weights.iter_mut().zip(direction) {
                row[number] = weight;
            }
        }
        let bits = smallest(&quantiles);
        let mut model = Self { weights, quantiles, bits, digest: 0 };
        model.digest = xxh3_128(&model.body());
        Self::from_bytes(&model.to_bytes())
    }

    /// The number of dimensions of its vectors.
    pub fn dimensions(&self) -> u16 {
        self.weights.len() as u16
    }

    /// The number of its directions.
    pub fn directions(&self) -> usize {
        self.quantiles.len()
    }

    /// The XXH3-128 of its file, which identifies it.
    pub fn digest(&self) -> u128 {
        self.digest
    }

    fn body(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes_of(self.weights.len(), self.directions()));
        out.extend_from_slice(&MAGIC);
        for number in [VERSION, self.weights.len() as u32, self.directions() as u32] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for row in &self.weights {
            row.iter()
                .take(self.directions())
                .for_each(|w| out.extend_from_slice(&w.to_le_bytes()));
        }
        self.quantiles.iter().flatten().for_each(|q| out.extend_from_slice(&q.to_le_bytes()));
        for bit in &self.bits {
            out.extend_from_slice(&bit.direction.to_le_bytes());
            out.extend_from_slice(&bit.mode.to_le_bytes());
        }
        out
    }

    /// The bytes of its file (`docs/disk-format.md`).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.body();
        out.extend_from_slice(&self.digest.to_le_bytes());
        out
    }

    /// Reads a file, and verifies all of it.
    ///
    /// # Errors
    /// [`BadModel`].
    pub fn from_bytes(file: &[u8]) -> Result<Self, BadModel> {
        if !file.starts_with(&MAGIC) {
            return Err(BadModel::Magic);
        }
        let mut reader = Reader(&file[MAGIC.len()..]);
        let version = reader.u32()?;
        if version != VERSION {
            return Err(BadModel::Version(version));
        }
        let (dimensions, directions) = (reader.u32()? as usize, reader.u32()? as usize);
        let in_range = (1..=usize::from(DIMENSIONS_MAX)).contains(&dimensions)
            && (1..=DIRECTIONS_MAX.min(dimensions)).contains(&directions);
        if !in_range || file.len() != bytes_of(dimensions, directions) {
            return Err(BadModel::Damaged("its length"));
        }
        let (body, checksum) = file.split_at(file.len() - CHECKSUM_BYTES);
        let digest = xxh3_128(body);
        if checksum != digest.to_le_bytes() {
            return Err(BadModel::Damaged("its checksum"));
        }
        let mut weights = vec![[0.0; DIRECTIONS_MAX]; dimensions];
        for row in &mut weights {
            for weight in row.iter_mut().take(directions) {
                *weight = f32::from_le_bytes(reader.array()?);
            }
        }
        let mut quantiles = vec![[0.0; INTERVALS + 1]; directions];
        for quantile in quantiles.iter_mut().flatten() {
            *quantile = f64::from_le_bytes(reader.array()?);
        }
        let mut bits = [Eigenfunction::default(); 64];
        for bit in &mut bits {
            bit.direction = u16::from_le_bytes(reader.array()?);
            bit.mode = u16::from_le_bytes(reader.array()?);
        }
        let model = Self { weights, quantiles, bits, digest };
        model.check().map(|()| model)
    }

    fn check(&self) -> Result<(), BadModel> {
        let finite = self.weights.iter().flatten().all(|weight| weight.is_finite());
        let ordered = |quantiles: &[f64; INTERVALS + 1]| {
            quantiles.iter().all(|quantile| quantile.is_finite())
                && quantiles.is_sorted()
                && quantiles[0] < quantiles[INTERVALS]
        };
        let exists = |bit: &Eigenfunction| {
            usize::from(bit.direction) < self.directions() && (1..=MODE_MAX).contains(&bit.mode)
        };
        if !finite || !self.quantiles.iter().all(ordered) {
            return Err(BadModel::Damaged("its numbers"));
        }
        if self.bits.iter().all(exists) {
            Ok(())
        } else {
            Err(BadModel::Damaged("its eigenfunctions"))
        }
    }

    /// The projections of a vector, scaled to length 1, on all directions.
    pub(crate) fn projections(&self, vector: &[f32]) -> [f64; DIRECTIONS_MAX] {
        let mut sums = [0.0; DIRECTIONS_MAX];
        let mut square = 0.0;
        for (&component, weights) in vector.iter().zip(&self.weights) {
            let component = f64::from(component);
            square += component * component;
            for (sum, &weight) in sums.iter_mut().zip(weights) {
                *sum += component * f64::from(weight);
            }
        }
        let length = f64::sqrt(square);
        sums.map(|sum| sum / length)
    }

    /// For each bit, how far from a change of sign it is: -0.5 to 0.5, above 0 where the bit is 1.
    pub(crate) fn sums(&self, vector: &[f32]) -> [f64; 64] {
        let projections = self.projections(vector);
        let mut positions = [0.0; DIRECTIONS_MAX];
        for ((at, quantiles), projection) in
            positions.iter_mut().zip(&self.quantiles).zip(projections)
        {
            *at = position(quantiles, projection);
        }
        self.bits.map(|bit| {
            let turns = f64::from(bit.mode) * positions[usize::from(bit.direction)];
            let turn = turns - 2.0 * (turns / 2.0).floor();
            (turn - 1.0).abs() - 0.5
        })
    }
}

/// The share of the sample below a projection, 0 to 1, linear between quantiles.
#[expect(clippy::cast_precision_loss, reason = "intervals are few")]
fn position(quantiles: &[f64; INTERVALS + 1], projection: f64) -> f64 {
    let inner = &quantiles[1..INTERVALS];
    let interval = inner.iter().filter(|&&quantile| quantile <= projection).count();
    let (from, to) = (quantiles[interval], quantiles[interval + 1]);
    let part = if to > from { ((projection - from) / (to - from)).clamp(0.0, 1.0) } else { 0.0 };
    (interval as f64 + part) / INTERVALS as f64
}

/// The 64 eigenfunctions of the smallest eigenvalues: eigenvalues grow with mode / range. Among
/// equal ones, those of the first direction come first.
fn smallest(quantiles: &[[f64; INTERVALS + 1]]) -> [Eigenfunction; 64] {
    let mut all: Vec<(f64, Eigenfunction)> = (0..)
        .zip(quantiles)
        .flat_map(|(direction, quantiles)| {
            let range = quantiles[INTERVALS] - quantiles[0];
            (1..=MODE_MAX)
                .map(move |mode| (f64::from(mode) / range, Eigenfunction { direction, mode }))
        })
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    std::array::from_fn(|bit| all.get(bit).map_or(Eigenfunction::default(), |found| found.1))
}

/// The rest of a file.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadModel> {
        let (first, rest) = self.0.split_first_chunk().ok_or(BadModel::Damaged("its length"))?;
        self.0 = rest;
        Ok(*first)
    }

    fn u32(&mut self) -> Result<u32, BadModel> {
        self.array().map(u32::from_le_bytes)
    }
}

/// Models are equal if their files are.
impl PartialEq for SpectralModel {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for SpectralModel {}

impl std::fmt::Debug for SpectralModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SpectralModel({:032x})", self.digest)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::cast_precision_loss, reason = "counts of a test are small")]

    use std::fs;
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;

    /// A model of random numbers.
    fn model(dimensions: usize, directions: usize) -> SpectralModel {
        let mut state = 7_u32;
        let mut number = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1 << 24) - 0.5
        };
        let weights: Vec<Vec<f32>> =
            (0..directions).map(|_| (0..dimensions).map(|_| number() as f32).collect()).collect();
        let quantiles = (0..directions).map(|_| {
            let mut quantiles: [f64; INTERVALS + 1] = std::array::from_fn(|_| number());
            quantiles.sort_by(f64::total_cmp);
            quantiles
        });
        SpectralModel::new(&weights, quantiles.collect()).unwrap()
    }

    fn fixture() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/storage/model-v1")
    }

    /// A model of version 1 can always be read, and its fingerprints, which a plain program
    /// computed from the file, stay the same.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "tests read their own files")]
    fn the_model_of_version_1_is_read_written_and_used() {
        let stored = fs::read(fixture()).unwrap();
        let read = SpectralModel::from_bytes(&stored).unwrap();
        assert_eq!(read.to_bytes(), stored);
        let bits = |vector: [f32; 6]| {
            let sums = read.sums(&vector).into_iter().enumerate();
            sums.fold(0_u64, |bits, (bit, sum)| bits | u64::from(sum > 0.0) << bit)
        };
        assert_eq!(bits([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]), 0xf409_dbd0_97b3_3607);
        assert_eq!(bits([0.3, -0.2, 0.5, 0.1, -0.7, 0.4]), 0xf7d6_5df4_b2ef_acb3);
    }

    #[test]
    #[ignore = "writes into tests/fixtures"]
    #[expect(clippy::disallowed_methods, reason = "tests write their own files")]
    fn the_model_of_today_is_stored() {
        fs::write(fixture(), model(6, 3).to_bytes()).unwrap();
    }

    /// The definition: cosines in double precision, one bit after the other.
    fn plain(model: &SpectralModel, vector: &[f32]) -> [f64; 64] {
        let length = vector.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
        std::array::from_fn(|bit| {
            let Eigenfunction { direction, mode } = model.bits[bit];
            let mut projection = 0.0;
            for (&x, weights) in vector.iter().zip(&model.weights) {
                projection += f64::from(x) * f64::from(weights[usize::from(direction)]);
            }
            projection /= length;
            let quantiles = &model.quantiles[usize::from(direction)];
            let mut position = if projection >= quantiles[INTERVALS] { 1.0 } else { 0.0 };
            for i in 0..INTERVALS {
                let (from, to) = (quantiles[i], quantiles[i + 1]);
                if from <= projection && projection < to {
                    position = (i as f64 + (projection - from) / (to - from)) / INTERVALS as f64;
                }
            }
            (std::f64::consts::PI * f64::from(mode) * position).cos()
        })
    }

    proptest! {
        #[test]
        fn bits_are_the_signs_of_cosines(
            vector in prop::collection::vec(-1.0..1.0_f32, 40),
            directions in 1_usize..40,
        ) {
            prop_assume!(vector.iter().any(|&x| x != 0.0));
            let model = model(40, directions);
            for (sum, cosine) in model.sums(&vector).iter().zip(plain(&model, &vector)) {
                // Nearer to 0 than this, the cosine itself is not exact.
                prop_assert!(cosine.abs() < 1e-9 || (*sum > 0.0) == (cosine > 0.0));
            }
        }
    }

    #[test]
    fn the_smallest_modes_of_the_widest_directions_are_chosen() {
        let quantiles = |range: f64| std::array::from_fn(|i| range * i as f64 / INTERVALS as f64);
        let bits = smallest(&[quantiles(1.0), quantiles(4.0), quantiles(2.0)]);
        let shown: Vec<_> = bits[..7].iter().map(|bit| (bit.direction, bit.mode)).collect();
        // 1/4, then 2/4 and 1/2, then 3/4, then 1/1, 4/4 and 2/2.
        assert_eq!(shown, [(1, 1), (1, 2), (2, 1), (1, 3), (0, 1), (1, 4), (2, 2)]);
        let one = smallest(&[quantiles(3.0)]);
        assert_eq!(one[63], Eigenfunction { direction: 0, mode: 64 });
    }

    #[test]
    fn a_file_is_read_back_and_no_changed_or_cut_one() {
        let model = model(5, 3);
        let file = model.to_bytes();
        assert_eq!(file.len(), bytes_of(5, 3));
        let read = SpectralModel::from_bytes(&file).unwrap();
        assert_eq!((&read, read.to_bytes()), (&model, file.clone()));
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert!(SpectralModel::from_bytes(&changed).is_err(), "byte {at}");
            assert!(SpectralModel::from_bytes(&file[..at]).is_err(), "cut at {at}");
        }
        assert_eq!(SpectralModel::from_bytes(b"text").unwrap_err(), BadModel::Magic);
        let mut newer = file.clone();
        newer[8] = 2;
        assert_eq!(SpectralModel::from_bytes(&newer).unwrap_err(), BadModel::Version(2));
        assert_eq!(SpectralModel::BYTES_MAX, bytes_of(8_192, 64) as u64);
    }

    #[test]
    fn numbers_that_make_no_model_are_refused_whatever_their_checksum() {
        let damaged = |change: &dyn Fn(&mut SpectralModel)| {
            let mut model = model(5, 3);
            change(&mut model);
            model.digest = xxh3_128(&model.body());
            SpectralModel::from_bytes(&model.to_bytes()).unwrap_err()
        };
        let numbers = BadModel::Damaged("its numbers");
        assert_eq!(damaged(&|model| model.weights[2][1] = f32::NAN), numbers);
        assert_eq!(damaged(&|model| model.quantiles[0][3] = f64::INFINITY), numbers);
        assert_eq!(damaged(&|model| model.quantiles[0].reverse()), numbers);
        assert_eq!(damaged(&|model| model.quantiles[1] = [0.5; INTERVALS + 1]), numbers);
        let bits = BadModel::Damaged("its eigenfunctions");
        assert_eq!(damaged(&|model| model.bits[9].direction = 3), bits);
        assert_eq!(damaged(&|model| model.bits[9].mode = 0), bits);
        assert_eq!(damaged(&|model| model.bits[9].mode = 65), bits);
    }

    #[test]
    fn the_worked_example_of_the_documents_comes_out() {
        let quantiles = std::array::from_fn(|i| (i as f64 - 8.0) / 8.0);
        let model = SpectralModel::new(&[vec![1.0]], vec![quantiles]).unwrap();
        let bits = |vector: &[f32]| {
            (0..64).zip(model.sums(vector)).fold(0, |b, (bit, sum)| b | u64::from(sum > 0.0) << bit)
        };
        assert_eq!(bits(&[5.0]), 0xaaaa_aaaa_aaaa_aaaa);
        assert_eq!(bits(&[-5.0]), u64::MAX);
    }
}
