//! The answers to look-ups and writes.

use std::borrow::Cow;

use nearprint_machine::commands::Verdict;
use nearprint_machine::document::Expiry;
use nearprint_machine::query;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::agreement::{Agreement, Least};
use super::documents::as_json;
use super::explained::{BitReply, ExplanationReply};
use super::hex::Hex;

/// The reply of `/v1/fingerprint`.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FingerprintReply {
    pub fingerprint: Hex,
    /// The exact rule that makes a fingerprint of a text; fingerprints of different recipes cannot
    /// be compared.
    #[cfg_attr(feature = "openapi", schema(example = "np2"))]
    pub recipe: String,
    /// How many distinct features the document has; null for a bare fingerprint.
    #[cfg_attr(feature = "openapi", schema(example = 512))]
    pub features: Option<usize>,
    /// The document has too few words to be trusted at a distance above 0.
    pub short: bool,
    /// With `"explain": true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub explanation: Option<ExplanationReply>,
}

/// The reply of a query.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct QueryReply<'a> {
    /// The fingerprint of the query.
    pub fingerprint: Hex,
    /// The query has too few words to be trusted at a distance above 0.
    pub short: bool,
    /// Whether a hit counts: it is confirmed, or it cannot be verified and is near enough.
    pub duplicate: bool,
    /// Those that count first, then by distance, age (oldest first) and fingerprint.
    pub hits: Vec<HitReply<'a>>,
    /// The number of stored fingerprints within the distance, and of those beyond it that a likely
    /// search has confirmed.
    pub hit_count: usize,
    /// Not all hits are listed: there are more than `limit`, or than fit into the reply, or the
    /// search ended at the first that counts.
    pub truncated: bool,
    /// How many fingerprints were left unverified, because there are too many; missing if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub unverified_matches: Option<usize>,
    /// With `"explain": true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub explanation: Option<ExplanationReply>,
}

/// One stored fingerprint near the query.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HitReply<'a> {
    pub fingerprint: Hex,
    /// In how many bits it differs from the query.
    #[cfg_attr(feature = "openapi", schema(example = 1))]
    pub distance: u8,
    /// About how much of the two texts agrees, 0 to 1, rounded down to 4 decimals; null if one side
    /// has no text.
    #[cfg_attr(feature = "openapi", schema(example = 0.97))]
    pub similarity: Option<f64>,
    /// The estimated share of their numbers that both texts have, 0 to 1, rounded down to 4
    /// decimals; null if one of them has no number.
    #[cfg_attr(feature = "openapi", schema(example = 0.9142))]
    pub numbers: Option<f64>,
    /// Whether the similarity reaches `min_similarity`, and `numbers` reaches `min_numbers` where
    /// it is not null; null if there is no similarity.
    pub confirmed: Option<bool>,
    /// Its documents with an id or metadata, oldest first, at most 10.
    pub documents: Vec<HitDocumentReply<'a>>,
    /// How many documents it has. Up to 1,000 are counted where some of them expire or are too old.
    pub document_count: u64,
    /// `true` if there are more than were counted; otherwise missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub document_count_is_at_least: bool,
    /// With `"explain": true`: the bits in which it differs, with their sums in the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub differing_bits: Option<Vec<BitReply>>,
}

impl<'a> HitReply<'a> {
    pub fn into_owned(self) -> HitReply<'static> {
        let owned = |document: HitDocumentReply<'_>| HitDocumentReply {
            id: document.id.map(|id| id.into_owned().into()),
            metadata: document.metadata.map(|json| Cow::Owned(json.into_owned())),
            ..document
        };
        HitReply { documents: self.documents.into_iter().map(owned).collect(), ..self }
    }

    pub fn new(hit: &'a query::Hit, least: Least) -> Self {
        let Agreement { similarity, numbers, confirmed } = Agreement::new(hit.verification, least);
        Self {
            fingerprint: hit.fingerprint.into(),
            distance: hit.distance.get(),
            similarity,
            numbers,
            confirmed,
            documents: hit.documents.iter().map(HitDocumentReply::from).collect(),
            document_count: hit.document_count,
            document_count_is_at_least: hit.document_count_is_at_least,
            differing_bits: None,
        }
    }
}

