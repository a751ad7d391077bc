//! The JSON of the replies. [`crate::http::request::types`] declares the requests.

use std::borrow::Cow;

use nearprint_engine::document::{Document, Expiry};
use nearprint_engine::{Findings, Verdict, Written};
use nearprint_fingerprint::Fingerprint;
use nearprint_machine::query::{self, Criteria, FoundBy, Verification};
use nearprint_text::Recipe;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::http::budget::{Shorten, halve};
use crate::http::reply::agreement::{Agreement, Least, numbers_differ};
use crate::http::reply::documents::as_json;
use crate::http::reply::explained::{
    BitReply, ComparisonExplanationReply, ExplanationReply, differing_bits,
};
use crate::http::reply::hex::Hex;
use crate::http::reply::previous::PreviousReply;
use crate::http::request::prepare::Prepared;
use crate::http::request::reach::NamespaceAccess;

/// The reply of `/v1/fingerprint`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FingerprintReply {
    pub(crate) fingerprint: Hex,
    /// The exact rule that makes a fingerprint of a text; fingerprints of different recipes cannot
    /// be compared.
    #[schema(example = "np2")]
    pub(crate) recipe: String,
    /// How many distinct features the document has; null for a bare fingerprint.
    #[schema(example = 512)]
    pub(crate) features: Option<usize>,
    /// The document has too few words to be trusted at a distance above 0.
    pub(crate) short: bool,
    /// With `"explain": true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) explanation: Option<ExplanationReply>,
}

impl FingerprintReply {
    pub(crate) fn new(prepared: &Prepared, recipe: Recipe) -> Self {
        Self {
            fingerprint: prepared.document.fingerprint.into(),
            recipe: recipe.to_string(),
            features: prepared.features,
            short: prepared.document.short,
            explanation: prepared.explained.as_deref().map(ExplanationReply::from),
        }
    }
}

/// The reply of a query.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QueryReply<'a> {
    /// The fingerprint of the query.
    pub(crate) fingerprint: Hex,
    /// The query has too few words to be trusted at a distance above 0.
    pub(crate) short: bool,
    /// Whether a hit counts: it is confirmed, or it cannot be verified and is near enough.
    pub(crate) duplicate: bool,
    /// Those that count first, then by distance, age (oldest first) and fingerprint.
    pub(crate) hits: Vec<HitReply<'a>>,
    /// The number of stored fingerprints within the distance, and of those beyond it that a likely
    /// search has confirmed.
    pub(crate) hit_count: usize,
    /// Not all hits are listed: there are more than `limit`, or than fit into the reply, or the
    /// search ended at the first that counts.
    pub(crate) truncated: bool,
    /// How many fingerprints were left unverified, because there are too many; missing if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) unverified_matches: Option<usize>,
    /// With `"explain": true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) explanation: Option<ExplanationReply>,
}

impl<'a> QueryReply<'a> {
    pub(crate) fn new(prepared: &Prepared, findings: &'a Findings) -> Self {
        let query = prepared.document.fingerprint;
        let explained = prepared.explained.as_deref();
        let mut hits = hits(findings, prepared.least);
        if prepared.explain {
            for (reply, hit) in hits.iter_mut().zip(&findings.hits) {
                reply.differing_bits = Some(differing_bits(query, hit.fingerprint, explained));
            }
        }
        Self {
            fingerprint: query.into(),
            short: prepared.document.short,
            duplicate: findings.duplicate,
            hits,
            hit_count: findings.hit_count,
            truncated: findings.hit_count > findings.hits.len(),
            unverified_matches: unverified(findings),
            explanation: explained.map(ExplanationReply::from),
        }
    }
}

impl Shorten for QueryReply<'_> {
    fn halve(&mut self) -> bool {
        halve_hits(&mut self.hits, &mut self.truncated)
    }
}

impl Shorten for CheckAndInsertReply<'_> {
    fn halve(&mut self) -> bool {
        halve_hits(&mut self.hits, &mut self.truncated)
    }
}

impl Shorten for FingerprintReply {}
impl Shorten for CompareReply {}

fn halve_hits(hits: &mut Vec<HitReply<'_>>, truncated: &mut bool) -> bool {
    if halve(hits) {
        *truncated = true;
        return true;
    }
    // With metadata, the documents of a single hit may be too long; `document_count` counts them.
    hits.first_mut().is_some_and(|hit| halve(&mut hit.documents))
}

/// What a reply repeats of a document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) short: bool,
    /// The thresholds of its hits.
    pub(crate) least: Least,
}

