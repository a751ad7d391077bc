//! The likely search over all levels of a view.

use std::cell::OnceCell;

use nearprint_fingerprint::{Distance, Fingerprint, Margins};
use smallvec::SmallVec;

use super::{Near, View};
use crate::document::Sequence;
use crate::levels::sorted::Sorted;
use crate::likely::{Keys, LIKELY_DISTANCE_MAX, LikelyRule};
use crate::permutation::Permuted;
use crate::plan::Plan;
use crate::visibility::Visibility;

/// The largest number of fingerprints that a likely search returns; it returns the likeliest.
pub const LIKELY_MAX: usize = 1 << 12;

/// Candidates whose documents are prefetched together.
const PREFETCHED: usize = 8;

/// The number of fingerprints that are collected before repeated and unlikely ones are dropped.
const COLLECTED_MAX: usize = 4 * LIKELY_MAX;

/// A stored fingerprint that a likely search has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Likely {
    /// The sum of the margins of the bits in which it differs.
    pub margin: u64,
    pub distance: Distance,
    pub fingerprint: Fingerprint,
}

impl View {
    /// The rule of a text in this index.
    pub fn likely_rule(&self, margins: &Margins) -> LikelyRule {
        LikelyRule::of(&self.plans.large, &self.shape.permutation, margins)
    }

    /// Every fingerprint with a document in scope that the rule finds and that is farther than
    /// `beyond`, each once, the likeliest first; of more than [`LIKELY_MAX`], the likeliest.
    pub fn likely(
        &self,
        query: Fingerprint,
        rule: &LikelyRule,
        beyond: Distance,
        visibility: &Visibility,
    ) -> Vec<Likely> {
        self.likely_where(query, rule, (beyond, visibility), &mut |_| true).0
    }

    /// The same of the fingerprints that are wanted, so that no others take a place. The second
    /// value says whether there are more than [`LIKELY_MAX`] of them.
    pub fn likely_where(
        &self,
        query: Fingerprint,
        rule: &LikelyRule,
        (beyond, visibility): (Distance, &Visibility),
        is_wanted: &mut dyn FnMut(Fingerprint) -> bool,
    ) -> (Vec<Likely>, bool) {
        let query = self.permuted(query, visibility);
        let beyond = u32::from(beyond.get());
        let mut found = Found { candidates: Vec::new(), last: None };
        self.visit_likely(query, rule, &mut |value| {
            let flips = query ^ value;
            let distance = flips.count_ones();
            if distance <= beyond || distance > LIKELY_DISTANCE_MAX {
                return;
            }
            let candidate = (rule.margin(flips), distance, value);
            let is_near = found.last.is_none_or(|last| candidate <= last);
            if is_near && rule.finds(flips) {
                found.candidates.push(candidate);
                if found.candidates.len() == COLLECTED_MAX {
                    self.keep_likeliest(&mut found, visibility, is_wanted);
                }
            }
        });
        self.keep_likeliest(&mut found, visibility, is_wanted);
        let likely = found.candidates.into_iter().map(|(margin, _, value)| {
            let Near { fingerprint, distance } = self.near_of(query, value, visibility);
            Likely { margin, distance, fingerprint }
        });
        let mut likely: Vec<Likely> = likely.collect();
        likely.sort_unstable();
        (likely, found.last.is_some())
    }

    /// The fingerprints that changed after a sequence and that are within `distance` or found by
    /// the rule, each once; some may have no document in scope. `None` as for
    /// [`Self::near_changed_since`]. Cost: in proportion to the number of those changes.
    pub fn likely_changed_since(
        &self,
        since: Sequence,
        query: Fingerprint,
        (distance, rule): (Distance, &LikelyRule),
        visibility: &Visibility,
    ) -> Option<Vec<Near>> {
        if self.deltas[0].after() > since {
            return None;
        }
        let query = self.permuted(query, visibility);
        let is_found = |value: &Permuted| {
            let flips = query ^ value;
            flips.count_ones() <= u32::from(distance.get()) || rule.finds(flips)
        };
        let changed = self.deltas().flat_map(|delta| delta.changed_since(since));
        let mut values: Vec<Permuted> = changed.filter(is_found).collect();
        values.sort_unstable();
        values.dedup();
        Some(values.into_iter().map(|value| self.near_of(query, value, visibility)).collect())
    }

    /// Whether the rule finds one fingerprint from the other.
    pub fn is_likely(&self, rule: &LikelyRule, one: Fingerprint, other: Fingerprint) -> bool {
        rule.finds(self.shape.permutation.apply(Fingerprint::new(one.bits() ^ other.bits())))
    }

    fn visit_likely(&self, query: Permuted, rule: &LikelyRule, found: &mut impl FnMut(Permuted)) {
        let small = OnceCell::new();
        let of_plan = |plan: &Plan, visit: &mut dyn FnMut(&Keys)| {
            if *plan == self.plans.small {
                visit(small.get_or_init(|| Keys::of(rule, plan)));
            } else {
                visit(&Keys::of(rule, plan));
            }
        };
        for segment in self.segments.iter() {
            match segment.sorted() {
                Sorted::Small(buckets) => of_plan(buckets.plan(), &mut |keys| {
                    buckets.near_likely(query, keys, found);
                }),
                Sorted::Large(table) => table.near_likely(query, rule, found),
            }
        }
        for other in self.secondary_tables.iter() {
            other.table.near_likely(query, rule, found);
        }
        for delta in self.deltas().filter(|delta| delta.length() > 0) {
            of_plan(delta.plan(), &mut |keys| delta.near_likely(query, keys, found));
        }
    }

    /// Keeps distinct fingerprints that have documents in scope and are wanted, at most
    /// [`LIKELY_MAX`], the likeliest first.
    fn keep_likeliest(
        &self,
        found: &mut Found,
        visibility: &Visibility,
        is_wanted: &mut dyn FnMut(Fingerprint) -> bool,
    ) {
        let candidates = &mut found.candidates;
        candidates.sort_unstable();
        candidates.dedup();
        let needs_check = self.needs_check(visibility);
        let mut kept = 0;
        for from in (0..candidates.len()).step_by(PREFETCHED) {
            let some = from..candidates.len().min(from + PREFETCHED);
            let values: SmallVec<[Permuted; PREFETCHED]> =
                candidates[some.clone()].iter().map(|(_, _, value)| *value).collect();
            self.prefetch_documents(&values);
            for at in some {
                let (_, _, value) = candidates[at];
                let fingerprint = visibility.masked(self.shape.permutation.restore(value));
                let is_there = !needs_check || self.has_documents(value, visibility);
                if is_there && is_wanted(fingerprint) {
                    candidates[kept] = candidates[at];
                    kept += 1;
                }
            }
        }
        candidates.truncate(kept);
        if kept > LIKELY_MAX {
            candidates.truncate(LIKELY_MAX);
            found.last = candidates.last().copied();
        }
    }
}

/// What a likely search has found so far.
struct Found {
    /// The margin, the distance and the permuted fingerprint of each.
    candidates: Vec<(u64, u32, Permuted)>,
    /// The last one that was kept, once others were dropped.
    last: Option<(u64, u32, Permuted)>,
}