/// A document of a hit.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HitDocumentReply<'a> {
    /// Null if it has none.
    pub id: Option<Cow<'a, str>>,
    /// When it was stored, in milliseconds since 1970.
    pub stored_at_ms: u64,
    /// When it expires, in seconds since 1970; missing if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub expires_at: Option<u32>,
    /// With `"include": ["metadata"]`; missing if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, serde_json::Value>>, nullable = false))]
    pub metadata: Option<Cow<'a, RawValue>>,
}

impl<'a> From<&'a query::HitDocument> for HitDocumentReply<'a> {
    fn from(document: &'a query::HitDocument) -> Self {
        Self {
            id: document.id.as_ref().map(|id| id.as_str().into()),
            stored_at_ms: document.stored_at_ms,
            expires_at: document.expiry.map(Expiry::second),
            metadata: document.metadata.as_ref().and_then(as_json),
        }
    }
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing near it was stored (for a plain insert: its id was new).
    Inserted,
    /// A near-duplicate of another document.
    Duplicate,
    /// This id was stored with this fingerprint already: a retry.
    AlreadyPresent,
    /// This id was stored with this fingerprint already; its expiry, metadata and age are new.
    Refreshed,
    /// This id was stored with another fingerprint, which the new one replaced.
    Replaced,
}

impl Outcome {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inserted => "inserted",
            Self::Duplicate => "duplicate",
            Self::AlreadyPresent => "already_present",
            Self::Refreshed => "refreshed",
            Self::Replaced => "replaced",
        }
    }
}

impl From<Verdict> for Outcome {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Inserted => Self::Inserted,
            Verdict::Duplicate { .. } => Self::Duplicate,
            Verdict::AlreadyPresent => Self::AlreadyPresent,
            Verdict::Refreshed => Self::Refreshed,
            Verdict::Replaced => Self::Replaced,
        }
    }
}

/// The reply of an insert.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct InsertReply {
    pub fingerprint: Hex,
    pub short: bool,
    pub outcome: Outcome,
    /// Whether the document is stored now.
    pub stored: bool,
    /// The number of the accepted change; if nothing changed, that of the last change before.
    /// Missing if the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false, example = 1042))]
    pub sequence: Option<u64>,
    /// The document that was stored under this id before; missing if the id is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub previous: Option<PreviousReply>,
}

/// The reply of a check-and-insert: that of a query, and the outcome.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[expect(clippy::struct_excessive_bools, reason = "the answers of the contract")]
pub struct CheckAndInsertReply<'a> {
    pub outcome: Outcome,
    /// Whether the document is stored now.
    pub stored: bool,
    /// The number of the accepted change; if nothing changed, that of the last change before.
    /// Missing if the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false, example = 1042))]
    pub sequence: Option<u64>,
    pub fingerprint: Hex,
    pub short: bool,
    /// Whether a hit counts.
    pub duplicate: bool,
    /// `true` if the document is not stored because of a text whose words agree and whose numbers
    /// do not (below 0.3), as of a form that is filled in differently; otherwise missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub numbers_differ: bool,
    /// Those that count first, then by distance, age (oldest first) and fingerprint.
    pub hits: Vec<HitReply<'a>>,
    pub hit_count: usize,
    pub truncated: bool,
    /// How many fingerprints were left unverified, because there are too many; missing if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub unverified_matches: Option<usize>,
    /// The document that was stored under this id before; missing if the id is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub previous: Option<PreviousReply>,
}

/// The reply of a packed insert.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PackedInsertReply {
    /// How many fingerprints the body had.
    pub received: u64,
    /// How many were stored: all of them, because they have no ids.
    pub inserted: u64,
    pub stored: bool,
    /// The number of the last change; missing if the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub sequence: Option<u64>,
}

/// The document that was stored under this id before, compared with the one that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Previous))]
pub struct PreviousReply {
    /// In how many bits its fingerprint differs.
    #[cfg_attr(feature = "openapi", schema(example = 2))]
    pub distance: u8,
    /// About how much of the two texts agrees, 0 to 1, rounded down to 4 decimals; null if one of
    /// them came without text.
    #[cfg_attr(feature = "openapi", schema(example = 0.97))]
    pub similarity: Option<f64>,
    /// The estimated share of their numbers that both have, 0 to 1; null if one has no number.
    pub numbers: Option<f64>,
    /// When it was stored, in milliseconds since 1970.
    pub stored_at_ms: u64,
}
