//! Building a level: from a delta, or from small segments that are merged into a large one.

use std::sync::Arc;

use crate::document::Sequence;
use crate::index::buckets;
use crate::index::levels::ids::IdKey;
use crate::index::levels::posting::{Common, Posting};
use crate::index::levels::segment::{Builder, Row, Segment};
use crate::index::levels::sorted::Sorted;
use crate::index::permutation::Permuted;
use crate::index::plan::{Key, Plan, Plans, TablePlan};
use crate::index::tables::table::Table;
use crate::index::tables::table::build;
use crate::index::tables::table::build::Counts;

/// Entries are sorted in pieces of about this many bytes, but in no more pieces than the maximum.
const PIECE_BYTES: u64 = 12 << 20;
const PIECES_MAX: u64 = 4;

/// A segment and its secondary tables.
#[derive(Debug, Clone)]
pub struct Level {
    /// The segment.
    pub segment: Arc<Segment>,
    /// The secondary tables of a large segment, by role.
    pub secondary_tables: Vec<Arc<Table>>,
}

/// The properties of a level that are known before its rows.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The index's plans.
    pub plans: &'a Plans,
    /// Whether the segment is small.
    pub small: bool,
    /// The approximate number of fingerprints.
    pub count: usize,
    /// What the postings have in common.
    pub common: Common,
    /// Whether there are no older levels, so that removals and resets are dropped.
    pub oldest: bool,
}

impl Level {
    /// Builds a level from entries in any order, any number for each fingerprint; `add` applies the
    /// entries of a fingerprint to its row, the smallest first. The entries of a large level are
    /// sorted with their keys one piece of the key space at a time, which needs memory for 12 MiB
    /// of them, or for a quarter of them if that is more.
    pub fn of<T: Copy + Ord, I: Iterator<Item = (Permuted, T)>>(
        expected: Expected<'_>,
        entries: impl Fn() -> I,
        add: impl Fn(T, &mut Row),
        ids: impl IntoIterator<Item = (IdKey, Permuted, Sequence)>,
    ) -> Self {
        let Expected { plans, small, count, common, oldest } = expected;
        let large = &plans.large;
        let order = if small { buckets::ORDER } else { large.tables()[0] };
        let keyed = || entries().map(|(value, entry)| (order.key(value), entry));
        let mut row = Row::default();
        let mut push = |builder: &mut Builder, sorted: &[(Key, T)]| {
            for same in sorted.chunk_by(|a, b| a.0 == b.0) {
                row.clear();
                for &(_, entry) in same {
                    add(entry, &mut row);
                }
                if oldest {
                    row.forget_older();
                }
                builder.push(same[0].0, &row);
            }
        };
        let builder = if small {
            let mut builder = Builder::small(large.distance_max(), count, common);
            let mut sorted = Vec::with_capacity(count);
            sorted.extend(keyed());
            sorted.sort_unstable();
            push(&mut builder, &sorted);
            builder
        } else {
            let builder = |counts: &Counts| Builder::large(counts, common);
            in_order(Counts::new(order, count as u64), builder, keyed, |item| item.0, push)
        };
        let segment = builder.finish(ids);
        let secondary_tables =
            if small { Vec::new() } else { secondary_tables_of(large, segment.sorted()) };
        Self { segment: Arc::new(segment), secondary_tables }
    }

    /// The level of `count` documents without id and sketch, put one after the other from the first
    /// change on; for collections that are known as a whole.
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

/// The secondary tables of a plan, for the fingerprints of its first table.
fn secondary_tables_of(plan: &Plan, first: &Sorted) -> Vec<Arc<Table>> {
    let values = || first.entries().map(|(key, _)| first.order().value(key));
    let table = |(role, plan): (usize, &TablePlan)| {
        let keys = || values().map(|value| plan.key(value));
        let counts = Counts::new(*plan, first.len() as u64);
        let builder = |counts: &Counts| build::Builder::new(role, counts);
        let push = |builder: &mut build::Builder, sorted: &[Key]| {
            for &key in sorted {
                builder.push(key);
            }
        };
        Arc::new(in_order(counts, builder, keys, |key| *key, push).finish())
    };
    plan.tables().iter().enumerate().skip(1).map(table).collect()
}

/// Builds something from items in the order of their keys: counts all items, then sorts them one
/// piece of the key space at a time. `items` is iterated over once for each piece.
fn in_order<T: Copy + Ord, I: Iterator<Item = T>, B>(
    mut counts: Counts,
    builder: impl FnOnce(&Counts) -> B,
    items: impl Fn() -> I,
    key: impl Fn(&T) -> Key,
    mut push: impl FnMut(&mut B, &[T]),
) -> B {
    let count = counts.expected();
    let pieces = (count * size_of::<T>() as u64).div_ceil(PIECE_BYTES).clamp(1, PIECES_MAX);
    let piece = |item: &T| ((u128::from(key(item)) * u128::from(pieces)) >> 64) as u64;
    // A little more than the mean size of a piece, since pieces differ in size.
    let room = (count / pieces + if pieces > 1 { count / 64 } else { 0 }) as usize;
    let mut sorted = Vec::with_capacity(room);
    items().for_each(|item| {
        counts.add(key(&item));
        if piece(&item) == 0 {
            sorted.push(item);
        }
    });
    let mut builder = builder(&counts);
    sorted.sort_unstable();
    push(&mut builder, &sorted);
    for next in 1..pieces {
        sorted.clear();
        items().for_each(|item| {
            if piece(&item) == next {
                sorted.push(item);
            }
        });
        sorted.sort_unstable();
        push(&mut builder, &sorted);
    }
    builder
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn items_come_in_order_however_many_pieces_are_made(
            expected in prop_oneof![Just(0), 0..8_000_000_u64],
            items in prop::collection::vec(any::<u64>(), 0..200),
            crowd in prop::collection::vec(0..9_u64, 0..20),
        ) {
            let all: Vec<Key> = items.into_iter().chain(crowd).collect();
            let plan = Plan::of(crate::fingerprint::Distance::new(3).unwrap());
            let counts = Counts::new(plan.tables()[0], expected);
            let items = || all.iter().copied();
            let push = |out: &mut Vec<Key>, piece: &[Key]| out.extend(piece);
            let pushed = in_order(counts, |_| Vec::new(), items, |key| *key, push);
            let mut sorted = all.clone();
            sorted.sort_unstable();
            prop_assert_eq!(pushed, sorted);
        }
    }
}
