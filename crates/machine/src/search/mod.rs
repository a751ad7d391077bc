//! Finding the matches of a document and verifying them by their sketches.
//!
//! ```text
//!   begin    the matches within the distance, from memory
//!   verify   their sketches, the likeliest first; if none counts or all hits are wanted, the
//!            likely search and its sketches
//!   update   what changed since, from memory; or the search is stale and begins again
//! ```
//!
//! If only the verdict is wanted, a search ends at the first match that counts. Its result depends
//! only on what is stored and on the probe: a search that was brought up to date finds the same as
//! a new one.

mod matching;
mod packed;
mod probe;

pub use matching::{Match, others};
pub use packed::{NO_HIT, PackedSearch, nearest};
pub use probe::Probe;

use std::cmp::Reverse;

use matching::{Matching, Stage, Verifier};
use nearprint_fingerprint::{Distance, Fingerprint, Sketch};
use nearprint_index::labels::are_similar;
use nearprint_index::levels::delta::DeltaEvent;
use nearprint_index::levels::posting::Posting;
use nearprint_index::view::{Located, Near, SimilarTo, View};
use nearprint_index::visibility::Visibility;
use smallvec::SmallVec;

use crate::document::Sequence;
use crate::query::{Criteria, Verification};

/// The maximum number of sketches that one search compares, so that it takes a few milliseconds at
/// most. Matches whose sketches are left uncompared do not count as duplicates;
/// [`Search::unverified`] is their number.
pub(crate) const SKETCHES_COMPARED_MAX: usize = 256;

/// The maximum number of matches that a search keeps: first those without sketches, then the
/// likeliest. It only counts the others. So a search takes 120 KiB at most.
pub const MATCHES_KEPT_MAX: usize = SKETCHES_COMPARED_MAX + 1_000;

/// The maximum number of matches whose documents a search visits: the nearest. It only counts the
/// others, and says so where they might have been confirmed ([`Search::unverified`]).
pub(crate) const MATCHES_VISITED_MAX: usize = 4_096;

/// The maximum number of documents of a fingerprint that a likely search looks at. Of those with
/// the same sampled bins, nearly the same as a rule, it compares the oldest; if numbers are
/// demanded, of those with the same sketch.
const COPIES_MAX: usize = 4_096;

/// A fingerprint that a likely search found, with the documents whose samples do not refute it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    near: Near,
    kept: SmallVec<[Posting; 1]>,
    /// Whether it has further such documents, which are not kept.
    is_cut: bool,
}

/// How far the likely part of a search has come.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LikelyPart {
    /// It was not begun: the search is exact, or was not needed so far.
    NotBegun,
    /// The candidates are found, the likeliest first, and none is compared.
    Found(Vec<Candidate>),
    /// The candidates were compared.
    Done,
}

/// The matches of a probe, as of a sequence, in the order in which hits are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// The last change that it has seen.
    pub since: Sequence,
    /// The documents that it has seen.
    pub visibility: Visibility,
    /// The document with the probe's id at that time, whatever its age.
    pub own: Option<Located>,
    /// The matches: those that count first, then by distance, age, fingerprint; where the first hit
    /// is enough, by distance first. At most [`MATCHES_KEPT_MAX`].
    pub matches: Vec<Match>,
    /// The number of matches within the distance, including those that were not kept.
    pub count: usize,
    /// The number of fingerprints that do not count although some of their sketches were not
    /// compared, because there are too many.
    pub unverified: usize,
    /// How many of them were not kept.
    dropped: usize,
    /// The number of sketches that were compared.
    compared: usize,
    likely: LikelyPart,
    /// Whether the likely search found more than it keeps.
    likely_is_cut: bool,
    /// Whether all hits are wanted, not only the first that counts.
    all_hits: bool,
}

/// Whether an earlier visibility sees what a later one sees, of what is stored at both times. They
/// differ if documents expired in between, became too old, or if the namespace began.
fn sees_the_same(view: &View, earlier: &Visibility, later: &Visibility) -> bool {
    let same_time = Visibility { now_s: later.now_s, ..*earlier } == *later;
    same_time && (earlier.now_s == later.now_s || view.first_expiry().is_none())
}