impl From<&Prepared> for Subject {
    fn from(prepared: &Prepared) -> Self {
        Self {
            fingerprint: prepared.document.fingerprint,
            short: prepared.document.short,
            least: prepared.least,
        }
    }
}

/// One stored fingerprint near the query.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct HitReply<'a> {
    pub(crate) fingerprint: Hex,
    /// In how many bits it differs from the query.
    #[schema(example = 1)]
    pub(crate) distance: u8,
    /// About how much of the two texts agrees, 0 to 1, rounded down to 4 decimals; null if one side
    /// has no text.
    #[schema(example = 0.97)]
    pub(crate) similarity: Option<f64>,
    /// The estimated share of their numbers that both texts have, 0 to 1, rounded down to 4
    /// decimals; null if one of them has no number.
    #[schema(example = 0.9142)]
    pub(crate) numbers: Option<f64>,
    /// Whether the similarity reaches `min_similarity`, and `numbers` reaches `min_numbers` where
    /// it is not null; null if there is no similarity.
    pub(crate) confirmed: Option<bool>,
    /// Its documents with an id or metadata, oldest first, at most 10.
    pub(crate) documents: Vec<HitDocumentReply<'a>>,
    /// How many documents it has. Up to 1,000 are counted where some of them expire or are too old.
    pub(crate) document_count: u64,
    /// `true` if there are more than were counted; otherwise missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) document_count_is_at_least: bool,
    /// With `"explain": true`: the bits in which it differs, with their sums in the query.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) differing_bits: Option<Vec<BitReply>>,
}

pub(crate) fn hits(findings: &Findings, least: Least) -> Vec<HitReply<'_>> {
    let hits = findings.hits.iter();
    hits.map(|hit| HitReply::new(hit, least)).collect()
}

impl<'a> HitReply<'a> {
    pub(crate) fn into_owned(self) -> HitReply<'static> {
        let owned = |document: HitDocumentReply<'_>| HitDocumentReply {
            id: document.id.map(|id| id.into_owned().into()),
            metadata: document.metadata.map(|json| Cow::Owned(json.into_owned())),
            ..document
        };
        HitReply { documents: self.documents.into_iter().map(owned).collect(), ..self }
    }

    fn new(hit: &'a query::Hit, least: Least) -> Self {
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
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct HitDocumentReply<'a> {
    /// Null if it has none.
    pub(crate) id: Option<Cow<'a, str>>,
    /// When it was stored, in milliseconds since 1970.
    pub(crate) stored_at_ms: u64,
    /// When it expires, in seconds since 1970; missing if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) expires_at: Option<u32>,
    /// With `"include": ["metadata"]`; missing if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, serde_json::Value>>, nullable = false)]
    pub(crate) metadata: Option<Cow<'a, RawValue>>,
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

fn unverified(findings: &Findings) -> Option<usize> {
    Some(findings.unverified).filter(|&unverified| unverified > 0)
}

/// What a write did.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
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
    pub(crate) const fn name(self) -> &'static str {
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
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InsertReply {
    pub(crate) fingerprint: Hex,
    pub(crate) short: bool,
    pub(crate) outcome: Outcome,
    /// Whether the document is stored now.
    pub(crate) stored: bool,
    /// The number of the accepted change; if nothing changed, that of the last change before.
    /// Missing if the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 1042)]
    pub(crate) sequence: Option<u64>,
    /// The document that was stored under this id before; missing if the id is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) previous: Option<PreviousReply>,
}

impl InsertReply {
    pub(crate) fn new(
        subject: &Subject,
        (written, previous): (Written, Option<PreviousReply>),
        reach: &NamespaceAccess,
    ) -> Self {
        Self {
            fingerprint: subject.fingerprint.into(),
            short: subject.short,
            outcome: written.verdict.into(),
            stored: written.verdict.is_stored(),
            sequence: reach.sequence(written.sequence),
            previous,
        }
    }
}

/// The reply of a check-and-insert: that of a query, and the outcome.
#[derive(Debug, Serialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the answers of the contract")]
pub(crate) struct CheckAndInsertReply<'a> {
    pub(crate) outcome: Outcome,
    /// Whether the document is stored now.
    pub(crate) stored: bool,
    /// The number of the accepted change; if nothing changed, that of the last change before.
    /// Missing if the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = 1042)]
    pub(crate) sequence: Option<u64>,
    pub(crate) fingerprint: Hex,
    pub(crate) short: bool,
    /// Whether a hit counts.
    pub(crate) duplicate: bool,
    /// `true` if the document is not stored because of a text whose words agree and whose numbers
    /// do not (below 0.3), as of a form that is filled in differently; otherwise missing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) numbers_differ: bool,
    /// Those that count first, then by distance, age (oldest first) and fingerprint.
    pub(crate) hits: Vec<HitReply<'a>>,
    pub(crate) hit_count: usize,
    pub(crate) truncated: bool,
    /// How many fingerprints were left unverified, because there are too many; missing if none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) unverified_matches: Option<usize>,
    /// The document that was stored under this id before; missing if the id is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) previous: Option<PreviousReply>,
}

