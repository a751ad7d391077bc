//! The fields of the service's replies that the command line reads.

use serde::Deserialize;
use serde_json::Value;

use super::client::ProblemReply;

/// The reply to a query or a write.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reply {
    /// The fingerprint of the document that was sent.
    pub(super) fingerprint: String,
    /// The text was too short to trust a distance above 0.
    pub(super) short: bool,
    /// `inserted`, `duplicate`, `already_present`, `replaced`, `refreshed`; empty for a query.
    pub(super) outcome: String,
    /// Whether the document is stored now.
    pub(super) stored: bool,
    /// The last change of the collection; 0 for a query.
    pub(super) sequence: u64,
    /// Stored fingerprints near it, nearest first.
    pub(super) hits: Vec<HitReply>,
    /// The number of hits, listed or not.
    pub(super) hit_count: u64,
    /// The line was refused.
    pub(super) error: Option<ProblemReply>,
}

/// A stored fingerprint near the document.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HitReply {
    pub(super) fingerprint: String,
    pub(super) distance: u8,
    pub(super) similarity: Option<f64>,
    pub(super) confirmed: Option<bool>,
    /// Documents with this fingerprint and an id or metadata, oldest first.
    pub(super) documents: Vec<HitDocumentReply>,
    /// The number of documents, listed or not.
    pub(super) document_count: u64,
}

/// A stored document with the fingerprint of a hit.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HitDocumentReply {
    pub(super) id: Option<String>,
    pub(super) stored_at_ms: u64,
    /// The second since 1970 from when on it is no hit.
    pub(super) expires_at: Option<u64>,
    /// As it was stored, if it was asked for.
    pub(super) metadata: Option<Value>,
}

impl HitReply {
    /// The id of the oldest document that has one, or else the fingerprint.
    pub(super) fn name(&self) -> &str {
        let id = self.documents.iter().find_map(|document| document.id.as_deref());
        id.unwrap_or(&self.fingerprint)
    }

    /// Whether the hit makes a duplicate of a document that is `short` or not: the rule of
    /// [`nearprint_engine::machine::query::Verification::counts`], as it can be read off the wire.
    pub(super) fn counts(&self, short: bool) -> bool {
        self.confirmed.unwrap_or(!short || self.distance == 0)
    }
}