/// The search is too old to be brought up to date from memory: search again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale;

/// A source of the sketches of stored documents.
pub(crate) type Sketches<'a, E> =
    &'a mut dyn FnMut(Fingerprint, Posting) -> Result<Option<Sketch>, E>;

impl Search {
    /// Finds the matches in a view, not yet verified. Cost: the look-up, and a few cache misses
    /// for each match.
    pub fn begin(view: &View, probe: &Probe<'_>) -> Self {
        Self::begin_unless_crowded(view, probe, usize::MAX).expect("never too many")
    }

    /// The same; `None`, after a small part of the work, if there are more than about `crowd`
    /// matches.
    pub fn begin_unless_crowded(view: &View, probe: &Probe<'_>, crowd: usize) -> Option<Self> {
        let visibility = probe.visibility(view);
        let own = probe.key.and_then(|key| view.find_id(key));
        let (query, distance) = (probe.document.fingerprint, probe.criteria.distance);
        let mut near = view.near_unless_crowded(query, distance, &visibility, crowd)?;
        let left = near.len().saturating_sub(MATCHES_VISITED_MAX);
        if left > 0 {
            near.select_nth_unstable_by_key(MATCHES_VISITED_MAX, |near| {
                (near.distance, near.fingerprint)
            });
            near.truncate(MATCHES_VISITED_MAX);
        }
        let matching = Matching::new(view, probe, own, visibility);
        let matches: Vec<_> = near.into_iter().filter_map(|near| matching.found(near)).collect();
        let count = matches.len() + left;
        let mut search = Self {
            since: view.sequence(),
            visibility,
            own,
            matches,
            count,
            unverified: 0,
            dropped: 0,
            compared: 0,
            likely: LikelyPart::NotBegun,
            likely_is_cut: false,
            all_hits: probe.criteria.all_hits,
        };
        if search.matches.len() > MATCHES_KEPT_MAX {
            search.keep_likeliest(&matching);
        }
        if matching.verifier.is_some() {
            search.dropped += left;
            search.unverified += left;
        }
        if search.matches.is_empty() {
            search.find_likely(view, probe);
        }
        search.order(view, probe);
        Some(search)
    }

    /// Drops matches beyond the limit, those with sketches first: the others count without being
    /// read.
    fn keep_likeliest(&mut self, matching: &Matching<'_>) {
        self.matches.iter_mut().for_each(|found| matching.visit(found));
        let is_unread = |found: &Match| found.verification == Verification::Unread;
        // An identical text has the same fingerprint.
        let is_last = |found: &Match| is_unread(found) && found.distance > Distance::ZERO;
        self.matches.sort_unstable_by_key(|found| (is_last(found), found.likeliness()));
        let dropped = self.matches.split_off(MATCHES_KEPT_MAX);
        self.matches.shrink_to_fit();
        self.dropped = dropped.iter().filter(|found| is_unread(found)).count();
        self.unverified = self.dropped;
    }

    /// How many sketches verifying it may read, about.
    pub fn sketches_to_read(&self) -> usize {
        let is_unread = |found: &&Match| found.verification == Verification::Unread;
        let candidates = match &self.likely {
            LikelyPart::Found(candidates) => candidates.iter().map(|found| found.kept.len()).sum(),
            LikelyPart::NotBegun | LikelyPart::Done => 0,
        };
        candidates + self.matches.iter().filter(is_unread).count()
    }

    /// Verifies the matches in the view that they were found in, the likeliest first, and continues
    /// to a likely search if none counts or all hits are wanted. Cost: at most
    /// [`SKETCHES_COMPARED_MAX`] sketches.
    ///
    /// # Errors
    /// Those of the source of sketches.
    pub fn verify<E>(
        &mut self,
        view: &View,
        probe: &Probe<'_>,
        sketches: Sketches<'_, E>,
    ) -> Result<(), E> {
        let matching = Matching::new(view, probe, self.own, self.visibility);
        let short = probe.document.short;
        self.matches.sort_unstable_by_key(Match::likeliness);
        for stage in [Stage::Identical, Stage::MayReach, Stage::Rest] {
            if !self.verify_stage(&matching, (stage, short), sketches)? {
                break;
            }
        }
        let is_left = |m: &&Match| m.is_left && !m.verification.counts(m.distance, short);
        self.unverified = self.dropped + self.matches.iter().filter(is_left).count();
        self.order(view, probe);
        if self.all_hits || !self.is_duplicate(short) {
            self.find_likely(view, probe);
            self.verify_likely(&matching, sketches)?;
            self.order(view, probe);
        }
        Ok(())
    }

