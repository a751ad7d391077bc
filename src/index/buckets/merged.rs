//! Merging the tables of small segments.
//!
//! The entries of a bucket are unordered, except in the first table. So a bucket of a merged table
//! is the concatenation of the inputs' buckets with the same key: it is copied sequentially, where
//! building would access the memory of each table at random.

use std::iter::zip;

use super::{BLOCK_BITS_MAX, Buckets, TINY_MAX, Table};
use crate::fingerprint::Distance;
use crate::index::permutation::Permuted;

impl Buckets {
    /// Makes the tables that [`Self::build`] would make of `values`, which are all or most of the
    /// fingerprints of the parts together.
    ///
    /// # Panics
    /// When there are more than [`super::COUNT_MAX`], or one that no part has.
    pub fn merge(distance_max: Distance, parts: &[&Self], values: &[Permuted]) -> Self {
        let is_alike =
            |part: &&Self| part.bits == BLOCK_BITS_MAX && part.plan.distance_max() == distance_max;
        // If most buckets are empty, walking through them takes longer than building.
        let are_full = values.len() >= parts.len() << BLOCK_BITS_MAX;
        if !parts.is_empty() && are_full && parts.iter().all(is_alike) {
            Self::joined(distance_max, parts, values)
        } else {
            Self::build(distance_max, values)
        }
    }

    /// Merges parts that are not tiny and have one plan.
    fn joined(distance_max: Distance, parts: &[&Self], values: &[Permuted]) -> Self {
        debug_assert!(values.len() > TINY_MAX, "a tiny segment has other blocks");
        let surplus = surplus(parts, values);
        let counts = |table: &Table| match table.role {
            0 => table.counts(values),
            _ => counts_of(table, parts, &surplus),
        };
        let (mut joined, counts) = Self::empty(distance_max, values.len(), counts);
        joined.fill(0, &counts[0], values);
        for role in 1..joined.tables.len() {
            joined.concatenate(role, parts, surplus.clone());
        }
        joined
    }

    /// Fills a table with the entries of the parts' tables, except `surplus`.
    fn concatenate(&mut self, role: usize, parts: &[&Self], mut surplus: Vec<Permuted>) {
        let table = &self.tables[role];
        surplus.sort_unstable_by_key(|&value| table.key(value));
        let mut surplus = &surplus[..];
        for key in 0..1 << BLOCK_BITS_MAX {
            let bucket = table.first_bucket + key as u32;
            let here = surplus.iter().take_while(|&&value| table.key(value) == key).count();
            let mut left_out = surplus[..here].to_vec();
            surplus = &surplus[here..];
            let (start, end) = self.directory.bucket(&self.words, bucket);
            let (mut middle_at, mut end_at) = (start as usize, self.ends(start, end) as usize);
            let words = &mut *self.words;
            for part in parts {
                let (start, end) = part.directory.bucket(&part.words, bucket);
                let (count, first_end) = (part.count_in(start, end), part.ends(start, end));
                let middles = &part.words[start as usize..][..count];
                let halves: &[u16] = bytemuck::cast_slice(&part.words);
                let ends = &halves[first_end as usize..][..count];
                if left_out.is_empty() {
                    words[middle_at..][..count].copy_from_slice(middles);
                    let halves: &mut [u16] = bytemuck::cast_slice_mut(words);
                    halves[end_at..][..count].copy_from_slice(ends);
                    (middle_at, end_at) = (middle_at + count, end_at + count);
                    continue;
                }
                for (i, (&middle, &end)) in (0..).zip(zip(middles, ends)) {
                    let places = (start + i, first_end + i);
                    let value = part.value_at(&part.words, (table, bucket), places.0, places.1);
                    if let Some(at) = left_out.iter().position(|&other| other == value) {
                        left_out.swap_remove(at);
                        continue;
                    }
                    words[middle_at] = middle;
                    let halves: &mut [u16] = bytemuck::cast_slice_mut(words);
                    halves[end_at] = end;
                    (middle_at, end_at) = (middle_at + 1, end_at + 1);
                }
            }
        }
    }
}

