//! The fields of the service's replies that the command line reads.

use std::borrow::Cow;

use nearprint_engine::PreviousUnread;
use serde::Deserialize;

use super::collection::ProblemReply;
use crate::http::batch::direct::DirectOutcome;
use crate::http::problem::Problem;
use crate::http::reply::previous::PreviousReply;
use crate::http::reply::wire::{self, HitReply, Outcome};

/// The reply to a query or a write.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "the fields of the API")]
pub(super) struct Reply {
    /// The fingerprint of the document that was sent.
    pub(super) fingerprint: String,
    /// The text was too short to trust a distance above 0.
    pub(super) short: bool,
    /// `inserted`, `duplicate`, `already_present`, `replaced`, `refreshed`; empty for a query.
    pub(super) outcome: String,
    /// Whether the document is stored now.
    pub(super) stored: bool,
    /// The last change of the collection; not for a query, nor with a token that is limited to
    /// namespaces.
    pub(super) sequence: Option<u64>,
    /// Whether a hit counts.
    pub(super) duplicate: bool,
    /// Stored fingerprints near it, nearest first.
    pub(super) hits: Vec<HitReply<'static>>,
    /// The number of hits, listed or not.
    pub(super) hit_count: u64,
    /// It was not stored because of a text whose numbers differ.
    pub(super) numbers_differ: bool,
    /// The document that the id had before; [`Self::take_previous`] has it in any case.
    pub(super) previous: Option<PreviousReply>,
    /// The same in a data directory, where it costs a read of its own.
    #[serde(skip)]
    pub(super) unread: Option<Box<PreviousUnread>>,
    /// The line was refused.
    pub(super) error: Option<ProblemReply>,
}

impl Reply {
    /// Whether it says nothing about a document: the service gives no such reply.
    pub(super) fn is_blank(&self) -> bool {
        self.fingerprint.is_empty() && self.outcome.is_empty() && self.error.is_none()
    }

    /// The document that the id had before.
    pub(super) fn take_previous(&mut self) -> Option<PreviousReply> {
        let unread = self.unread.take();
        self.previous.or_else(|| unread?.read_now().map(PreviousReply::from))
    }
}

impl From<Result<DirectOutcome, Problem>> for Reply {
    fn from(outcome: Result<DirectOutcome, Problem>) -> Self {
        let DirectOutcome { subject, written, previous, findings } = match outcome {
            Ok(outcome) => outcome,
            Err(problem) => return Self { error: Some((&problem).into()), ..Self::default() },
        };
        let hits = findings.iter().flat_map(|found| wire::hits(found, subject.least));
        Self {
            fingerprint: subject.fingerprint.to_string(),
            short: subject.short,
            outcome: written.map_or("", |written| Outcome::from(written.verdict).name()).to_owned(),
            stored: written.is_some_and(|written| written.verdict.is_stored()),
            sequence: written.map(|written| written.sequence.get()),
            duplicate: findings.as_ref().is_some_and(|found| found.duplicate),
            hits: hits.map(HitReply::into_owned).collect(),
            hit_count: findings.as_ref().map_or(0, |found| found.hit_count as u64),
            numbers_differ: findings.as_ref().zip(written).is_some_and(wire::drops_other_numbers),
            previous: None,
            unread: previous,
            error: None,
        }
    }
}

impl HitReply<'_> {
    /// The id of the oldest document that has one, or else the fingerprint.
    pub(super) fn name(&self) -> Cow<'_, str> {
        let id = self.documents.iter().find_map(|document| document.id.as_deref());
        id.map_or_else(|| self.fingerprint.to_string().into(), Cow::Borrowed)
    }

    /// Whether the hit makes a duplicate of a document that is `short` or not: the rule of
    /// [`nearprint_machine::query::Verification::counts`], as it can be read off the wire.
    pub(super) fn counts(&self, short: bool) -> bool {
        self.confirmed.unwrap_or(!short || self.distance == 0)
    }
}