    /// Compares the sketches of one stage. Returns whether the search continues.
    fn verify_stage<E>(
        &mut self,
        matching: &Matching<'_>,
        (stage, short): (Stage, bool),
        sketches: Sketches<'_, E>,
    ) -> Result<bool, E> {
        let Some(verifier) = &matching.verifier else { return Ok(false) };
        for found in &mut self.matches {
            if stage == Stage::Identical && found.distance > Distance::ZERO {
                break;
            }
            matching.visit(found);
            if found.verification.is_open() {
                let distance = found.distance;
                let of_stage = matching
                    .others(found.fingerprint)
                    .filter(|posting| verifier.stage(posting, distance) == Some(stage));
                for posting in of_stage {
                    found.is_left = self.compared == SKETCHES_COMPARED_MAX;
                    if found.is_left {
                        break;
                    }
                    self.compared += 1;
                    if let Some(sketch) = sketches(found.fingerprint, posting)? {
                        found.compare(verifier, &sketch, stage);
                    }
                    if !found.verification.is_open() {
                        break;
                    }
                }
            }
            if !self.all_hits && found.verification.counts(found.distance, short) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds the candidates of the likely search, if one is wanted and was not begun. Reads no
    /// record.
    fn find_likely(&mut self, view: &View, probe: &Probe<'_>) {
        let (Some(sketch), Some(verifier)) = (probe.likely(), Verifier::of(probe)) else { return };
        if self.likely != LikelyPart::NotBegun || !view.may_have_sketches() {
            return;
        }
        let text = SimilarTo {
            fingerprint: probe.document.fingerprint,
            sketch,
            threshold: verifier.threshold.resemblance,
            beyond: probe.criteria.distance,
        };
        let own = self.own.map(|own| own.posting.sequence);
        let mut may_count = |posting: Posting| own != Some(posting.sequence);
        let (found, is_cut) = view.similar(text, &self.visibility, &mut may_count);
        let mut candidates = Vec::with_capacity(found.len());
        let mut room = SKETCHES_COMPARED_MAX;
        for near in found {
            let mut others = others(view, near.fingerprint, self.own, self.visibility);
            let (mut kept, mut is_cut) = (SmallVec::<[Posting; 1]>::new(), false);
            for posting in others.by_ref().take(COPIES_MAX) {
                let sample =
                    |posting: &Posting| posting.sample.map(|s| verifier.threshold.alike(s));
                let is_alike = kept.iter().any(|kept| sample(kept) == sample(&posting));
                if is_alike || verifier.stage_of_likely(&posting).is_none() {
                    continue;
                }
                // At least one, so that a candidate that is left unread is counted.
                is_cut = kept.len() >= room.max(1);
                if is_cut {
                    break;
                }
                kept.push(posting);
            }
            room = room.saturating_sub(kept.len());
            candidates.push(Candidate { near, is_cut: is_cut || others.next().is_some(), kept });
        }
        self.likely_is_cut = is_cut;
        self.likely = LikelyPart::Found(candidates);
    }

    /// Compares the sketches of the candidates of the likely search, the likeliest first.
    fn verify_likely<E>(
        &mut self,
        matching: &Matching<'_>,
        sketches: Sketches<'_, E>,
    ) -> Result<(), E> {
        let Some(verifier) = &matching.verifier else { return Ok(()) };
        let LikelyPart::Found(candidates) = &mut self.likely else { return Ok(()) };
        let candidates = std::mem::take(candidates);
        self.likely = LikelyPart::Done;
        for Candidate { near, kept, is_cut } in candidates {
            let mut found = Match { is_left: is_cut, ..matching.unvisited(near) };
            for posting in kept {
                if self.compared == SKETCHES_COMPARED_MAX {
                    found.is_left = true;
                    break;
                }
                self.compared += 1;
                if let Some(sketch) = sketches(near.fingerprint, posting)? {
                    found.compare(verifier, &sketch, Stage::Likely);
                }
                if !found.verification.is_open() {
                    break;
                }
            }
            if found.verification.is_confirmed() {
                matching.visit(&mut found);
                self.matches.push(found);
                if !self.all_hits {
                    return Ok(());
                }
            } else {
                self.unverified += usize::from(found.is_left);
            }
        }
        // How many there are is not known, but that there are some.
        self.unverified += usize::from(self.likely_is_cut);
        Ok(())
    }

    /// Brings it up to a newer view by looking at what changed since; the sketches of that are in
    /// memory.
    ///
    /// # Errors
    /// [`Stale`] where memory no longer has all changes since, a match lost a document, a document
    /// that it has seen is no longer visible, or a limit would decide. The search must not be used
    /// any more.
    pub fn update(&mut self, view: &View, probe: &Probe<'_>) -> Result<(), Stale> {
        let visibility = probe.visibility(view);
        if !sees_the_same(view, &self.visibility, &visibility) {
            return Err(Stale);
        }
        self.visibility = visibility;
        if self.since == view.sequence() {
            return Ok(());
        }
        let (query, distance) = (probe.document.fingerprint, probe.criteria.distance);
        let changed = match probe.likely().filter(|_| self.likely == LikelyPart::Done) {
            Some(sketch) => self.similar_changed(view, (query, sketch), distance)?,
            None => {
                view.near_changed_since(self.since, query, distance, &visibility).ok_or(Stale)?
            }
        };
        let own = probe.key.and_then(|key| view.find_id(key));
        // With more matches than are verified, a new one could displace a verified one.
        let crowded = self.count + changed.len() > SKETCHES_COMPARED_MAX
            || self.unverified > 0
            || self.likely_is_cut;
        if own != self.own || (crowded && !changed.is_empty()) {
            return Err(Stale);
        }
        let short = probe.document.short;
        let decided =
            (!self.all_hits && self.is_duplicate(short)).then(|| self.matches[0].fingerprint);
        for near in changed {
            self.update_match(view, probe, near)?;
        }
        // A search that ended at the first hit that counts has not seen what comes after it.
        let still_counts = |fingerprint| {
            let found = self.matches.iter().find(|found| found.fingerprint == fingerprint);
            found.is_some_and(|found| found.verification.counts(found.distance, short))
        };
        if !decided.is_none_or(still_counts) {
            return Err(Stale);
        }
        if !crowded {
            self.count = self.matches.iter().filter(|found| found.distance <= distance).count();
        }
        self.since = view.sequence();
        self.settle_likely(probe)?;
        self.order(view, probe);
        Ok(())
    }

    /// The fingerprints that changed and are within the distance, similar to the query, or matches.
    fn similar_changed(
        &self,
        view: &View,
        (query, sketch): (Fingerprint, &Sketch),
        distance: Distance,
    ) -> Result<Vec<Near>, Stale> {
        let mut is_any_lost = false;
        let is_match = |near: Near| self.matches.iter().any(|m| m.fingerprint == near.fingerprint);
        let mut is_wanted = |near: Near, event: &DeltaEvent| {
            let is_similar = match event {
                DeltaEvent::Put { sketch: Some(stored), .. } => {
                    are_similar((query, sketch), (near.fingerprint, stored))
                }
                DeltaEvent::Put { sketch: None, .. } => false,
                DeltaEvent::Removed { .. } | DeltaEvent::Reset => {
                    is_any_lost = true;
                    false
                }
            };
            near.distance <= distance || is_similar || is_match(near)
        };
        let changed = view.changed_since(self.since, query, &self.visibility, &mut is_wanted);
        // What was left out may have the place of what is gone.
        if self.likely_is_cut && is_any_lost { Err(Stale) } else { changed.ok_or(Stale) }
    }

    /// Where one hit is enough, a likely search counts only if no match within the distance does.
    fn settle_likely(&mut self, probe: &Probe<'_>) -> Result<(), Stale> {
        let Criteria { distance, .. } = probe.criteria;
        let (short, is_wanted) = (probe.document.short, probe.likely().is_some());
        let counts = |found: &Match| {
            found.distance <= distance && found.verification.counts(found.distance, short)
        };
        if !self.all_hits && self.matches.iter().any(counts) {
            self.matches.retain(|found| found.distance <= distance);
        } else if is_wanted && self.likely != LikelyPart::Done {
            // What counted is gone.
            return Err(Stale);
        }
        Ok(())
    }

    /// Memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        let candidates = match &self.likely {
            LikelyPart::Found(candidates) => candidates.capacity(),
            LikelyPart::NotBegun | LikelyPart::Done => 0,
        };
        size_of::<Self>()
            + self.matches.capacity() * size_of::<Match>()
            + candidates * size_of::<Candidate>()
    }

