//! The answer to a comparison.

use nearprint_machine::document::Document;
use nearprint_machine::query::{Criteria, FoundBy, Verification};
use serde::Serialize;

use super::agreement::{Agreement, Least};
use super::explained::ComparisonExplanationReply;
use super::hex::Hex;

/// The reply of a comparison.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CompareReply {
    pub a: ComparedReply,
    pub b: ComparedReply,
    /// In how many of the 64 bits the two differ.
    #[cfg_attr(feature = "openapi", schema(example = 2))]
    pub distance: u8,
    /// About how much of the two texts agrees; null if one side has no text.
    pub similarity: Option<f64>,
    /// The estimated share of their numbers that both have, 0 to 1; null if one has no number.
    pub numbers: Option<f64>,
    /// Whether the similarity reaches `min_similarity`, and `numbers` reaches `min_numbers` where
    /// it is not null; null if there is no similarity.
    pub confirmed: Option<bool>,
    /// Whether a look-up of one would count the other as its near-duplicate.
    pub duplicate: bool,
    /// How a look-up of either finds the other; null if it does not.
    pub found_by: Option<FoundByReply>,
    /// What keeps the pair from counting; null if it counts.
    pub kept_apart_by: Option<KeptApartByReply>,
    /// With `"explain": true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub explanation: Option<ComparisonExplanationReply>,
}

impl CompareReply {
    /// A comparison by these criteria, with the thresholds that they have.
    pub fn new([a, b]: [&Document; 2], (criteria, least): (Criteria, Least)) -> Self {
        let distance = a.fingerprint.distance(b.fingerprint);
        let sketches = (a.sketch.as_deref(), b.sketch.as_deref());
        let verification = Verification::between(sketches.0, sketches.1, criteria.threshold);
        let found_by = FoundBy::of([a, b], criteria);
        let Agreement { similarity, numbers, confirmed } = Agreement::new(verification, least);
        let duplicate = found_by.is_some() && verification.counts(distance, a.short || b.short);
        let kept_apart_by = match (found_by, similarity) {
            _ if duplicate => None,
            (None, None) => Some(KeptApartByReply::Distance),
            (None, Some(_)) => Some(KeptApartByReply::Labels),
            (Some(_), None) => Some(KeptApartByReply::Length),
            (Some(_), Some(similarity)) if similarity < least.similarity => {
                Some(KeptApartByReply::Similarity)
            }
            (Some(_), Some(_)) => Some(KeptApartByReply::Numbers),
        };
        Self {
            a: a.into(),
            b: b.into(),
            distance: distance.get(),
            similarity,
            numbers,
            confirmed,
            duplicate,
            found_by: found_by.map(FoundByReply::from),
            kept_apart_by,
            explanation: None,
        }
    }
}

/// How a look-up of one document finds another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", schema(as = FoundBy))]
pub enum FoundByReply {
    /// The fingerprints are within the distance.
    Distance,
    /// The texts share a label.
    Likely,
}

impl From<FoundBy> for FoundByReply {
    fn from(found_by: FoundBy) -> Self {
        match found_by {
            FoundBy::Distance => Self::Distance,
            FoundBy::Likely => Self::Likely,
        }
    }
}

/// What keeps two documents from counting as near-duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", schema(as = KeptApartBy))]
pub enum KeptApartByReply {
    /// They are farther apart than the distance, and are not both texts that are compared.
    Distance,
    /// They are farther apart than the distance, and no look-up compares the texts: they share no
    /// label, or the search is exact.
    Labels,
    /// Their similarity is too small.
    Similarity,
    /// Too few of their numbers agree.
    Numbers,
    /// One is too short to count at a distance above 0, and nothing else could be compared.
    Length,
}

/// One side of a comparison.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ComparedReply {
    pub fingerprint: Hex,
    pub short: bool,
}

impl From<&Document> for ComparedReply {
    fn from(side: &Document) -> Self {
        Self { fingerprint: side.fingerprint.into(), short: side.short }
    }
}
