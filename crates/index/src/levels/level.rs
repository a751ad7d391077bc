//! Building a level: from a delta, or from small segments that are merged into a large one.

use std::sync::Arc;

use crate::buckets;
use crate::document::Sequence;
use crate::id_key::IdKey;
use crate::labels::tables::{LabelTables, LabelTarget};
use crate::levels::posting::{Common, Posting};
use crate::levels::segment::{FingerprintRow, Segment, SegmentBuilder};
use crate::levels::sorted::Sorted;
use crate::memory::placed::Placement;
use crate::permutation::Permuted;
use crate::plan::{Key, Plan, Plans, TablePlan};
use crate::tables::table::{Number, Table};

/// A segment and its secondary tables.
#[derive(Debug, Clone)]
pub struct Level {
    pub segment: Arc<Segment>,
    /// The secondary tables of a large segment, by role.
    pub secondary_tables: Vec<Arc<Table>>,
}

/// The properties of a level that are known before its rows.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    pub plans: &'a Plans,
    /// Whether the segment is small.
    pub small: bool,
    /// The approximate number of fingerprints.
    pub count: usize,
    /// The parts that all postings share.
    pub common: Common,
    /// Whether there are no older levels, so that removals and resets are dropped.
    pub oldest: bool,
}

impl Level {
    /// Builds a level from entries in any order, any number for each fingerprint; `add` applies the
    /// entries of a fingerprint to its row, the smallest first, and `numbered` gets the number that
    /// the fingerprint of an entry has now. All entries are sorted with their keys at once, so they
    /// are in memory a second time meanwhile.
    pub(crate) fn of<T: Copy + Ord>(
        expected: Expected<'_>,
        entries: impl Iterator<Item = (Permuted, T)>,
        (add, mut numbered): (impl Fn(T, &mut FingerprintRow), impl FnMut(T, Number)),
        ids: impl IntoIterator<Item = (IdKey, Permuted, Sequence)>,
        labels: impl FnOnce(&LabelTarget<'_>) -> LabelTables,
    ) -> Self {
        let Expected { plans, small, count, common, oldest } = expected;
        let large = &plans.large;
        let order = if small { buckets::ORDER } else { large.tables()[0] };
        let mut sorted = Vec::with_capacity(count);
        sorted.extend(entries.map(|(value, entry)| (order.key(value), entry)));
        sorted.sort_unstable();
        let mut builder = if small {
            SegmentBuilder::small(large.distance_max(), count, common)
        } else {
            SegmentBuilder::large(&Placement::Memory, order, sorted.len() as u64, common)
        };
        let mut row = FingerprintRow::default();
        for same in sorted.chunk_by(|a, b| a.0 == b.0) {
            row.clear();
            for &(_, entry) in same {
                add(entry, &mut row);
            }
            if oldest {
                row.forget_older();
            }
            if let Some(number) = builder.push(same[0].0, &row) {
                for &(_, entry) in same {
                    numbered(entry, number);
                }
            }
        }
        drop(sorted);
        let segment = builder.finish(ids, labels);
        let secondary_tables =
            if small { Vec::new() } else { secondary_tables_of(large, segment.sorted()) };
        Self { segment: Arc::new(segment), secondary_tables }
    }

    /// The level of `count` documents without id and sketch, put one after the other from a change
    /// on; for collections that are known as a whole.
    pub fn of_bare(
        plans: &Plans,
        (first, count): (Sequence, u64),
        values: impl Iterator<Item = Permuted>,
    ) -> Self {
        let posting = |sequence| Posting { sequence, ..Posting::default() };
        let end = Sequence::new((first.get() + count).saturating_sub(1));
        let common = Common::of(posting(first)).and(Common::of(posting(end)));
        let small = plans.is_small(count);
        let expected = Expected { plans, small, count: count as usize, common, oldest: true };
        let puts = values.take(count as usize).zip(first.get()..);
        let add = |sequence, row: &mut FingerprintRow| row.put(posting(Sequence::new(sequence)));
        Self::of(expected, puts, (add, |_, _| {}), [], |_| LabelTables::default())
    }
}

/// The secondary tables of a plan, for the fingerprints of its first table.
fn secondary_tables_of(plan: &Plan, first: &Sorted) -> Vec<Arc<Table>> {
    let table = |(role, plan): (usize, &TablePlan)| {
        let value = |key| first.order().value(key);
        let mut keys: Vec<Key> = Vec::with_capacity(first.len());
        keys.extend(first.entries().map(|(key, _)| plan.key(value(key))));
        keys.sort_unstable();
        Arc::new(Table::build(*plan, role, &keys))
    };
    plan.tables().iter().enumerate().skip(1).map(table).collect()
}
