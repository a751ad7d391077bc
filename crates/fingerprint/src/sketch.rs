//! The sketch V2 of a text: 156 bytes by which near-duplicates are found and confirmed.
//!
//! The first 128 bytes estimate how much two texts agree: a b-bit minwise sketch (Li and Koenig
//! 2010) of 512 bins over weighted two-token shingles, each bin 0 (empty) or a code of 1 to 3. Then
//! come the labels by which similar texts are found ([`Label`]), and the numbers of the text
//! ([`Numbers`]). nearprint-text makes it; this module stores and compares. A comparison costs
//! about 20 ns and uses integers only, so that verdicts are the same everywhere.

use std::fmt;

use crate::label::{LABELS, Label};
use crate::numbers::Numbers;

/// The number of bins of a sketch.
pub const BINS: usize = 512;

/// What is stored of a text besides its fingerprint.
#[derive(Clone, PartialEq, Eq)]
pub struct Sketch {
    /// The two bit planes of 512 bin codes: the low bits, then the high bits.
    planes: [u64; 16],
    labels: [Label; LABELS],
    numbers: Numbers,
}

impl Sketch {
    /// The size of its written form.
    pub const BYTES: usize = Self::PLANE_BYTES + LABELS * Label::BYTES + size_of::<u64>();

    const PLANE_BYTES: usize = 128;

    /// The sketch with these bit planes: bin b is bit `b & 63` of word `b >> 6` of its plane.
    pub const fn new(planes: [u64; 16], labels: [Label; LABELS], numbers: Numbers) -> Self {
        Self { planes, labels, numbers }
    }

    /// The sketch with these bin codes, each 0 (empty), 1, 2 or 3; its labels are 0.
    pub fn from_codes(codes: &[u8; BINS]) -> Self {
        let mut planes = [0_u64; 16];
        let (words, _) = codes.as_chunks::<64>();
        for (i, word) in words.iter().enumerate() {
            for (bit, &code) in word.iter().enumerate() {
                planes[i] |= u64::from(code & 1) << bit;
                planes[8 + i] |= u64::from(code >> 1 & 1) << bit;
            }
        }
        Self::new(planes, [Label::default(); LABELS], Numbers::NONE)
    }

    /// The same sketch with other labels.
    #[must_use]
    pub const fn with_labels(self, labels: [Label; LABELS]) -> Self {
        Self { labels, ..self }
    }

    /// The same sketch with other numbers.
    #[must_use]
    pub const fn with_numbers(self, numbers: Numbers) -> Self {
        Self { numbers, ..self }
    }

    /// Reads the written form: bin b is bit `b & 7` of byte `b >> 3` of its plane.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (planes, rest) = bytes.split_at(Self::PLANE_BYTES);
        let (labels, numbers) = rest.split_at(LABELS * Label::BYTES);
        let number = |bytes: &[u8]| {
            bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        let word = |bytes: &[u8], width: usize, at: usize| number(&bytes[at * width..][..width]);
        Self {
            planes: std::array::from_fn(|at| word(planes, 8, at)),
            labels: std::array::from_fn(|at| Label::from_bits(word(labels, Label::BYTES, at))),
            numbers: Numbers::from_bits(number(numbers)),
        }
    }

