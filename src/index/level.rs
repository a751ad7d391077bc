//! A level: what a delta becomes, and what small segments become that are merged into a large one.

use std::sync::Arc;

use crate::document::Sequence;
use crate::index::buckets;
use crate::index::ids::IdKey;
use crate::index::permutation::Permuted;
use crate::index::plan::{Key, Plan, Plans, TablePlan};
use crate::index::posting::{Common, Posting};
use crate::index::segment::{Builder, Row, Segment};
use crate::index::table::Table;
use crate::index::table::build::Counts;

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
    /// `add` puts what was said into the row of its fingerprint, the smallest first. Sorts: needs
    /// the memory of the keys with what was said, twice those of a large level.
    pub fn of<T: Copy + Ord>(
        expected: Expected<'_>,
        said: impl Iterator<Item = (Permuted, T)>,
        add: impl Fn(T, &mut Row),
        ids: impl IntoIterator<Item = (IdKey, Permuted, Sequence)>,
    ) -> Self {
        let Expected { plans, small, count, common, oldest } = expected;
        let large = &plans.large;
        let order = if small { buckets::ORDER } else { large.tables()[0] };
        let mut keyed: Vec<(Key, T)> = Vec::with_capacity(count);
        keyed.extend(said.map(|(value, said)| (order.key(value), said)));
        keyed.sort_unstable();
        let mut builder = if small {
            Builder::small(large.distance_max(), count, common)
        } else {
            let mut counts = Counts::new(order, count as u64);
            for &(key, _) in &keyed {
                counts.add(key);
            }
            Builder::large(&counts, common)
        };
        let mut row = Row::default();
        let mut values = Vec::with_capacity(if small { 0 } else { keyed.len() });
        for said in keyed.chunk_by(|a, b| a.0 == b.0) {
            let key = said[0].0;
            row.clear();
            for &(_, said) in said {
                add(said, &mut row);
            }
            if oldest {
                row.forget_older();
            }
            if !small && !row.postings.is_empty() {
                values.push(order.value(key));
            }
            builder.push(key, &row);
        }
        drop(keyed);
        let others = if small { Vec::new() } else { others(large, &values) };
        Self { segment: Arc::new(builder.finish(ids)), others }
    }

    /// The level of `count` bare documents, put one after the other from the first change on; for
    /// collections that are known as a whole.
    pub fn of_bare(plans: &Plans, count: u64, values: impl Iterator<Item = Permuted>) -> Self {
        let posting = |sequence| Posting { sequence, has_id: false, has_sketch: false };
        let first = Sequence::ZERO.next();
        let common = Common::of(posting(first)).and(Common::of(posting(Sequence::new(count))));
        let small = plans.is_small(count);
        let expected = Expected { plans, small, count: count as usize, common, oldest: true };
        let sequences = std::iter::successors(Some(first), |sequence| Some(sequence.next()));
        let puts = values.take(count as usize).zip(sequences);
        Self::of(expected, puts, |sequence, row| row.put(posting(sequence)), [])
    }
}

/// All tables of a plan but the first, of distinct fingerprints.
fn others(plan: &Plan, values: &[Permuted]) -> Vec<Arc<Table>> {
    let table = |(role, plan): (usize, &TablePlan)| {
        let mut keys: Vec<Key> = values.iter().map(|&value| plan.key(value)).collect();
        keys.sort_unstable();
        Arc::new(Table::build(*plan, role, &keys))
    };
    plan.tables().iter().enumerate().skip(1).map(table).collect()
}
