//! Tables against a list, random and skewed.

use std::collections::BTreeSet;

use nearprint_fingerprint::Distance;
use proptest::prelude::*;

use crate::plan::Plan;
use crate::tables::partition::Partition;
use crate::tables::table::build::TableBuilder;
use crate::tables::table::*;

/// Fingerprints that crowd in some places: whole runs of heads that are the same or next to each
/// other, so that cells have many lines.
fn crowded() -> impl Strategy<Value = Vec<u64>> {
    let run = (any::<u64>(), 0..64_u32, 1..200_u64, any::<bool>()).prop_map(
        |(base, shift, count, rotated)| {
            let spread = |i: u64| base ^ if rotated { i.rotate_left(shift) } else { i << 40 };
            (0..count).map(spread).collect::<Vec<u64>>()
        },
    );
    let scattered = prop::collection::vec(any::<u64>(), 0..400);
    (prop::collection::vec(run, 0..4), scattered).prop_map(|(runs, scattered)| {
        let all: BTreeSet<u64> = runs.into_iter().flatten().chain(scattered).collect();
        all.into_iter().collect()
    })
}

fn table_plans() -> impl Strategy<Value = (usize, TablePlan)> {
    (0..=12_u8).prop_flat_map(|distance| {
        let plan = Plan::of(Distance::new(distance).unwrap());
        let tables: Vec<_> = plan.tables().iter().copied().enumerate().collect();
        prop::sample::select(tables)
    })
}

fn build((role, plan): (usize, TablePlan), values: &[u64]) -> Table {
    let mut keys: Vec<Key> = values.iter().map(|&value| plan.key(value)).collect();
    keys.sort_unstable();
    Table::build(plan, role, &keys)
}

