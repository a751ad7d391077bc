//! Finding the matches of a document and verifying them by their sketches.

use std::cmp::Reverse;

use crate::document::{Document, Sequence};
use crate::fingerprint::{Distance, Fingerprint};
use crate::index::levels::delta::DeltaEvent;
use crate::index::levels::ids::IdKey;
use crate::index::levels::posting::Posting;
use crate::index::scope::{NamespaceKey, Scope};
use crate::index::view::{DocumentCounts, Located, Near, View};
use crate::machine::query::{Criteria, Verification};
use crate::sketch::Sketch;

/// The maximum number of documents of one fingerprint, oldest first, whose sketches are compared.
pub(crate) const DOCUMENTS_COMPARED_MAX: usize = 16;

/// The maximum number of matches of one look-up that are verified, the nearest and oldest first.
pub(crate) const MATCHES_VERIFIED_MAX: usize = 256;

/// The maximum number of matches that a search keeps, the nearest and oldest first; it only counts
/// the others. So a search takes 90 KiB at most, and its first thousand hits are right even if
/// verification moves every match that it refutes to the end.
pub(crate) const MATCHES_KEPT_MAX: usize = MATCHES_VERIFIED_MAX + 1_000;

/// A document to look up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe<'a> {
    /// The document.
    pub document: &'a Document,
    /// The key of its id: the stored document with this id is no match.
    pub key: Option<IdKey>,
    /// Its namespace.
    pub namespace: Option<NamespaceKey>,
    /// What counts as a near-duplicate.
    pub criteria: Criteria,
    /// When it is looked up, in milliseconds since 1970.
    pub at_ms: u64,
}

impl<'a> Probe<'a> {
    /// The probe of a document, in a directory with this secret.
    pub(crate) fn new(
        document: &'a Document,
        criteria: Criteria,
        at_ms: u64,
        secret: &[u8; 16],
    ) -> Self {
        let namespace = document.namespace.as_ref();
        let key = document.id.as_ref().map(|id| IdKey::of(id.as_str(), namespace, secret));
        let namespace = namespace.map(|namespace| NamespaceKey::of(namespace, secret));
        Self { document, key, namespace, criteria, at_ms }
    }

    fn scope(&self, view: &View) -> Scope {
        view.scope(self.namespace, self.at_ms, self.criteria.max_age_s)
    }
}

/// A stored fingerprint within the distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Match {
    /// The fingerprint.
    pub fingerprint: Fingerprint,
    /// Its distance.
    pub distance: Distance,
    /// Its oldest document.
    pub oldest: Sequence,
    /// How many documents it has, the probe's own included.
    pub counts: DocumentCounts,
    /// Whether one of the documents to compare has a sketch.
    pub has_sketch: bool,
    /// Whether the sketches agree.
    pub verification: Verification,
    /// How many of its documents the verification has considered.
    considered: usize,
}

/// The matches of a probe, as of a sequence, in the order in which hits are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Search {
    /// The last change that it has seen.
    pub since: Sequence,
    /// The documents that it has seen.
    pub scope: Scope,
    /// The document with the probe's id at that time, whatever its age.
    pub own: Option<Located>,
    /// The matches: those that count first, then by distance, age, fingerprint; at most
    /// [`MATCHES_KEPT_MAX`].
    pub matches: Vec<Match>,
    /// The number of matches, including those that were not kept.
    pub count: usize,
}

/// What a reader found for bare fingerprints.
#[derive(Debug, Clone)]
pub(crate) struct PackedSearch {
    /// The last change that it has seen.
    pub since: Sequence,
    /// The documents that it has seen.
    pub scope: Scope,
    /// For each fingerprint the distance of the nearest stored one, or [`NO_HIT`].
    pub nearest: Vec<u8>,
}

/// In packed replies: no fingerprint is within the distance.
pub(crate) const NO_HIT: u8 = 255;

impl PackedSearch {
    /// Searches a view. Cost: one look-up for each fingerprint.
    pub(crate) fn new(
        view: &View,
        fingerprints: &[Fingerprint],
        distance: Distance,
        scope: Scope,
    ) -> Self {
        let nearest = nearest(view, fingerprints, distance, scope);
        Self { since: view.sequence(), scope, nearest }
    }

