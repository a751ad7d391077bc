//! An answer as its receiver takes it, whatever was asked.

use std::borrow::Cow;

use super::hex::Hex;
use super::look_up::{
    CheckAndInsertReply, FingerprintReply, HitReply, InsertReply, Outcome, PreviousReply,
    QueryReply,
};
use super::problem::ProblemReply;

/// The answer to a look-up or a write of one document.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the fields of the API")]
pub struct Answer {
    /// The fingerprint of the document that was sent; only an error has none.
    pub fingerprint: Option<Hex>,
    /// The text was too short to trust a distance above 0.
    pub short: bool,
    /// What a write did; `None` for a look-up.
    pub outcome: Option<Outcome>,
    /// Whether the document is stored now.
    pub stored: bool,
    /// The last change of the collection; not for a look-up, nor with a token that is limited to
    /// namespaces.
    pub sequence: Option<u64>,
    /// Whether a hit counts.
    pub duplicate: bool,
    /// Stored fingerprints near it, nearest first.
    pub hits: Vec<HitReply<'static>>,
    /// The number of hits, listed or not.
    pub hit_count: u64,
    /// It was not stored because of a text whose numbers differ.
    pub numbers_differ: bool,
    /// The document that the id had before.
    pub previous: Option<PreviousReply>,
    /// Why the document was refused.
    pub error: Option<ProblemReply<'static>>,
}

impl From<FingerprintReply> for Answer {
    fn from(reply: FingerprintReply) -> Self {
        Self { fingerprint: Some(reply.fingerprint), short: reply.short, ..Self::default() }
    }
}

impl From<QueryReply<'_>> for Answer {
    fn from(reply: QueryReply<'_>) -> Self {
        Self {
            fingerprint: Some(reply.fingerprint),
            short: reply.short,
            duplicate: reply.duplicate,
            hits: reply.hits.into_iter().map(HitReply::into_owned).collect(),
            hit_count: reply.hit_count as u64,
            ..Self::default()
        }
    }
}

impl From<InsertReply> for Answer {
    fn from(reply: InsertReply) -> Self {
        Self {
            fingerprint: Some(reply.fingerprint),
            short: reply.short,
            outcome: Some(reply.outcome),
            stored: reply.stored,
            sequence: reply.sequence,
            previous: reply.previous,
            ..Self::default()
        }
    }
}

impl From<CheckAndInsertReply<'_>> for Answer {
    fn from(reply: CheckAndInsertReply<'_>) -> Self {
        Self {
            fingerprint: Some(reply.fingerprint),
            short: reply.short,
            outcome: Some(reply.outcome),
            stored: reply.stored,
            sequence: reply.sequence,
            duplicate: reply.duplicate,
            hits: reply.hits.into_iter().map(HitReply::into_owned).collect(),
            hit_count: reply.hit_count as u64,
            numbers_differ: reply.numbers_differ,
            previous: reply.previous,
            error: None,
        }
    }
}

impl From<ProblemReply<'_>> for Answer {
    fn from(problem: ProblemReply<'_>) -> Self {
        Self { error: Some(problem.into_owned()), ..Self::default() }
    }
}

impl HitReply<'_> {
    /// The id of the oldest document that has one, or else the fingerprint.
    pub fn name(&self) -> Cow<'_, str> {
        let id = self.documents.iter().find_map(|document| document.id.as_deref());
        id.map_or_else(|| self.fingerprint.to_string().into(), Cow::Borrowed)
    }

    /// Whether the hit makes a duplicate of a document that is `short` or not: the rule of
    /// [`nearprint_machine::query::Verification::counts`], as it can be read off the wire.
    pub fn counts(&self, short: bool) -> bool {
        self.confirmed.unwrap_or(!short || self.distance == 0)
    }
}