/// The entries of the parts that are not in `values`, or are there fewer times.
fn surplus(parts: &[&Buckets], values: &[Permuted]) -> Vec<Permuted> {
    let all: usize = parts.iter().map(|part| part.len()).sum();
    let mut surplus = Vec::with_capacity(all - values.len());
    if all == values.len() {
        return surplus;
    }
    let mut seen = vec![false; values.len()];
    for part in parts {
        let mut at = 0;
        for (value, _) in part.entries() {
            at += values[at..].iter().take_while(|&&other| other < value).count();
            let is_there = values.get(at) == Some(&value);
            if !is_there || std::mem::replace(&mut seen[at], true) {
                surplus.push(value);
            }
        }
    }
    surplus
}

/// The number of entries of each bucket of a table in the parts together, except `surplus`.
fn counts_of(table: &Table, parts: &[&Buckets], surplus: &[Permuted]) -> Vec<u32> {
    let mut counts = vec![0; 1 << table.key_bits];
    for part in parts {
        for (bucket, count) in (table.first_bucket..).zip(&mut counts) {
            let (start, end) = part.directory.bucket(&part.words, bucket);
            *count += part.count_in(start, end) as u32;
        }
    }
    for &value in surplus {
        counts[table.key(value)] -= 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARTS: usize = 3;

    /// What each bucket has, table by table.
    fn listed(buckets: &Buckets) -> Vec<Vec<Permuted>> {
        let of_bucket = |(table, bucket): (&Table, u32)| {
            let (start, end) = buckets.directory.bucket(&buckets.words, bucket);
            let (count, ends) = (buckets.count_in(start, end) as u32, buckets.ends(start, end));
            let place = (table, bucket);
            let value = |i| buckets.value_at(&buckets.words, place, start + i, ends + i);
            let mut values: Vec<Permuted> = (0..count).map(value).collect();
            values.sort_unstable();
            values
        };
        let of_table =
            |table: &Table| table.first_bucket..table.first_bucket + (1 << table.key_bits);
        let places =
            buckets.tables.iter().flat_map(|table| of_table(table).map(move |b| (table, b)));
        places.map(of_bucket).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn joined_are_the_tables_that_are_built(
            seed: u64,
            crowd in 0..2_000_u64,
            gone_share in prop_oneof![Just(0), 1..200_u64],
            several in any::<bool>(),
            distance_max in 0..=8_u8,
        ) {
            let random = |i: u64| seed.wrapping_add(i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let spread = (0..2 * PARTS as u64 * TINY_MAX as u64).map(random);
            let all: Vec<u64> = spread.chain((0..crowd).map(|i| seed ^ i << 20)).collect();
            let mut values = Vec::new();
            let mut of_parts = [const { Vec::new() }; PARTS];
            for (i, &value) in (0..).zip(&all) {
                let first = random(i) >> 32;
                // Half of them are in two parts, if any are.
                let count = if several { 1 + (first >> 16 & 1) } else { 1 };
                for at in first..first + count {
                    of_parts[at as usize % PARTS].push(value);
                }
                if gone_share == 0 || !first.is_multiple_of(gone_share) {
                    values.push(value);
                }
            }
            let distance_max = Distance::new(distance_max).unwrap();
            let build = |values: &mut Vec<u64>| {
                values.sort_unstable();
                values.dedup();
                Buckets::build(distance_max, values)
            };
            let built = build(&mut values);
            let parts = of_parts.each_mut().map(build);
            prop_assume!(values.len() > TINY_MAX);
            let joined = Buckets::joined(distance_max, &parts.each_ref(), &values);
            prop_assert_eq!(listed(&joined), listed(&built));
            prop_assert_eq!(joined.bytes(), built.bytes());
            prop_assert!(joined.entries().eq(built.entries()));
        }
    }

    #[test]
    fn what_cannot_be_joined_is_built() {
        let distance_max = Distance::new(3).unwrap();
        let values: Vec<u64> = (1..=140_000).map(|i: u64| i << 40 | i << 11 | 7).collect();
        let (few, many) = values.split_at(TINY_MAX);
        let [tiny, large] = [few, many].map(|values| Buckets::build(distance_max, values));
        let closer = Buckets::build(Distance::new(2).unwrap(), many);
        for parts in [&[][..], &[&tiny, &large], &[&tiny, &closer], &[&large]] {
            let values = if parts.len() == 1 { many } else { &values };
            let merged = Buckets::merge(distance_max, parts, values);
            assert_eq!(listed(&merged), listed(&Buckets::build(distance_max, values)));
        }
    }
}
