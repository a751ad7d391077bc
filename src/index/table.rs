//! One sorted table: every fingerprint of a segment, rotated so that its key bits come first.
//!
//! A directory gives the start of each bucket; entries are kept as whole 64-bit words, sorted.
//! Memory: 8 bytes an entry and 4 a bucket. A probe costs one directory line and, where the bucket
//! is not empty, its first data line; the probes of a look-up are independent of each other, so
//! their misses overlap.

use std::ops::Range;

use crate::index::array::Array;
use crate::index::permutation::Permuted;
use crate::index::plan::TablePlan;

/// How many entries share a cache line.
const LINE_ENTRIES: usize = 8;

/// Of a long bucket this many entries are loaded ahead; the processor foresees the rest.
const LOADED_MAX: u32 = 64;

/// An immutable sorted table.
#[derive(Debug)]
pub struct Table {
    plan: TablePlan,
    /// What to flip in a key to get those near it, fewest bits first.
    flips: Box<[u32]>,
    /// Where each bucket starts, and the end of the last.
    starts: Array<u32>,
    /// Rotated by `plan.first_bit`, ascending.
    entries: Array<u64>,
}

impl Table {
    /// Builds the table of distinct permuted fingerprints, ascending. Cost: a counting pass, a
    /// scatter, and a sort inside each bucket.
    pub fn build(plan: TablePlan, sorted: &[Permuted]) -> Self {
        let shift = 64 - plan.key_bits;
        let rotated = |value: &Permuted| value.rotate_left(plan.first_bit);
        let mut starts = directory(plan, sorted);
        let mut entries = Array::zeros(sorted.len());
        // Each start serves as its bucket's write position and ends up at the next start.
        for value in sorted {
            let next = &mut starts[(rotated(value) >> shift) as usize];
            entries[*next as usize] = rotated(value);
            *next += 1;
        }
        starts.copy_within(..(1 << plan.key_bits), 1);
        starts[0] = 0;
        for bucket in starts.windows(2).filter(|bucket| bucket[1] - bucket[0] > 1) {
            entries[bucket[0] as usize..bucket[1] as usize].sort_unstable();
        }
        Self::of(plan, starts, entries)
    }

    /// The table whose key bits come first takes the fingerprints as they are.
    pub fn build_first(plan: TablePlan, sorted: Array<Permuted>) -> Self {
        debug_assert_eq!(plan.first_bit, 0, "other tables are rotated");
        Self::of(plan, directory(plan, &sorted), sorted)
    }

    fn of(plan: TablePlan, starts: Array<u32>, entries: Array<u64>) -> Self {
        let flips = masks_within(plan.key_bits, plan.radius).map(|mask| mask as u32).collect();
        Self { plan, flips, starts, entries }
    }

    /// What it was built by.
    pub fn plan(&self) -> TablePlan {
        self.plan
    }

    /// Appends the buckets of all keys within `radius` of the query's: the first step of a look-up.
    /// The loads depend on nothing before them, so that their cache misses overlap.
    pub fn buckets(&self, query: Permuted, radius: u32, into: &mut Vec<Bucket>) {
        let key = query.rotate_left(self.plan.first_bit) >> (64 - self.plan.key_bits);
        let starts = &*self.starts;
        into.extend(self.flips_within(radius).iter().map(|&flips| {
            let bucket = (key ^ u64::from(flips)) as usize;
            Bucket { start: starts[bucket], end: starts[bucket + 1] }
        }));
    }

    /// How many buckets a look-up with this radius visits.
    pub fn probes(&self, radius: u32) -> usize {
        self.flips_within(radius).len()
    }