/// Whether a document is not stored although its numbers differ from those of the first hit, which
/// is the one that counts.
pub(crate) fn drops_other_numbers((findings, written): (&Findings, Written)) -> bool {
    let differ = |hit: &query::Hit| numbers_differ(hit.verification);
    !written.verdict.is_stored() && findings.hits.first().is_some_and(differ)
}

impl<'a> CheckAndInsertReply<'a> {
    pub(crate) fn new(
        subject: &Subject,
        (written, previous): (Written, Option<PreviousReply>),
        findings: &'a Findings,
        reach: &NamespaceAccess,
    ) -> Self {
        Self {
            outcome: written.verdict.into(),
            stored: written.verdict.is_stored(),
            sequence: reach.sequence(written.sequence),
            fingerprint: subject.fingerprint.into(),
            short: subject.short,
            duplicate: findings.duplicate,
            numbers_differ: drops_other_numbers((findings, written)),
            hits: hits(findings, subject.least),
            hit_count: findings.hit_count,
            truncated: findings.hit_count > findings.hits.len(),
            unverified_matches: unverified(findings),
            previous,
        }
    }
}

/// The reply of a packed insert.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PackedInsertReply {
    /// How many fingerprints the body had.
    pub(crate) received: u64,
    /// How many were stored: all of them, because they have no ids.
    pub(crate) inserted: u64,
    pub(crate) stored: bool,
    /// The number of the last change; missing if the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) sequence: Option<u64>,
}

/// The reply of a comparison.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CompareReply {
    pub(crate) a: ComparedReply,
    pub(crate) b: ComparedReply,
    /// In how many of the 64 bits the two differ.
    #[schema(example = 2)]
    pub(crate) distance: u8,
    /// About how much of the two texts agrees; null if one side has no text.
    pub(crate) similarity: Option<f64>,
    /// The estimated share of their numbers that both have, 0 to 1; null if one has no number.
    pub(crate) numbers: Option<f64>,
    /// Whether the similarity reaches `min_similarity`, and `numbers` reaches `min_numbers` where
    /// it is not null; null if there is no similarity.
    pub(crate) confirmed: Option<bool>,
    /// Whether a look-up of one would count the other as its near-duplicate.
    pub(crate) duplicate: bool,
    /// How a look-up of either finds the other; null if it does not.
    pub(crate) found_by: Option<FoundByReply>,
    /// What keeps the pair from counting; null if it counts.
    pub(crate) kept_apart_by: Option<KeptApartByReply>,
    /// With `"explain": true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) explanation: Option<ComparisonExplanationReply>,
}

impl CompareReply {
    /// A comparison by these criteria, with the thresholds that they have.
    pub(crate) fn new([a, b]: [&Document; 2], (criteria, least): (Criteria, Least)) -> Self {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = FoundBy)]
pub(crate) enum FoundByReply {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = KeptApartBy)]
pub(crate) enum KeptApartByReply {
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
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ComparedReply {
    pub(crate) fingerprint: Hex,
    pub(crate) short: bool,
}

impl From<&Document> for ComparedReply {
    fn from(side: &Document) -> Self {
        Self { fingerprint: side.fingerprint.into(), short: side.short }
    }
}

/// One snapshot on disk.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SnapshotReply {
    /// The last change it contains.
    sequence: u64,
    /// When it was taken, in milliseconds since 1970.
    taken_at_ms: u64,
    bytes: u64,
    documents: u64,
}

impl From<nearprint_engine::SnapshotInfo> for SnapshotReply {
    fn from(snapshot: nearprint_engine::SnapshotInfo) -> Self {
        Self {
            sequence: snapshot.sequence.get(),
            taken_at_ms: snapshot.taken_at_ms,
            bytes: snapshot.bytes,
            documents: snapshot.documents,
        }
    }
}

/// The snapshots on disk.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SnapshotsReply {
    /// Newest first.
    pub(crate) snapshots: Vec<SnapshotReply>,
}

/// The reply of `/healthz`, `/readyz` and `/readyz/writes`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HealthReply {
    #[schema(example = "ready")]
    pub(crate) status: &'static str,
    /// Of a follower: how long ago it had everything that its primary has. Of a node: how far it is
    /// behind the end of the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) lag_ms: Option<u64>,
}