    /// The form that [`Self::from_bytes`] reads: the plane of the low bits, that of the high bits,
    /// the labels and the numbers, all little-endian.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (planes, rest) = bytes.split_at_mut(Self::PLANE_BYTES);
        let (labels, numbers) = rest.split_at_mut(LABELS * Label::BYTES);
        for (to, word) in planes.chunks_exact_mut(8).zip(self.planes) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        for (to, label) in labels.chunks_exact_mut(Label::BYTES).zip(self.labels) {
            to.copy_from_slice(&label.bits().to_le_bytes()[..Label::BYTES]);
        }
        numbers.copy_from_slice(&self.numbers.bits().to_le_bytes());
        bytes
    }

    /// Its labels, of different bins.
    pub const fn labels(&self) -> &[Label; LABELS] {
        &self.labels
    }

    /// The numbers of the text.
    pub const fn numbers(&self) -> Numbers {
        self.numbers
    }

    /// Whether the texts share a label, so that a likely search compares them.
    pub fn shares_label(&self, other: &Self) -> bool {
        self.labels.iter().zip(&other.labels).any(|(one, other)| one.is_shared(*other))
    }

    /// Estimates the multiset Jaccard resemblance of the shingles of the two texts.
    pub fn resemblance(&self, other: &Self) -> Resemblance {
        let (mut matched, mut filled, mut either) = (0, 0, 0);
        for i in 0..8 {
            let (x0, x1, y0, y1) =
                (self.planes[i], self.planes[8 + i], other.planes[i], other.planes[8 + i]);
            let (nx, ny) = (x0 | x1, y0 | y1);
            matched += (nx & ny & !((x0 ^ y0) | (x1 ^ y1))).count_ones();
            filled += (nx & ny).count_ones();
            either += (nx | ny).count_ones();
        }
        Resemblance::counted(matched, filled, either)
    }

    /// The sample that an index keeps with the posting of the document: bins, and a hash of the
    /// whole sketch.
    ///
    /// Bins 0, 32, 64 ... 480, if at least [`Sample::FILLED_MIN`] of them are filled. With fewer, a
    /// comparison would tell too little, so they are a hash of all bins, in the place of the first
    /// seven.
    pub fn sample(&self) -> Sample {
        let of_bins = mixed(&self.planes);
        let of_labels = mixed(&self.labels.map(Label::bits));
        let whole = mixed(&[of_bins, of_labels, self.numbers.bits()]);
        Sample { bins: self.sampled_bins(of_bins), digest: (whole >> 32) as u32 }
    }

    fn sampled_bins(&self, hash: u64) -> u32 {
        let bins = |plane: &[u64]| {
            let two_of = |word: u64| (word & 1 | word >> 31 & 2) as u32;
            plane.iter().enumerate().fold(0, |bins, (i, &word)| bins | two_of(word) << (2 * i))
        };
        let (low, high) = (bins(&self.planes[..8]), bins(&self.planes[8..]));
        if (low | high).count_ones() >= Sample::FILLED_MIN {
            return low | high << 16;
        }
        let hash = (hash >> 32) as u32;
        hash & 0x7f | (hash >> 16 & 0x7f) << 16
    }
}

/// A hash of words: two that differ in one word have different hashes.
fn mixed(words: &[u64]) -> u64 {
    words
        .iter()
        .fold(0, |hash, word| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Eight bytes of a sketch: its sampled bins tell most unlike texts apart without reading their
/// records, and its digest tells the identical one from any number of texts that are nearly the
/// same. Samples are equal if their sketches are, but for one pair in four billion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Sample {
    bins: u32,
    digest: u32,
}

impl Sample {
    /// With fewer filled bins than this, their place has a hash.
    pub const FILLED_MIN: u32 = 8;

    /// From the form in which an index stores it.
    pub const fn from_bits(bits: u64) -> Self {
        Self { bins: bits as u32, digest: (bits >> 32) as u32 }
    }

    /// The form in which an index stores it: the bins in the lower half.
    pub const fn bits(self) -> u64 {
        (self.digest as u64) << 32 | self.bins as u64
    }

    /// The sampled bins, which texts that are nearly the same share as a rule.
    pub const fn bins(self) -> u32 {
        self.bins
    }

    /// The sampled bins alone.
    pub(crate) const fn without_digest(self) -> Self {
        Self { bins: self.bins, digest: 0 }
    }

    const fn filled(self) -> u32 {
        (self.bins | self.bins >> 16) & 0xffff
    }

    /// Whether the sketches may reach a threshold. Of the pairs that do reach it, this wrongly
    /// refutes one in 1,000.
    ///
    /// It is true if the resemblance of the sampled bins reaches four fifths of the threshold, or
    /// if too few bins are filled to tell.
    pub fn may_reach(self, other: Self, threshold: MinResemblance) -> bool {
        let (one, two) = (self.filled(), other.filled());
        if one.count_ones().min(two.count_ones()) < Self::FILLED_MIN {
            return true;
        }
        let unlike = self.bins ^ other.bins;
        let matched = (one & two & !(unlike | unlike >> 16)).count_ones();
        let sampled =
            Resemblance::counted(matched, (one & two).count_ones(), (one | two).count_ones());
        sampled.reaches(MinResemblance(threshold.0 / 5 * 4))
    }
}

impl fmt::Debug for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sketch(")?;
        self.to_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(")")
    }
}