    /// Whether it is too old to be brought up to date from memory, or saw other documents than
    /// those in scope now: search again.
    pub(crate) fn is_stale(&self, view: &View, scope: &Scope) -> bool {
        view.may_have_lost_since(self.since) || !sees_the_same(view, &self.scope, scope)
    }
}

/// For each fingerprint the distance of the nearest stored one, or [`NO_HIT`].
pub(crate) fn nearest(
    view: &View,
    fingerprints: &[Fingerprint],
    distance: Distance,
    scope: Scope,
) -> Vec<u8> {
    let nearest = view.nearest(fingerprints, distance, scope);
    nearest.map(|nearest| nearest.map_or(NO_HIT, Distance::get)).collect()
}

/// Whether an earlier scope sees what a later one sees, of what is stored at both times. They differ
/// if documents expired in between, became too old, or if the namespace began.
fn sees_the_same(view: &View, earlier: &Scope, later: &Scope) -> bool {
    let same_time = Scope { now_s: later.now_s, ..*earlier } == *later;
    same_time && (earlier.now_s == later.now_s || view.first_expiry().is_none())
}

/// The search is too old to be brought up to date from memory: search again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stale;

/// A source of the sketches of stored documents.
pub(crate) type Sketches<'a, E> =
    &'a mut dyn FnMut(Fingerprint, Posting) -> Result<Option<Sketch>, E>;

impl Search {
    /// Finds the matches in a view, not yet verified. Cost: the look-up, and a few cache misses
    /// for each match.
    pub(crate) fn begin(view: &View, probe: &Probe<'_>) -> Self {
        let scope = probe.scope(view);
        let own = probe.key.and_then(|key| view.find_id(key));
        let near = view.near(probe.document.fingerprint, probe.criteria.distance, &scope);
        let matches: Vec<_> =
            near.into_iter().filter_map(|near| unverified(view, near, own, scope)).collect();
        let count = matches.len();
        let mut search = Self { since: view.sequence(), scope, own, matches, count };
        search.order(probe);
        // Nothing is verified yet, so this drops the farthest and youngest.
        if count > MATCHES_KEPT_MAX {
            search.matches.truncate(MATCHES_KEPT_MAX);
            search.matches.shrink_to_fit();
        }
        search
    }

    /// Verifies the matches in the view that they were found in. Cost: at most
    /// [`DOCUMENTS_COMPARED_MAX`] sketches for each match.
    ///
    /// # Errors
    /// Those of the source of sketches.
    pub(crate) fn verify<E>(
        &mut self,
        view: &View,
        probe: &Probe<'_>,
        sketches: Sketches<'_, E>,
    ) -> Result<(), E> {
        let Some(verifier) = Verifier::of(probe) else {
            return Ok(());
        };
        let (own, scope) = (self.own, self.scope);
        self.matches.sort_unstable_by_key(|m| (m.distance, m.oldest, m.fingerprint));
        for found in self.matches.iter_mut().take(MATCHES_VERIFIED_MAX) {
            let others = others(view, found.fingerprint, own, scope);
            for posting in others.take(DOCUMENTS_COMPARED_MAX) {
                found.considered += 1;
                if posting.sample.is_some()
                    && let Some(sketch) = sketches(found.fingerprint, posting)?
                {
                    found.verification = verifier.better(found.verification, &sketch);
                }
            }
        }
        self.order(probe);
        Ok(())
    }

    /// Brings it up to a newer view by looking at what changed since; the sketches of that are in
    /// memory.
    ///
    /// # Errors
    /// [`Stale`] where memory no longer has all changes since, a match lost a document, or a
    /// document that it has seen is no longer in scope. The search must not be used any more.
    pub(crate) fn update(&mut self, view: &View, probe: &Probe<'_>) -> Result<(), Stale> {
        let scope = probe.scope(view);
        if !sees_the_same(view, &self.scope, &scope) {
            return Err(Stale);
        }
        self.scope = scope;
        if self.since == view.sequence() {
            return Ok(());
        }
        let Criteria { distance, .. } = probe.criteria;
        let changed = view
            .near_changed_since(self.since, probe.document.fingerprint, distance, &scope)
            .ok_or(Stale)?;
        let own = probe.key.and_then(|key| view.find_id(key));
        // With more matches than are verified, a new one could displace a verified one.
        let crowded = self.count + changed.len() > MATCHES_VERIFIED_MAX;
        if own != self.own || (crowded && !changed.is_empty()) {
            return Err(Stale);
        }
        for near in changed {
            self.update_match(view, probe, near)?;
        }
        if !crowded {
            self.count = self.matches.len();
        }
        self.since = view.sequence();
        self.order(probe);
        Ok(())
    }

