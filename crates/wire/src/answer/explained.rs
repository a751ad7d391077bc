//! The replies of `"explain": true`: why a document has its fingerprint, and why two differ.

use nearprint_fingerprint::Fingerprint;
use nearprint_text::Explained;
use serde::{Deserialize, Serialize};

use super::hex::Hex;

/// Why a document has its fingerprint.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExplanationReply {
    /// The heaviest features, heaviest first, at most 20.
    pub heaviest: Vec<HeavyFeatureReply>,
    /// The 64 sums, bit 0 first: a bit is 1 where its sum is above 0.
    #[cfg_attr(feature = "openapi", schema(min_items = 64, max_items = 64))]
    pub sums: Vec<f64>,
    /// The 8 bits that an edit tips most easily, smallest sum first.
    pub near_zero: Vec<BitReply>,
    /// How many words and single CJK characters it has; 0 for weighted features.
    pub tokens: usize,
}

/// A feature with a large weight.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HeavyFeatureReply {
    pub feature: String,
    pub weight: f64,
    pub hash: Hex,
}

/// A bit of a fingerprint.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BitReply {
    /// 0 to 63; 0 is the least significant.
    #[cfg_attr(feature = "openapi", schema(maximum = 63))]
    pub bit: u8,
    /// Its sum; null for a bare fingerprint.
    pub sum: Option<f64>,
    /// The place of its sum among those of all bits by magnitude, 0 to 63: a small change of the
    /// text flips the bit of rank 0 first. Null for a bare fingerprint.
    #[cfg_attr(feature = "openapi", schema(maximum = 63))]
    pub rank: Option<u8>,
}

/// Why two documents differ.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ComparisonExplanationReply {
    /// Why the first document has its fingerprint; null for a bare fingerprint.
    pub a: Option<ExplanationReply>,
    /// Why the second document has its fingerprint.
    pub b: Option<ExplanationReply>,
    /// The bits in which they differ; null if one is a bare fingerprint.
    pub differing_bits: Option<Vec<DifferingBitReply>>,
}

/// A bit in which two documents differ.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DifferingBitReply {
    /// 0 to 63; 0 is the least significant.
    #[cfg_attr(feature = "openapi", schema(maximum = 63))]
    pub bit: u8,
    /// Its sum in the first document.
    pub sum_a: f64,
    /// Its sum in the second document.
    pub sum_b: f64,
    /// The place of its sum in the first document among those of all bits by magnitude, 0 to 63: a
    /// small change of the text flips the bit of rank 0 first.
    #[cfg_attr(feature = "openapi", schema(maximum = 63))]
    pub rank_a: u8,
    /// The same in the second document.
    #[cfg_attr(feature = "openapi", schema(maximum = 63))]
    pub rank_b: u8,
    /// The features that make most of the difference of the sums, at most 3.
    pub features: Vec<DecidingFeatureReply>,
}

/// A feature whose weights differ between two documents.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DecidingFeatureReply {
    pub feature: String,
    /// Its weight in the first document; 0 if the document does not have it.
    pub weight_a: f64,
    /// Its weight in the second document.
    pub weight_b: f64,
}

impl From<&Explained> for ExplanationReply {
    fn from(explained: &Explained) -> Self {
        let explanation = explained.explanation();
        let bit = |(rank, (bit, sum))| BitReply { bit, sum: Some(sum), rank: Some(rank) };
        let near_zero = (0..).zip(explanation.near_zero()).map(bit).collect();
        let heaviest = explanation.heaviest.into_iter().map(|heavy| HeavyFeatureReply {
            feature: heavy.feature,
            weight: heavy.weight,
            hash: Hex(heavy.hash),
        });
        Self {
            heaviest: heaviest.collect(),
            sums: explanation.sums.to_vec(),
            near_zero,
            tokens: explanation.tokens,
        }
    }
}

impl ComparisonExplanationReply {
    /// `None` stands for a document that came as a bare fingerprint.
    pub fn new(a: Option<&Explained>, b: Option<&Explained>) -> Self {
        let differing_bits = a.zip(b).map(|(a, b)| {
            let ranks = [a.ranks(), b.ranks()];
            let bits = a.differing_bits(b).into_iter();
            bits.map(|differing| DifferingBitReply::new(differing, ranks)).collect()
        });
        Self { a: a.map(ExplanationReply::from), b: b.map(ExplanationReply::from), differing_bits }
    }
}

impl DifferingBitReply {
    fn new(differing: nearprint_text::DifferingBit, ranks: [[u8; 64]; 2]) -> Self {
        let features = differing.deciding.into_iter().map(|deciding| {
            let [weight_a, weight_b] = deciding.weights;
            DecidingFeatureReply { feature: deciding.feature, weight_a, weight_b }
        });
        let [sum_a, sum_b] = differing.sums;
        let rank = |ranks: [u8; 64]| ranks.get(usize::from(differing.bit)).copied();
        let [rank_a, rank_b] = ranks.map(|ranks| rank(ranks).unwrap_or_default());
        let (bit, features) = (differing.bit, features.collect());
        Self { bit, sum_a, sum_b, rank_a, rank_b, features }
    }
}

/// The bits in which a hit differs from the query, with the sums of the query.
pub fn differing_bits(
    query: Fingerprint,
    hit: Fingerprint,
    explained: Option<&Explained>,
) -> Vec<BitReply> {
    let differing = query.bits() ^ hit.bits();
    let ranks = explained.map(Explained::ranks);
    (0..64)
        .filter(|bit| differing >> bit & 1 == 1)
        .map(|bit| {
            let sum = explained.and_then(|why| why.sums().get(usize::from(bit)).copied());
            let rank = ranks.and_then(|ranks| ranks.get(usize::from(bit)).copied());
            BitReply { bit, sum, rank }
        })
        .collect()
}