/// An estimated resemblance J = `agreeing / of`, stored as the exact ratio; J is 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resemblance {
    agreeing: u32,
    of: u32,
}

impl Resemblance {
    /// From the numbers of bins that agree, that both fill, and that either fills.
    ///
    /// Unlike values agree by chance in a third of the bins that both fill.
    fn counted(matched: u32, both: u32, either: u32) -> Self {
        Self { agreeing: (3 * matched).saturating_sub(both), of: 2 * either }
    }

    /// J itself, 0 to 1.
    pub fn jaccard(self) -> f64 {
        if self.of == 0 { 0.0 } else { f64::from(self.agreeing) / f64::from(self.of) }
    }

    /// The similarity (2J / (1 + J))^0.8, 0 to 1: about the edit ratio of the two texts.
    pub fn similarity(self) -> f64 {
        let j = self.jaccard();
        (2.0 * j / (1.0 + j)).powf(0.8)
    }

    /// Whether J reaches the threshold. Exact integer arithmetic.
    pub fn reaches(self, threshold: MinResemblance) -> bool {
        u64::from(self.agreeing) * u64::from(MinResemblance::ONE)
            >= u64::from(self.of) * u64::from(threshold.0)
            && self.of > 0
    }

    /// Orders by the exact fractions, without rounding.
    pub fn total_cmp(self, other: Self) -> std::cmp::Ordering {
        let cross = |a: Self, b: Self| u64::from(a.agreeing) * u64::from(b.of.max(1));
        cross(self, other).cmp(&cross(other, self))
    }
}

/// The least resemblance that confirms a hit, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinResemblance(u32);

impl MinResemblance {
    const ONE: u32 = 1_000_000;

    /// The resemblance that gives this similarity (0 to 1); `None` for 0, which switches
    /// verification off. The inverse of [`Resemblance::similarity`], rounded down.
    pub fn of_similarity(similarity: f64) -> Option<Self> {
        let x = similarity.clamp(0.0, 1.0).powf(1.25);
        #[expect(clippy::cast_sign_loss, reason = "clamped to 0..=1 above")]
        let millionths = (x / (2.0 - x) * f64::from(Self::ONE)) as u32;
        (similarity > 0.0).then_some(Self(millionths))
    }

    /// The least resemblance in millionths, at most 1,000,000.
    pub const fn millionths(self) -> u32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch_of(codes: &[(usize, u8)]) -> Sketch {
        let mut all = [0; BINS];
        for &(bin, code) in codes {
            all[bin] = code;
        }
        Sketch::from_codes(&all)
    }

