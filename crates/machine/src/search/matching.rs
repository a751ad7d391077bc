//! Matches: the documents of a fingerprint, and the order in which their sketches are compared.

use nearprint_fingerprint::{Distance, Fingerprint, Sample, Sketch, Threshold};
use nearprint_index::levels::posting::Posting;
use nearprint_index::view::{DocumentCounts, Located, Near, View};
use nearprint_index::visibility::Visibility;

use super::probe::Probe;
use crate::document::Sequence;
use crate::query::Verification;

/// A stored fingerprint within the distance, or one that a likely search found and a sketch
/// confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    pub fingerprint: Fingerprint,
    pub distance: Distance,
    pub oldest: Sequence,
    /// How many documents it has, the probe's own included.
    pub counts: DocumentCounts,
    pub verification: Verification,
    /// Whether its documents were visited: `oldest` and `counts` are known, and whether there is a
    /// sketch to verify.
    pub(super) is_visited: bool,
    /// When it was confirmed.
    pub(super) stage: Stage,
    /// Some of its sketches were not compared, because there are too many.
    pub(super) is_left: bool,
}

impl Match {
    /// The order of verification: the likeliest first.
    pub(super) fn likeliness(&self) -> (Distance, Fingerprint) {
        (self.distance, self.fingerprint)
    }
}

/// When the sketch of a document is compared: the documents most likely to be confirmed first, so
/// that a search may end early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Its fingerprint and its sample, with a digest of the sketch, are those of the probe: it is
    /// an identical text. So that is found among any number of texts with the same fingerprint.
    Identical,
    /// Its sample does not refute it.
    MayReach,
    /// Its sample refutes it, which is wrong for one near-duplicate in a thousand.
    Rest,
    /// A likely search found it, and its sample does not refute it.
    Likely,
}

/// Makes matches of what a look-up finds.
pub(super) struct Matching<'a> {
    view: &'a View,
    own: Option<Located>,
    visibility: Visibility,
    /// `None` if nothing can be verified.
    pub(super) verifier: Option<Verifier<'a>>,
    all_hits: bool,
}

impl<'a> Matching<'a> {
    pub(super) fn new(
        view: &'a View,
        probe: &Probe<'a>,
        own: Option<Located>,
        visibility: Visibility,
    ) -> Self {
        let verifier = Verifier::of(probe).filter(|_| view.may_have_sketches());
        Self { view, own, visibility, verifier, all_hits: probe.criteria.all_hits }
    }

    /// The match of a fingerprint that a look-up found, not verified yet; `None` if it has no
    /// visible document but the probe's own. Visits its documents if all hits are wanted.
    pub(super) fn found(&self, near: Near) -> Option<Match> {
        let is_own =
            self.own.is_some_and(|own| own.masked == self.visibility.masked(near.fingerprint));
        if self.all_hits || is_own { self.visited(near) } else { Some(self.unvisited(near)) }
    }

    pub(super) fn visited(&self, near: Near) -> Option<Match> {
        let mut found = self.unvisited(near);
        self.visit(&mut found);
        (found.oldest > Sequence::ZERO).then_some(found)
    }

    pub(super) fn unvisited(&self, near: Near) -> Match {
        let Near { fingerprint, distance } = near;
        let verifies = self.verifier.is_some();
        Match {
            fingerprint,
            distance,
            oldest: Sequence::ZERO,
            counts: DocumentCounts::default(),
            verification: if verifies { Verification::Unread } else { Verification::Unverifiable },
            is_visited: false,
            stage: if distance == Distance::ZERO { Stage::Identical } else { Stage::MayReach },
            is_left: false,
        }
    }

    /// Visits the documents of a match, unless that was done.
    pub(super) fn visit(&self, found: &mut Match) {
        if found.is_visited {
            return;
        }
        found.is_visited = true;
        found.counts = self.view.document_counts(found.fingerprint, &self.visibility);
        // Stops at the last document without searching for another.
        let count = usize::try_from(found.counts.documents).unwrap_or(usize::MAX);
        let mut others = self.others(found.fingerprint).take(count);
        let Some(oldest) = others.next() else { return };
        found.oldest = oldest.sequence;
        let is_unread = found.verification == Verification::Unread;
        if is_unread && oldest.sample.is_none() && !others.any(|posting| posting.sample.is_some()) {
            found.verification = Verification::Unverifiable;
        }
    }

    pub(super) fn others(&self, fingerprint: Fingerprint) -> impl Iterator<Item = Posting> + '_ {
        others(self.view, fingerprint, self.own, self.visibility)
    }
}

/// The visible documents of a fingerprint except the probe's own, oldest first.
pub fn others(
    view: &View,
    fingerprint: Fingerprint,
    own: Option<Located>,
    visibility: Visibility,
) -> impl Iterator<Item = Posting> + '_ {
    let own = own.filter(|own| own.masked == visibility.masked(fingerprint)).map(|own| own.posting);
    view.documents_of(fingerprint, visibility).filter(move |posting| Some(*posting) != own)
}

/// Compares stored sketches with the probe's.
pub(super) struct Verifier<'a> {
    sketch: &'a Sketch,
    sample: Sample,
    /// What confirms a text.
    pub(super) threshold: Threshold,
}

impl<'a> Verifier<'a> {
    pub(super) fn of(probe: &Probe<'a>) -> Option<Self> {
        let threshold = probe.criteria.threshold?;
        let sketch = probe.document.sketch.as_deref()?;
        Some(Self { sketch, sample: sketch.sample(), threshold })
    }

    /// When the sketch of a document at a distance is compared; `None` if it has none.
    pub(super) fn stage(&self, posting: &Posting, distance: Distance) -> Option<Stage> {
        let sample = posting.sample?;
        Some(if distance == Distance::ZERO && sample == self.sample {
            Stage::Identical
        } else if self.sample.may_reach(sample, self.threshold.resemblance) {
            Stage::MayReach
        } else {
            Stage::Rest
        })
    }

    /// The same for what a likely search found: its sample must not refute it.
    pub(super) fn stage_of_likely(&self, posting: &Posting) -> Option<Stage> {
        let may_reach = self.sample.may_reach(posting.sample?, self.threshold.resemblance);
        may_reach.then_some(Stage::Likely)
    }
}

impl Match {
    /// Takes the sketch of one of its documents into account.
    pub(super) fn compare(&mut self, verifier: &Verifier<'_>, stored: &Sketch, stage: Stage) {
        // Another document of its fingerprint may have led to it.
        if stage == Stage::Likely && !stored.shares_label(verifier.sketch) {
            return;
        }
        let threshold = Some(verifier.threshold);
        let of_document = Verification::between(Some(verifier.sketch), Some(stored), threshold);
        let is_confirmed = self.verification.is_confirmed();
        if of_document.is_confirmed() {
            // A search compares no more of a fingerprint once a document is confirmed.
            if !is_confirmed || stage < self.stage {
                (self.stage, self.verification) = (stage, of_document);
            }
        } else if !is_confirmed {
            self.verification = self.verification.better(of_document);
        }
    }
}
