//! A level: what a delta becomes, and what small segments become that are merged into a large one.

use std::sync::Arc;

use crate::document::Sequence;
use crate::index::buckets;
use crate::index::ids::IdKey;
use crate::index::permutation::Permuted;
use crate::index::plan::{Key, Plan, Plans, TablePlan, head};
use crate::index::posting::{Common, Posting};
use crate::index::segment::{Builder, Row, Segment};
use crate::index::sorted::Sorted;
use crate::index::table::Table;
use crate::index::table::build::{self, Counts};
use crate::index::table::quarters::{QUARTERS, Quarter};

/// A segment, and the tables that belong to it.
#[derive(Debug, Clone)]
pub struct Level {
    /// All it says about documents.
    pub segment: Arc<Segment>,
    /// If it is large, the plan's other tables, by role.
    pub others: Vec<Arc<Table>>,
}

/// What is known before the rows are.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The index's plans.
    pub plans: &'a Plans,
    /// Whether it becomes a small segment.
    pub small: bool,
    /// About how many fingerprints.
    pub count: usize,
    /// What the postings have in common.
    pub common: Common,
    /// Nothing is older: removals and resets have done their work and go.
    pub oldest: bool,
}

impl Level {
    /// The level of what is said about fingerprints, in any order and several times about one;
    /// `add` puts what was said into the row of its fingerprint, the smallest first. Sorts what is said of
    /// each quarter of all keys, one after the other, if it is large: needs memory for a quarter of what is
    /// said, with the keys.
    pub fn of<T: Copy + Ord, I: Iterator<Item = (Permuted, T)>>(
        expected: Expected<'_>,
        said: impl Fn() -> I,
        add: impl Fn(T, &mut Row),
        ids: impl IntoIterator<Item = (IdKey, Permuted, Sequence)>,
    ) -> Self {
        let Expected { plans, small, count, common, oldest } = expected;
        let large = &plans.large;
        let order = if small { buckets::ORDER } else { large.tables()[0] };
        let keyed = || said().map(|(value, said)| (order.key(value), said));
        let mut builder = if small {
            Builder::small(large.distance_max(), count, common)
        } else {
            let mut counts = Counts::new(order, count as u64);
            keyed().for_each(|(key, _)| counts.add(key));
            Builder::large(&counts, common)
        };
        let mut row = Row::default();
        in_order(
            !small,
            count,
            keyed,
            |(key, _)| *key,
            |sorted| {
                for said in sorted.chunk_by(|a, b| a.0 == b.0) {
                    row.clear();
                    for &(_, said) in said {
                        add(said, &mut row);
                    }
                    if oldest {
                        row.forget_older();
                    }
                    builder.push(said[0].0, &row);
                }
            },
        );
        let segment = builder.finish(ids);
        let others = if small { Vec::new() } else { others(large, segment.sorted()) };
        Self { segment: Arc::new(segment), others }
    }

    /// The level of `count` bare documents, put one after the other from the first change on; for
    /// collections that are known as a whole.
    pub fn of_bare(plans: &Plans, count: u64, values: impl Iterator<Item = Permuted>) -> Self {
        let posting = |sequence| Posting { sequence, has_id: false, has_sketch: false };
        let first = Sequence::ZERO.next();
        let common = Common::of(posting(first)).and(Common::of(posting(Sequence::new(count))));
        let small = plans.is_small(count);
        let expected = Expected { plans, small, count: count as usize, common, oldest: true };
        let values: Vec<Permuted> = values.take(count as usize).collect();
        let puts = || values.iter().copied().zip(1..);
        Self::of(expected, puts, |sequence, row| row.put(posting(Sequence::new(sequence))), [])
    }
}

/// All tables of a plan but the first, of the fingerprints in that.
fn others(plan: &Plan, first: &Sorted) -> Vec<Arc<Table>> {
    let values = || first.entries().map(|(key, _)| first.order().value(key));
    let table = |(role, plan): (usize, &TablePlan)| {
        let keys = || values().map(|value| plan.key(value));
        let mut counts = Counts::new(*plan, first.len() as u64);
        keys().for_each(|key| counts.add(key));
        let mut builder = build::Builder::new(role, &counts);
        in_order(
            true,
            first.len(),
            keys,
            |key| *key,
            |sorted| {
                for &key in sorted {
                    builder.push(key);
                }
            },
        );
        Arc::new(builder.finish())
    };
    plan.tables().iter().enumerate().skip(1).map(table).collect()
}

/// Calls `each` with some of about `count` items, sorted, and then with those of larger keys: with all at
/// once, or with a quarter of all keys at a time, for which they are gone through four times.
fn in_order<T: Copy + Ord, I: Iterator<Item = T>>(
    by_quarters: bool,
    count: usize,
    items: impl Fn() -> I,
    key: impl Fn(&T) -> Key,
    mut each: impl FnMut(&[T]),
) {
    let mut sorted = Vec::new();
    if !by_quarters {
        sorted.reserve_exact(count);
        sorted.extend(items());
        sorted.sort_unstable();
        return each(&sorted);
    }
    // A few more than a quarter of them, for none is as large as another.
    sorted.reserve_exact(count / QUARTERS + count / 64);
    for quarter in Quarter::ALL {
        sorted.clear();
        sorted.extend(items().filter(|item| Quarter::of(head(key(item))) == quarter));
        sorted.sort_unstable();
        each(&sorted);
    }
}