    #[test]
    fn the_published_example_compares_as_published() {
        // quality/sketch.md: documents a and b, J = 0.777778, similarity 0.898683.
        let a = sketch_of(&[
            (25, 1),
            (42, 1),
            (62, 1),
            (136, 1),
            (195, 1),
            (230, 1),
            (243, 2),
            (291, 1),
            (318, 2),
            (355, 2),
            (370, 2),
            (380, 2),
            (393, 2),
            (444, 3),
            (468, 1),
            (471, 3),
        ]);
        let b = sketch_of(&[
            (25, 1),
            (42, 1),
            (62, 1),
            (136, 1),
            (195, 1),
            (230, 1),
            (233, 3),
            (243, 2),
            (291, 1),
            (318, 2),
            (355, 2),
            (370, 2),
            (393, 2),
            (404, 3),
            (444, 3),
            (468, 1),
        ]);
        let between = a.resemblance(&b);
        assert!((between.jaccard() - 0.777_778).abs() < 1e-6);
        assert!((between.similarity() - 0.898_683).abs() < 1e-6);
        assert!((a.resemblance(&a).jaccard() - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn bytes_round_trip_with_the_low_plane_first() {
        let labels = [1, 2, 3, 4].map(|number| Label::from_bits(number << 32 | 5));
        let sketch = sketch_of(&[(0, 1), (9, 2), (511, 3)])
            .with_labels(labels)
            .with_numbers(Numbers::from_bits(0x0123_4567_89ab_cdef));
        let bytes = sketch.to_bytes();
        assert_eq!((bytes[0], bytes[65], bytes[63], bytes[127]), (1, 2, 128, 128));
        assert_eq!((bytes[128], bytes[132], bytes[147], bytes[155]), (5, 1, 4, 0x01));
        assert_eq!(Sketch::from_bytes(&bytes), sketch);
    }

    #[test]
    fn texts_share_a_label_at_the_same_place_only() {
        let labels = [1, 2, 3, 4].map(|number| Label::from_bits(number << 32));
        let sketch = |labels| sketch_of(&[]).with_labels(labels);
        let [a, b, c, d] = labels;
        assert!(sketch(labels).shares_label(&sketch([b, a, c, b])));
        assert!(!sketch(labels).shares_label(&sketch([b, a, d, c])));
    }

    #[test]
    fn a_sample_has_every_thirty_second_bin() {
        let codes: Vec<(usize, u8)> =
            (0..BINS).map(|bin| (bin, (bin / 32 % 3 + 1) as u8)).collect();
        let expected = (0..16).fold(0_u32, |bits, i| {
            let code = i % 3 + 1;
            bits | (code & 1) << i | (code >> 1) << (16 + i)
        });
        assert_eq!(sketch_of(&codes).sample().bins(), expected);
    }

    #[test]
    fn samples_differ_wherever_sketches_do() {
        let codes: Vec<(usize, u8)> = (0..BINS).map(|bin| (bin, (bin % 3 + 1) as u8)).collect();
        let sketch = sketch_of(&codes);
        let sample = sketch.sample();
        assert_eq!(sketch.clone().sample(), sample);
        assert_eq!(Sample::from_bits(sample.bits()), sample);
        for bin in (0..BINS).filter(|bin| bin % 32 != 0) {
            let mut codes = codes.clone();
            codes[bin].1 = codes[bin].1 % 3 + 1;
            let other = sketch_of(&codes).sample();
            assert!(other.bins() == sample.bins() && other != sample, "bin {bin}");
        }
        let labels = [1, 2, 3, 4].map(|number| Label::from_bits(number << 32));
        assert_ne!(sketch.clone().with_labels(labels).sample(), sample);
        assert_ne!(sketch.with_numbers(Numbers::from_bits(1)).sample(), sample);
    }

    #[test]
    fn samples_of_short_texts_tell_unlike_sketches_apart_and_refute_none() {
        let sketches: Vec<Sketch> =
            (0..500).map(|i| sketch_of(&[(i, 1), (i * 7 % BINS, 2), (i * 31 % BINS, 3)])).collect();
        let mut samples: Vec<u32> = sketches.iter().map(|s| s.sample().bins()).collect();
        samples.sort_unstable();
        samples.dedup();
        assert!(samples.len() > 480, "{}", samples.len());
        let half = MinResemblance::of_similarity(0.83).unwrap();
        assert!(sketches.iter().all(|s| s.sample().may_reach(sketches[0].sample(), half)));
    }

    #[test]
    fn samples_refute_what_agrees_by_chance_alone() {
        let codes = |step: usize| -> Vec<(usize, u8)> {
            (0..BINS).map(|bin| (bin, ((bin / 32 * step + bin / 64) % 3 + 1) as u8)).collect()
        };
        let (one, other) = (sketch_of(&codes(1)).sample(), sketch_of(&codes(2)).sample());
        let threshold = MinResemblance::of_similarity(0.83).unwrap();
        assert!(one.may_reach(one, threshold) && !one.may_reach(other, threshold));
    }

    #[test]
    fn a_threshold_is_reached_at_its_similarity_and_not_below() {
        let half = Resemblance { agreeing: 1, of: 2 };
        let at = half.similarity();
        assert!(half.reaches(MinResemblance::of_similarity(at - 1e-5).unwrap()));
        assert!(!half.reaches(MinResemblance::of_similarity(at + 1e-5).unwrap()));
        assert_eq!(MinResemblance::of_similarity(0.0), None);
        assert!(!Resemblance { agreeing: 0, of: 0 }.reaches(MinResemblance(0)));
    }
}