fn near(table: &Table, query: Permuted, radius: u32, distance: u32) -> BTreeSet<Permuted> {
    let (mut runs, mut candidates, mut found) = (Vec::new(), Vec::new(), BTreeSet::new());
    table.prefetch(query, radius);
    table.locate(query, radius, &mut runs);
    let scanned = table.scan(query, distance, &runs, &mut candidates);
    assert!(candidates.len() <= 2 * ENTRIES_AT_A_TIME as usize);
    table.compare((query, distance), (&candidates, &runs[scanned..]), &mut |value| {
        assert!(found.insert(value), "each is found once");
    });
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn every_entry_is_walked_over_in_order_and_found(
        table_plan in table_plans(),
        values in crowded(),
        step in 0..500_usize,
    ) {
        let table = build(table_plan, &values);
        let mut keys: Vec<Key> = values.iter().map(|&value| table_plan.1.key(value)).collect();
        keys.sort_unstable();
        prop_assert_eq!(table.entries().map(|(key, _)| key).collect::<Vec<_>>(), keys);
        let mut rest = table.entries();
        let mut walked: Vec<_> = rest.by_ref().take(step).collect();
        rest.for_each(|entry| walked.push(entry));
        prop_assert!(table.entries().eq(walked), "one at a time and all at once");
        prop_assert_eq!(table.len(), values.len() as u64);
        prop_assert_eq!(table.checked_count(), Some(values.len() as u64));
        for (key, number) in table.entries() {
            let value = table_plan.1.value(key);
            prop_assert_eq!(table.find(value), Some(number));
            prop_assert_eq!(table.value(number), value);
            prop_assert!((number as usize) < table.numbers());
            for absent in [value ^ 1, value ^ 1 << 33, !value] {
                prop_assert_eq!(table.find(absent).is_some(), values.contains(&absent));
            }
        }
    }

    /// All within the radius in the table's own bits and within the distance; nothing beyond the
    /// distance. What is further in its own bits may be found or not.
    #[test]
    fn a_look_up_finds_what_a_scan_finds(
        table_plan in table_plans(),
        values in crowded(),
        flips in prop::collection::vec(0..64_u32, 0..4),
        at in any::<prop::sample::Index>(),
        distance in 0..20_u32,
    ) {
        let table = build(table_plan, &values);
        let stored = if values.is_empty() { 7 } else { values[at.index(values.len())] };
        let query = flips.iter().fold(stored, |query, flip| query ^ 1 << flip);
        let plan = table_plan.1;
        for radius in 0..=plan.radius {
            let found = near(&table, query, radius, distance);
            let within = |value: &u64| (value ^ query).count_ones() <= distance;
            prop_assert!(found.iter().all(|value| within(value) && values.contains(value)));
            for value in values.iter().copied().filter(within) {
                if ((value ^ query) & plan.mask()).count_ones() <= radius {
                    prop_assert!(found.contains(&value), "{:x} near {:x}", value, query);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn partitions_are_the_table_and_become_it_again(
        (role, plan) in table_plans(),
        values in crowded(),
        query in any::<u64>(),
        distance in 0..40_u32,
    ) {
        let table = build((role, plan), &values);
        let entries: Vec<_> = table.entries().collect();
        let (partitions, places) = table.split().expect("a new table has partitions");
        let mut in_partitions = Vec::new();
        let mut found = BTreeSet::new();
        for (at, partition) in partitions.iter().enumerate() {
            prop_assert_eq!(partition.checked_count(), Some(partition.len()));
            prop_assert_eq!(partition.len(), partition.entries().count() as u64);
            prop_assert!(partition.split().is_none());
            for (key, number) in partition.entries() {
                let value = plan.value(key);
                prop_assert_eq!((partition.find(value), partition.value(number)), (Some(number), value));
                let found_in = partitions.iter().filter(|other| other.find(value).is_some());
                prop_assert_eq!(found_in.count(), 1);
                let whole = places.in_whole(at, number);
                prop_assert_eq!(places.in_partition(whole), (at, number));
                prop_assert!(places.range(at).contains(&whole));
                in_partitions.push((key, whole));
            }
            found.extend(near(partition, query, plan.radius, distance));
        }
        prop_assert_eq!(&in_partitions, &entries);
        prop_assert_eq!(found, near(&table, query, plan.radius, distance));
        let (again, _) = Table::joined(partitions.each_ref());
        prop_assert_eq!(again.checked_count(), Some(table.len()));
        prop_assert_eq!(again.entries().collect::<Vec<_>>(), entries);
    }

    #[test]
    fn a_table_built_by_partitions_is_the_one_built_at_once(
        (role, plan) in table_plans(),
        values in crowded(),
    ) {
        let table = build((role, plan), &values);
        let count = values.len() as u64;
        let mut builder = Some(TableBuilder::of_first_partition(plan, role, count));
        let mut entries = table.entries().peekable();
        let partitions: Vec<Table> = Partition::ALL
            .into_iter()
            .map(|partition| {
                let mut one = builder.take().expect("a builder each");
                while let Some((key, _)) =
                    entries.next_if(|(key, _)| Partition::of(head(*key)) == partition)
                {
                    one.push(key);
                }
                let (table, next) = one.finish_partition();
                builder = next;
                table
            })
            .collect();
        prop_assert!(builder.is_none());
        let counts = partitions.iter().map(Table::checked_count).collect::<Option<Vec<u64>>>();
        prop_assert_eq!(counts.map(|counts| counts.iter().sum()), Some(count));
        let partitions: Vec<&Table> = partitions.iter().collect();
        let (joined, _) = Table::joined(partitions.try_into().expect("as many"));
        prop_assert_eq!(&*joined.groups, &*table.groups);
        prop_assert_eq!(joined.lines.in_memory(), table.lines.in_memory());
        prop_assert_eq!((&joined.crowded, &joined.samples), (&table.crowded, &table.samples));
        prop_assert_eq!(joined.rests.stored(joined.numbers()), table.rests.stored(table.numbers()));
        prop_assert_eq!(joined.len(), table.len());
    }
}

/// Entries of one cell, more than a group counts with its 15 bits.
#[test]
fn a_crowd_is_found_and_takes_little_more_memory_than_others() {
    let plan = Plan::of(Distance::new(3).unwrap());
    let crowd: Vec<u64> = (0..100_000_u64)
        .map(|i| 7 << 32 | i.wrapping_mul(0x9e37_79b9) & 0xffff_ffff)
        .chain((0..1_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    for (role, &table_plan) in plan.tables().iter().enumerate() {
        let table = build((role, table_plan), &crowd);
        assert_eq!(table.crowded.is_empty(), role == 1, "their lower halves are spread");
        for value in crowd.iter().step_by(97).copied() {
            let number = table.find(value).unwrap();
            assert_eq!(table.value(number), value);
            assert!(near(&table, value ^ 0b101, 1, 2).contains(&value));
        }
        // All low halves are near, and yet few candidates are collected at a time.
        assert!(role == 1 || near(&table, crowd[0], 0, 64).len() >= 100_000);
        let bytes = table.bytes();
        assert!(bytes < 8 * crowd.len(), "{bytes} bytes in table {role}");
        let (partitions, _) = table.split().unwrap();
        assert_eq!(Table::joined(partitions.each_ref()).0.crowded, table.crowded);
    }
}

/// What an image may have that is not what a table wrote.
#[test]
fn parts_that_do_not_fit_each_other_are_refused() {
    let plan = Plan::of(Distance::new(3).unwrap()).tables()[0];
    let values: Vec<u64> = (0..5_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let table = build((0, plan), &values);
    let of = (plan, 0, table.geometry(), None);
    let whole = || {
        let rests = Array::copied(&table.rests.stored(table.numbers()));
        let lines = Array::copied(table.lines.in_memory());
        (Array::copied(&table.groups), Vec::new(), lines, rests)
    };
    let assembled = |(groups, crowded, lines, rests)| {
        Table::from_parts(of, (groups, crowded), (Array::into(lines), Array::into(rests)))
            .map(|table| table.len())
    };
    assert_eq!(assembled(whole()), Some(5_000));
    let mut parts = whole();
    parts.0.truncate(table.groups.len() - 1);
    assert_eq!(assembled(parts), None, "a group is missing");
    let mut parts = whole();
    parts.0.swap(3, 4);
    assert_eq!(assembled(parts), None, "groups are not in order");
    let mut parts = whole();
    parts.2.truncate(table.lines.len() - 1);
    assert_eq!(assembled(parts), None, "a line is missing");
    let mut parts = whole();
    parts.3.truncate(10);
    assert_eq!(assembled(parts), None, "what is left of heads is missing");
    let mut parts = whole();
    parts.1.push(CrowdedGroup { group: 3, ends: [0; 32] });
    assert_eq!(assembled(parts), None, "no group is crowded");
    let mut parts = whole();
    parts.0[3] = CellGroup::of(parts.0[3].first(), &[u32::MAX; 32]).0;
    assert_eq!(assembled(parts), None, "the ends of a crowded group are missing");
    let mut parts = whole();
    let mut ends = parts.0[3].ends(3, &[]);
    ends.swap(0, 31);
    parts.0[3] = CellGroup::of(parts.0[3].first(), &ends).0;
    assert_eq!(assembled(parts), None, "ends do not ascend");
}