    /// Memory that it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.matches.capacity() * size_of::<Match>()
    }

    /// Whether a match counts.
    pub(crate) fn is_duplicate(&self, short: bool) -> bool {
        // Those that count come first.
        self.matches.first().is_some_and(|m| m.verification.counts(m.distance, short))
    }

    fn update_match(&mut self, view: &View, probe: &Probe<'_>, near: Near) -> Result<(), Stale> {
        let found = self.matches.iter().position(|m| m.fingerprint == near.fingerprint);
        let scope = self.scope;
        let Some(fresh) = unverified(view, near, self.own, scope) else {
            found.map(|at| self.matches.remove(at));
            return Ok(());
        };
        let only_puts = view
            .events_since(self.since, near.fingerprint, &scope)
            .all(|(_, event)| matches!(event, DeltaEvent::Put { .. }));
        if !only_puts {
            return Err(Stale);
        }
        let at = found.unwrap_or_else(|| {
            self.matches.push(fresh);
            self.matches.len() - 1
        });
        let found = &mut self.matches[at];
        (found.counts, found.has_sketch) = (fresh.counts, fresh.has_sketch);
        if let Some(verifier) = Verifier::of(probe) {
            for (_, event) in view.events_since(self.since, near.fingerprint, &scope) {
                if let DeltaEvent::Put { sketch, posting, .. } = event
                    && scope.sees(*posting)
                    && found.considered < DOCUMENTS_COMPARED_MAX
                {
                    found.considered += 1;
                    if let Some(sketch) = sketch {
                        found.verification = verifier.better(found.verification, sketch);
                    }
                }
            }
        }
        Ok(())
    }

    fn order(&mut self, probe: &Probe<'_>) {
        let short = probe.document.short;
        self.matches.sort_unstable_by_key(|m| {
            let counts = m.verification.counts(m.distance, short);
            (Reverse(counts), m.distance, m.oldest, m.fingerprint)
        });
    }
}

/// A match without its verification; `None` if the fingerprint has no document in scope but the
/// probe's own.
fn unverified(view: &View, near: Near, own: Option<Located>, scope: Scope) -> Option<Match> {
    let counts = view.document_counts(near.fingerprint, &scope);
    // Stops at the last document without searching for another.
    let compared = DOCUMENTS_COMPARED_MAX.min(counts.documents as usize);
    let mut others = others(view, near.fingerprint, own, scope).take(compared);
    let oldest = others.next()?;
    Some(Match {
        fingerprint: near.fingerprint,
        distance: near.distance,
        oldest: oldest.sequence,
        counts,
        has_sketch: oldest.sample.is_some() || others.any(|posting| posting.sample.is_some()),
        verification: Verification::Unverifiable,
        considered: 0,
    })
}

/// The documents of a fingerprint in scope except the probe's own, oldest first.
pub(crate) fn others(
    view: &View,
    fingerprint: Fingerprint,
    own: Option<Located>,
    scope: Scope,
) -> impl Iterator<Item = Posting> + '_ {
    let own = own.filter(|own| own.masked == scope.masked(fingerprint)).map(|own| own.posting);
    view.documents_of(fingerprint, scope).filter(move |posting| Some(*posting) != own)
}

/// Compares stored sketches with the probe's.
struct Verifier<'a> {
    sketch: &'a Sketch,
    criteria: Criteria,
}

impl<'a> Verifier<'a> {
    fn of(probe: &Probe<'a>) -> Option<Self> {
        probe.criteria.min_resemblance?;
        let sketch = probe.document.sketch.as_deref()?;
        Some(Self { sketch, criteria: probe.criteria })
    }

    /// The better of a known verification and that of this sketch.
    fn better(&self, known: Verification, stored: &Sketch) -> Verification {
        let threshold = self.criteria.min_resemblance;
        known.better(Verification::between(Some(self.sketch), Some(stored), threshold))
    }
}
