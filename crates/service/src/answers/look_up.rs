//! The answers to look-ups and writes.

use nearprint_engine::{Findings, Previous, Written};
use nearprint_fingerprint::Fingerprint;
use nearprint_machine::query;
use nearprint_text::Recipe;
use nearprint_wire::answer::{
    CheckAndInsertReply, CompareReply, ExplanationReply, FingerprintReply, HitReply, InsertReply,
    Least, PreviousReply, QueryReply, differing_bits, numbers_differ, numbers_shown, similarity,
};

use crate::callers::AllowedNamespaces;
use crate::limits::budget::{Shorten, halve};
use crate::prepare::Prepared;

/// What a reply repeats of a document.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// It has too few words to be trusted at a distance above 0.
    pub short: bool,
    /// The thresholds of its hits.
    pub least: Least,
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

/// A fingerprint that is only shown.
pub fn fingerprint(prepared: &Prepared, recipe: Recipe) -> FingerprintReply {
    FingerprintReply {
        fingerprint: prepared.document.fingerprint.into(),
        recipe: recipe.to_string(),
        features: prepared.features,
        short: prepared.document.short,
        explanation: prepared.explained.as_deref().map(ExplanationReply::from),
    }
}

/// The answer to a look-up.
pub fn query<'f>(prepared: &Prepared, findings: &'f Findings) -> QueryReply<'f> {
    let query = prepared.document.fingerprint;
    let explained = prepared.explained.as_deref();
    let mut hits = hits(findings, prepared.least);
    if prepared.explain {
        for (reply, hit) in hits.iter_mut().zip(&findings.hits) {
            reply.differing_bits = Some(differing_bits(query, hit.fingerprint, explained));
        }
    }
    QueryReply {
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

/// The answer to an insert.
pub fn insert(
    subject: &Subject,
    (written, previous): (Written, Option<PreviousReply>),
    reach: &AllowedNamespaces,
) -> InsertReply {
    InsertReply {
        fingerprint: subject.fingerprint.into(),
        short: subject.short,
        outcome: written.verdict.into(),
        stored: written.verdict.is_stored(),
        sequence: reach.sequence(written.sequence),
        previous,
    }
}

/// The answer to a check-and-insert.
pub fn check_and_insert<'f>(
    subject: &Subject,
    (written, previous): (Written, Option<PreviousReply>),
    findings: &'f Findings,
    reach: &AllowedNamespaces,
) -> CheckAndInsertReply<'f> {
    CheckAndInsertReply {
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

/// The document that an id had before.
pub fn previous(previous: &Previous) -> PreviousReply {
    PreviousReply {
        distance: previous.distance.get(),
        similarity: previous.resemblance.map(|resemblance| similarity(resemblance, 0.0)),
        numbers: previous.numbers.map(|numbers| numbers_shown(numbers, 0.0)),
        stored_at_ms: previous.stored_at_ms,
    }
}

fn hits(findings: &Findings, least: Least) -> Vec<HitReply<'_>> {
    findings.hits.iter().map(|hit| HitReply::new(hit, least)).collect()
}

fn unverified(findings: &Findings) -> Option<usize> {
    Some(findings.unverified).filter(|&unverified| unverified > 0)
}

/// Whether a document is not stored although its numbers differ from those of the first hit, which
/// is the one that counts.
fn drops_other_numbers((findings, written): (&Findings, Written)) -> bool {
    let differ = |hit: &query::Hit| numbers_differ(hit.verification);
    !written.verdict.is_stored() && findings.hits.first().is_some_and(differ)
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
