//! Explanations as dictionaries, with the names of the service
//! (`crates/wire/src/answer/explained.rs`).

use nearprint_text::{DecidingFeature, DifferingBit, Explained, HeavyFeature};
use pyo3::prelude::*;

/// Why a document has its fingerprint.
#[derive(IntoPyObject)]
pub(crate) struct Explanation {
    fingerprint: u64,
    features: Option<usize>,
    short: bool,
    heaviest: Vec<Heavy>,
    sums: Vec<f64>,
    near_zero: Vec<Bit>,
    tokens: usize,
}

#[derive(IntoPyObject)]
struct Heavy {
    feature: String,
    weight: f64,
    hash: String,
}

#[derive(IntoPyObject)]
#[expect(clippy::struct_field_names, reason = "the name in the dictionary")]
struct Bit {
    bit: u8,
    sum: f64,
    rank: u8,
}

/// Why two documents differ.
#[derive(IntoPyObject)]
pub(crate) struct Comparison {
    a: Explanation,
    b: Explanation,
    distance: u8,
    similarity: Option<f64>,
    differing_bits: Vec<Differing>,
}

#[derive(IntoPyObject)]
struct Differing {
    bit: u8,
    sum_a: f64,
    sum_b: f64,
    rank_a: u8,
    rank_b: u8,
    features: Vec<Deciding>,
}

#[derive(IntoPyObject)]
struct Deciding {
    feature: String,
    weight_a: f64,
    weight_b: f64,
}

impl Explanation {
    pub(crate) fn of(explained: &Explained) -> Self {
        let (analysis, why) = (explained.analysis(), explained.explanation());
        let bit = |(rank, (bit, sum))| Bit { bit, sum, rank };
        Self {
            fingerprint: analysis.fingerprint.bits(),
            features: analysis.features,
            short: analysis.short,
            near_zero: (0..).zip(why.near_zero()).map(bit).collect(),
            heaviest: why.heaviest.into_iter().map(Heavy::from).collect(),
            sums: why.sums.to_vec(),
            tokens: why.tokens,
        }
    }
}

impl Comparison {
    pub(crate) fn of(a: &Explained, b: &Explained) -> Self {
        let sketches = a.analysis().sketch.as_ref().zip(b.analysis().sketch.as_ref());
        let (ranks_a, ranks_b) = (a.ranks(), b.ranks());
        let differing = |differing: DifferingBit| {
            let DifferingBit { bit, sums: [sum_a, sum_b], deciding } = differing;
            let at = usize::from(bit);
            let features = deciding.into_iter().map(Deciding::from).collect();
            Differing { bit, sum_a, sum_b, rank_a: ranks_a[at], rank_b: ranks_b[at], features }
        };
        Self {
            a: Explanation::of(a),
            b: Explanation::of(b),
            distance: a.analysis().fingerprint.distance(b.analysis().fingerprint).get(),
            similarity: sketches.map(|(a, b)| a.resemblance(b).similarity()),
            differing_bits: a.differing_bits(b).into_iter().map(differing).collect(),
        }
    }
}

impl From<HeavyFeature> for Heavy {
    fn from(heavy: HeavyFeature) -> Self {
        let hash = format!("{:016x}", heavy.hash);
        Self { feature: heavy.feature, weight: heavy.weight, hash }
    }
}

impl From<DecidingFeature> for Deciding {
    fn from(deciding: DecidingFeature) -> Self {
        let [weight_a, weight_b] = deciding.weights;
        Self { feature: deciding.feature, weight_a, weight_b }
    }
}