    /// Loads the lines of some buckets: the second step, done for all buckets before any is
    /// compared, so that these misses overlap too.
    pub fn load<'a>(&self, buckets: impl Iterator<Item = &'a Bucket>) -> u64 {
        let entries = &*self.entries;
        let mut loaded = 0;
        for bucket in buckets {
            let end = bucket.end.min(bucket.start + LOADED_MAX);
            for at in (bucket.start..end).step_by(LINE_ENTRIES) {
                loaded ^= entries[at as usize];
            }
        }
        loaded
    }

    /// Calls `found` with every entry of a bucket within `distance` of the query in all bits; the
    /// entry is rotated back. The third step.
    pub fn compare(
        &self,
        bucket: Bucket,
        query: Permuted,
        distance: u32,
        found: &mut impl FnMut(Permuted),
    ) {
        let rotated = query.rotate_left(self.plan.first_bit);
        let entries = &*self.entries;
        for &entry in &entries[bucket.start as usize..bucket.end as usize] {
            if (entry ^ rotated).count_ones() <= distance {
                found(entry.rotate_right(self.plan.first_bit));
            }
        }
    }

    /// The rank of a fingerprint among the entries, if it is there. Only for the table whose key
    /// bits come first, whose order is the segment's.
    pub fn rank(&self, value: Permuted) -> Option<u32> {
        debug_assert_eq!(self.plan.first_bit, 0, "ranks are those of the first table");
        let bucket = self.bucket(value >> (64 - self.plan.key_bits));
        let within = self.entries[bucket.clone()].binary_search(&value).ok()?;
        Some((bucket.start + within) as u32)
    }

    /// All entries, ascending, rotated.
    pub fn entries(&self) -> &[u64] {
        &self.entries
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.flips) + self.starts.bytes() + self.entries.bytes()
    }

    fn flips_within(&self, radius: u32) -> &[u32] {
        let count = self.flips.partition_point(|flips| flips.count_ones() <= radius);
        &self.flips[..count]
    }

    fn bucket(&self, key: u64) -> Range<usize> {
        self.starts[key as usize] as usize..self.starts[key as usize + 1] as usize
    }
}

/// Where each bucket of the table starts, and the end of the last.
fn directory(plan: TablePlan, sorted: &[Permuted]) -> Array<u32> {
    let mut starts = Array::zeros((1 << plan.key_bits) + 1);
    for value in sorted {
        let key = value.rotate_left(plan.first_bit) >> (64 - plan.key_bits);
        starts[key as usize + 1] += 1;
    }
    for bucket in 1..starts.len() {
        starts[bucket] += starts[bucket - 1];
    }
    starts
}

/// A run of entries with one key.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    start: u32,
    end: u32,
}

/// Every mask over the low `bits` bits with at most `ones` bits set, fewest first.
pub fn masks_within(bits: u32, ones: u32) -> impl Iterator<Item = u64> {
    let end = 1_u64 << bits;
    (0..=ones.min(bits)).flat_map(move |count| {
        // Gosper's hack: the next larger number with the same number of ones.
        std::iter::successors(Some((1_u64 << count) - 1), |&mask| {
            let lowest = mask & mask.wrapping_neg();
            let carried = mask.checked_add(lowest).filter(|_| mask != 0)?;
            Some(carried | (((mask ^ carried) >> 2) / lowest))
        })
        .take_while(move |&mask| mask < end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn masks_are_all_and_each_once() {
        for (bits, ones) in [(1, 0), (1, 1), (5, 2), (22, 1), (9, 3), (4, 8)] {
            let mut masks: Vec<u64> = masks_within(bits, ones).collect();
            masks.sort_unstable();
            let expected: Vec<u64> =
                (0..1 << bits).filter(|mask: &u64| mask.count_ones() <= ones).collect();
            assert_eq!(masks, expected, "{bits} bits, {ones} ones");
        }
    }

    proptest! {
        #[test]
        fn any_table_finds_what_a_scan_of_its_key_finds(
            mut values in prop::collection::vec(any::<u64>(), 0..300),
            first_bit in 0_u32..60,
            key_bits in 1_u32..8,
            radius in 0_u32..3,
            distance in 0_u32..30,
        ) {
            values.sort_unstable();
            values.dedup();
            let query = values.first().map_or(7, |value| value ^ 0x8100_0000_0000_0001);
            let plan = TablePlan { first_bit, key_bits: key_bits.min(64 - first_bit), radius };
            let table = Table::build(plan, &values);
            let mut found = Vec::new();
            let mut buckets = Vec::new();
            table.buckets(query, radius, &mut buckets);
            prop_assert_eq!(buckets.len(), table.probes(radius));
            for bucket in buckets {
                table.compare(bucket, query, distance, &mut |value| found.push(value));
            }
            found.sort_unstable();
            let expected: Vec<u64> = values
                .iter()
                .copied()
                .filter(|value| ((value ^ query) & plan.mask()).count_ones() <= radius)
                .filter(|value| (value ^ query).count_ones() <= distance)
                .collect();
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn the_first_table_ranks_every_entry(mut values in prop::collection::vec(any::<u64>(), 1..200)) {
            values.sort_unstable();
            values.dedup();
            let plan = TablePlan { first_bit: 0, key_bits: 6, radius: 0 };
            let table = Table::build_first(plan, Array::copied(&values));
            for (rank, &value) in values.iter().enumerate() {
                prop_assert_eq!(table.rank(value), Some(rank as u32));
                prop_assert_eq!(
                    table.rank(value ^ 1),
                    values.binary_search(&(value ^ 1)).ok().map(|rank| rank as u32)
                );
            }
        }
    }
}