    /// Whether a match counts.
    pub fn is_duplicate(&self, short: bool) -> bool {
        // Those that count come first.
        self.matches.first().is_some_and(|m| m.verification.counts(m.distance, short))
    }

    /// The matches to show: all, or the first one that counts.
    pub fn shown(&self, short: bool) -> &[Match] {
        if self.all_hits {
            &self.matches
        } else {
            &self.matches[..usize::from(self.is_duplicate(short))]
        }
    }

    /// The number of hits: all within the distance, and those that a likely search has confirmed;
    /// only the first of these where one hit is enough.
    pub fn hit_count(&self) -> usize {
        let likely = self.matches.iter().filter(|found| found.stage == Stage::Likely).count();
        self.count + if self.all_hits { likely } else { likely.min(1) }
    }

    fn update_match(&mut self, view: &View, probe: &Probe<'_>, near: Near) -> Result<(), Stale> {
        let found = self.matches.iter().position(|m| m.fingerprint == near.fingerprint);
        let is_beyond = near.distance > probe.criteria.distance;
        let matching = Matching::new(view, probe, self.own, self.visibility);
        let Some(fresh) = matching.visited(near) else {
            found.map(|at| self.matches.remove(at));
            return Ok(());
        };
        let events = || view.events_since(self.since, near.fingerprint, &self.visibility);
        if !events().all(|(_, event)| matches!(event, DeltaEvent::Put { .. })) {
            return Err(Stale);
        }
        let mut updated = found.map_or(fresh, |at| Match {
            verification: self.matches[at].verification.with_sketches(fresh.verification),
            stage: self.matches[at].stage,
            ..fresh
        });
        let mut compared = self.compared;
        if let Some(verifier) = &matching.verifier {
            for (_, event) in events() {
                let DeltaEvent::Put { sketch: Some(sketch), posting, .. } = event else { continue };
                let stage = if is_beyond {
                    verifier.stage_of_likely(posting)
                } else {
                    verifier.stage(posting, near.distance)
                };
                if let (Some(stage), true) = (stage, self.visibility.sees(*posting)) {
                    compared += 1;
                    updated.compare(verifier, sketch, stage);
                }
            }
        }
        // A search from the beginning would leave some unread.
        if compared > SKETCHES_COMPARED_MAX {
            return Err(Stale);
        }
        self.compared = compared;
        match found {
            Some(at) => self.matches[at] = updated,
            None if !is_beyond || updated.verification.is_confirmed() => self.matches.push(updated),
            None => {}
        }
        Ok(())
    }

    /// Puts the matches in the order in which they are shown.
    fn order(&mut self, view: &View, probe: &Probe<'_>) {
        let short = probe.document.short;
        let counts = |m: &Match| Reverse(m.verification.counts(m.distance, short));
        if self.all_hits {
            let by_distance = |m: &Match| (counts(m), m.distance, m.oldest, m.fingerprint);
            self.matches.sort_unstable_by_key(by_distance);
        } else {
            self.matches.sort_unstable_by_key(|m| (counts(m), m.stage, m.likeliness()));
            let matching = Matching::new(view, probe, self.own, self.visibility);
            self.matches.first_mut().into_iter().for_each(|first| matching.visit(first));
        }
    }
}
