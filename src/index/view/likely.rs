//! The likely search over all levels of a view.

use std::cell::OnceCell;

use super::{Near, View};
use crate::document::Sequence;
use crate::fingerprint::{Distance, Fingerprint};
use crate::index::levels::sorted::Sorted;
use crate::index::likely::{Keys, LikelyRule};
use crate::index::permutation::Permuted;
use crate::index::plan::Plan;
use crate::index::scope::Scope;
use crate::margins::Margins;

/// The largest number of fingerprints that a likely search returns; it returns the likeliest.
pub const LIKELY_MAX: usize = 1 << 12;

/// The number of fingerprints that are collected before repeated and unlikely ones are dropped.
const COLLECTED_MAX: usize = 4 * LIKELY_MAX;

/// A stored fingerprint that a likely search has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Likely {
    /// The sum of the margins of the bits in which it differs.
    pub margin: u64,
    /// Its distance.
    pub distance: Distance,
    /// The fingerprint.
    pub fingerprint: Fingerprint,
}

impl View {
    /// The rule of a text in this index.
    pub fn likely_rule(&self, margins: &Margins) -> LikelyRule {
        LikelyRule::of(&self.plans.large, &self.shape.permutation, margins)
    }

    /// Every fingerprint with a document in scope that the rule finds and that is farther than
    /// `beyond`, each once, the likeliest first, at most [`LIKELY_MAX`].
    pub fn likely(
        &self,
        query: Fingerprint,
        rule: &LikelyRule,
        beyond: Distance,
        scope: &Scope,
    ) -> Vec<Likely> {
        let query = self.permuted(query, scope);
        let beyond = u32::from(beyond.get());
        let mut found = Vec::new();
        let mut farthest = None;
        self.visit_likely(query, rule, &mut |value| {
            let flips = query ^ value;
            if flips.count_ones() <= beyond || !rule.finds(flips) {
                return;
            }
            let candidate = (rule.margin(flips), value);
            if farthest.is_none_or(|farthest| candidate <= farthest) {
                found.push(candidate);
            }
            if found.len() == COLLECTED_MAX {
                farthest = self.keep_likeliest(&mut found, scope);
            }
        });
        self.keep_likeliest(&mut found, scope);
        let likely = found.into_iter().map(|(margin, value)| {
            let Near { fingerprint, distance } = self.near_of(query, value, scope);
            Likely { margin, distance, fingerprint }
        });
        likely.collect()
    }

    /// The fingerprints that changed after a sequence and that are within `distance` or found by the
    /// rule, each once; some may have no document in scope. `None` as for
    /// [`Self::near_changed_since`]. Cost: in proportion to the number of those changes.
    pub(crate) fn likely_changed_since(
        &self,
        since: Sequence,
        query: Fingerprint,
        (distance, rule): (Distance, &LikelyRule),
        scope: &Scope,
    ) -> Option<Vec<Near>> {
        if self.deltas[0].after() > since {
            return None;
        }
        let query = self.permuted(query, scope);
        let is_found = |value: &Permuted| {
            let flips = query ^ value;
            flips.count_ones() <= u32::from(distance.get()) || rule.finds(flips)
        };
        let changed = self.deltas().flat_map(|delta| delta.changed_since(since));
        let mut values: Vec<Permuted> = changed.filter(is_found).collect();
        values.sort_unstable();
        values.dedup();
        Some(values.into_iter().map(|value| self.near_of(query, value, scope)).collect())
    }

    /// Whether the rule finds one fingerprint from the other.
    pub(crate) fn is_likely(
        &self,
        rule: &LikelyRule,
        one: Fingerprint,
        other: Fingerprint,
    ) -> bool {
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

    /// Keeps distinct fingerprints with documents in scope, at most [`LIKELY_MAX`], the likeliest
    /// first. Returns the last of them if it drops others, since less likely ones are of no use
    /// then.
    fn keep_likeliest(
        &self,
        found: &mut Vec<(u64, Permuted)>,
        scope: &Scope,
    ) -> Option<(u64, Permuted)> {
        found.sort_unstable();
        found.dedup();
        if self.needs_check(scope) {
            found.retain(|&(_, value)| self.has_documents(value, scope));
        }
        let is_cut = found.len() > LIKELY_MAX;
        found.truncate(LIKELY_MAX);
        found.last().copied().filter(|_| is_cut)
    }
}
