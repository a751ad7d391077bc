//! Tables against a list, random and skewed.

use std::collections::BTreeSet;

use nearprint_fingerprint::Distance;
use proptest::prelude::*;

use crate::plan::Plan;
use crate::tables::partition::Partition;
use crate::tables::table::build::{EntryCounts, TableBuilder};
use crate::tables::table::*;

/// Fingerprints that crowd in some places: whole runs of heads that are the same or next to each
/// other, so that lines overflow into the next ones and into extra lines.
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
    let (mut visits, mut found) = (Vec::new(), BTreeSet::new());
    table.locate(query, radius, &mut visits);
    table.compare((query, radius), distance, &visits, &mut |value| {
        found.insert(value);
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
        prop_assert!(table.is_sound());
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
            prop_assert!(partition.is_sound());
            prop_assert_eq!(partition.len(), partition.entries().count() as u64);
            prop_assert!(partition.split().is_none());
            for (key, number) in partition.entries() {
                let value = plan.value(key);
                prop_assert_eq!((partition.find(value), partition.value(number)), (Some(number), value));
                let found_in = partitions.iter().filter(|other| other.find(value).is_some());
                prop_assert_eq!(found_in.count(), 1);
                let whole = places.in_whole(at, number);
                prop_assert_eq!(places.in_partition(whole), (at, number));
                let mut runs = places.runs(at).into_iter();
                prop_assert!(runs.any(|(run, from)| run.start + number.wrapping_sub(from) == whole
                    && run.contains(&whole)));
                in_partitions.push((key, whole));
            }
            found.extend(near(partition, query, plan.radius, distance));
        }
        prop_assert_eq!(&in_partitions, &entries);
        prop_assert_eq!(found, near(&table, query, plan.radius, distance));
        let (again, _) = Table::joined(partitions.each_ref());
        prop_assert!(again.is_sound());
        prop_assert_eq!(again.entries().collect::<Vec<_>>(), entries);
    }

    #[test]
    fn a_table_built_by_partitions_is_the_one_built_at_once(
        (role, plan) in table_plans(),
        values in crowded(),
    ) {
        let table = build((role, plan), &values);
        let mut counts = EntryCounts::new(plan, values.len() as u64);
        table.entries().for_each(|(key, _)| counts.add(key));
        let mut builders = TableBuilder::partitions(role, &counts).expect("a new table has partitions");
        for (key, _) in table.entries() {
            builders[Partition::of(head(key)).index()].push(key);
        }
        let partitions = builders.map(TableBuilder::finish);
        prop_assert!(partitions.iter().all(Table::is_sound));
        let (joined, _) = Table::joined(partitions.each_ref());
        prop_assert_eq!(&*joined.directory, &*table.directory);
        prop_assert_eq!(&*joined.lines, &*table.lines);
        prop_assert_eq!(&*joined.extra_lines, &*table.extra_lines);
        prop_assert_eq!((&joined.extras, joined.len()), (&table.extras, table.len()));
    }
}

#[test]
fn crowds_go_to_the_next_lines_and_then_to_extra_lines() {
    let plan = Plan::of(Distance::new(3).unwrap()).tables()[0];
    let crowd: Vec<u64> = (0..1_000).collect();
    let table = build((0, plan), &crowd);
    assert!(table.lines.iter().any(|line| line.span() == SPAN_MAX));
    assert!(!table.extras.is_empty() && table.extra_lines.len() > 50);
    let spread: Vec<u64> =
        (0..100_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let table = build((0, plan), &spread);
    assert!(table.extras.is_empty(), "an even collection needs none");
}

/// Lines that would be shared evenly stay empty, and those after the table are full.
#[test]
fn a_crowd_takes_at_most_thrice_the_memory_of_others() {
    let plan = Plan::of(Distance::new(3).unwrap());
    let crowd: Vec<u64> =
        (0..100_000_u64).map(|i| 7 << 32 | i.wrapping_mul(0x9e37_79b9) & 0xffff_ffff).collect();
    for (role, &table_plan) in plan.tables().iter().enumerate() {
        let bytes = build((role, table_plan), &crowd).bytes();
        assert!(bytes < 24 * crowd.len(), "{bytes} bytes in table {role}");
    }
}

/// Entries at random places, and the same moved together in the first eighth of each 512th.
#[test]
fn ranges_are_fine_where_entries_are_skewed() {
    let plan = Plan::of(Distance::new(3).unwrap()).tables()[0];
    let count = 400_000_u64;
    let geometry = Geometry::of(plan, count);
    let fine = geometry.fine(count).range_bits;
    assert!(geometry.range_bits < fine);
    let random = |i: u64| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).swap_bytes();
    let crowd = |key: u64| key >> 55 << 55 | (key << 9 >> 12);
    let range_bits = |keys: &mut dyn Iterator<Item = u64>| {
        let mut keys: Vec<u64> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        let table = Table::build(plan, 0, &keys);
        assert!(keys.iter().all(|&key| table.find(plan.value(key)).is_some()));
        table.geometry().range_bits
    };
    assert_eq!(range_bits(&mut (0..count).map(random)), geometry.range_bits);
    assert_eq!(range_bits(&mut (0..count).map(random).map(crowd)), fine);
}
