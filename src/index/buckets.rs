//! The tables of a small segment: one for each block of 16 bits, as in Manku et al. 2007, section 3.
//!
//! ```text
//!   a fingerprint, rotated so that the table's block comes first
//!   +--- 16 bits: key ---+------ 32 bits: middle ------+--- 16 bits: end ---+
//!            |                        |                          |
//!     directory[key] .. [key + 1]: a bucket; its middles are compared, 16 at a time;
//!                                     the end is read where a middle is near
//! ```
//!
//! A look-up at distance 3 visits four buckets: with a million fingerprints 15 entries each, which are
//! one or two lines, and a line of the directory. So it costs a third of the lines of
//! [`crate::index::table`] as long as the buckets are short. No entry depends on the others, so that a
//! table is built by counting, without sorting.
//!
//! All tables lie one behind the other, so that they share large pages. Memory: 6 bytes an entry and
//! table, and 256 KiB of directory a table; a tiny segment has blocks of 8 bits, whose directory takes
//! 1 KiB, and ends of 24 bits, which take 32. Immutable.

use crate::fingerprint::Distance;
use crate::index::array::Array;
use crate::index::geometry;
use crate::index::permutation::Permuted;
use crate::index::plan::{BLOCK_BITS_MAX, Key, Plan, TablePlan};
use crate::index::table::Number;
use crate::kernel::scan::{self, WORDS_MAX};
use crate::kernel::{self, Simd};

/// Middles in a cache line.
pub const MIDDLES_A_LINE: u32 = 16;

/// Up to so many fingerprints, the blocks have 8 bits: buckets of 16 on average.
const TINY_MAX: usize = 1 << 12;
const TINY_BLOCK_BITS: u32 = 8;

/// No more fingerprints than this: the places of four tables are numbered together.
pub const COUNT_MAX: usize = (u32::MAX / 4) as usize;

/// Bytes of so many tables with `count` entries each; `count` is not tiny.
pub fn bytes(tables: usize, count: u64) -> u64 {
    let entry = (size_of::<u32>() + size_of::<u16>()) as u64;
    let directory = (size_of::<u32>() as u64) << BLOCK_BITS_MAX;
    tables as u64 * (directory + count * entry)
}

/// What small segments are sorted by: the fingerprints as they are.
pub const ORDER: TablePlan = TablePlan { first_bit: 0, key_bits: 16, radius: 0, folded: false };

/// The tables of a small segment.
#[derive(Debug)]
pub struct Buckets {
    plan: Box<Plan>,
    /// By role. The first has its entries in the order of the fingerprints, which makes it the sorted list of
    /// all.
    tables: Vec<Table>,
    /// The directory, then the middles. Where each bucket begins, table by table, and where the last
    /// one ends: places among the entries of all tables.
    words: Array<u32>,
    /// One or, in a tiny segment, two for each entry.
    ends: Array<u16>,
    /// Entries of each table.
    count: u32,
    /// Bits of a block.
    bits: u32,
    /// How many lines to load of a bucket.
    lines_a_bucket: u32,
}

/// All fingerprints of a segment by one block of their bits.
#[derive(Debug)]
struct Table {
    plan: TablePlan,
    /// The place of its first bucket in the directory.
    first_bucket: u32,
    /// What to flip in a key to get those within the radius, the nearest first.
    flips: Box<[u32]>,
}

impl Buckets {
    /// The tables of distinct fingerprints, ascending, exact up to a distance.
    ///
    /// # Panics
    /// When there are more than [`COUNT_MAX`].
    pub fn build(distance_max: Distance, values: &[Permuted]) -> Self {
        debug_assert!(values.is_sorted_by(|a, b| a < b), "fingerprints ascend");
        let tiny = values.len() <= TINY_MAX;
        let bits = if tiny { TINY_BLOCK_BITS } else { BLOCK_BITS_MAX };
        let plan = Plan::blocks(bits, distance_max);
        let tables: Vec<Table> = (0..).zip(plan.tables()).map(Table::of).collect();
        let entries = values.len() * tables.len();
        assert!(values.len() <= COUNT_MAX, "a small segment is small");
        let mut buckets = Self {
            words: Array::zeros((tables.len() << bits) + 1 + entries),
            ends: Array::zeros(if tiny { 2 * entries } else { entries }),
            bits,
            count: values.len() as u32,
            // One more: few buckets begin where a line does.
            lines_a_bucket: 1 + (values.len() as u32 >> bits).div_ceil(MIDDLES_A_LINE),
            plan: Box::new(plan),
            tables: Vec::new(),
        };
        let (directory, middles) = buckets.words.split_at_mut((tables.len() << bits) + 1);
        for table in &tables {
            for &value in values {
                directory[table.bucket(value) as usize] += 1;
            }
        }
        let mut next = vec![0; directory.len()];
        let mut start = 0;
        for (next, place) in next.iter_mut().zip(directory) {
            *next = start;
            start += std::mem::replace(place, start);
        }
        for table in &tables {
            for &value in values {
                let next = &mut next[table.bucket(value) as usize];
                let (middle, end) = table.middle_and_end(value);
                middles[*next as usize] = middle;
                if tiny {
                    buckets.ends[2 * *next as usize + 1] = (end >> 16) as u16;
                    buckets.ends[2 * *next as usize] = end as u16;
                } else {
                    buckets.ends[*next as usize] = end as u16;
                }
                *next += 1;
            }
        }
        Self { tables, ..buckets }
    }

    /// Before a look-up of a batch: has the directory loaded where most of it will begin.
    pub fn expect_buckets(&self, query: Permuted) {
        for table in &self.tables {
            kernel::prefetch(&self.words, table.bucket(query));
        }
    }

    /// The first step of a look-up: appends where each bucket to visit begins and ends, and has its
    /// entries loaded.
    pub fn locate(&self, query: Permuted, distance: Distance, visits: &mut Vec<u32>) {
        let (directory, middles) = self.parts();
        for (table, radius) in self.searched(distance) {
            let bucket = table.bucket(query);
            for flip in table.flips_within(radius) {
                let bucket = (bucket ^ flip) as usize;
                let (start, end) = (directory[bucket], directory[bucket + 1]);
                self.prefetch_bucket(middles, start);
                visits.extend([start, end]);
                // Where one bucket is all there is to visit, a match is rather in it than not.
                if radius == 0 {
                    kernel::prefetch(&self.ends, start);
                }
            }
        }
    }

    /// The second step: calls `found` with every fingerprint within `distance` of the query in the
    /// buckets that were located. One that lies in several of them is found more than once.
    pub fn compare(
        &self,
        query: Permuted,
        distance: Distance,
        visits: &[u32],
        found: &mut impl FnMut(Permuted),
    ) {
        let (simd, middles) = (Simd::best(), self.parts().1);
        let mut visits = visits.chunks_exact(2);
        let most = u32::from(distance.get());
        for (table, radius) in self.searched(distance) {
            let (bucket, (word, _)) = (table.bucket(query), table.middle_and_end(query));
            for (flip, visit) in table.flips_within(radius).iter().zip(visits.by_ref()) {
                for first in (visit[0]..visit[1]).step_by(WORDS_MAX) {
                    let words = &middles[first as usize..visit[1].min(first + STEP) as usize];
                    let mut near = scan::scan_words(simd, words, word, most);
                    while near != 0 {
                        let value =
                            self.value_in(table, bucket ^ flip, first + near.trailing_zeros());
                        if (value ^ query).count_ones() <= most {
                            found(value);
                        }
                        near &= near - 1;
                    }
                }
            }
        }
    }

    /// Has the line loaded where [`Self::find`] will begin.
    pub fn expect(&self, value: Permuted) {
        let (directory, middles) = self.parts();
        self.prefetch_bucket(middles, directory[self.first().bucket(value) as usize]);
    }

    /// Where a fingerprint lies among all, ascending, if it is there.
    pub fn find(&self, value: Permuted) -> Option<Number> {
        let (directory, middles) = self.parts();
        let bucket = self.first().bucket(value) as usize;
        let (start, end) = (directory[bucket], directory[bucket + 1]);
        let (middle, last) = self.first().middle_and_end(value);
        (start..end).step_by(WORDS_MAX).find_map(|from| {
            let words = &middles[from as usize..end.min(from + STEP) as usize];
            let mut same = scan::scan_words(Simd::best(), words, middle, 0);
            while same != 0 {
                let number = from + same.trailing_zeros();
                if self.end(number) == last {
                    return Some(number);
                }
                same &= same - 1;
            }
            None
        })
    }

    /// The fingerprint with a number: that many are smaller.
    pub fn value(&self, number: Number) -> Permuted {
        let after = self.parts().0[..1 << self.bits].partition_point(|&start| start <= number);
        self.value_in(self.first(), (after - 1) as u32, number)
    }

    /// All fingerprints, ascending, with their numbers.
    pub fn entries(&self) -> Entries<'_> {
        Entries { buckets: self, bucket: 0, number: 0 }
    }

    /// How many fingerprints it has.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.words.bytes() + self.ends.bytes()
    }

    /// As many lines as buckets have on average: how many this one has cannot be foreseen, and to
    /// wait for it would cost more.
    #[inline]
    fn prefetch_bucket(&self, middles: &[u32], start: u32) {
        for line in 0..self.lines_a_bucket {
            kernel::prefetch(middles, start + line * MIDDLES_A_LINE);
        }
    }

    fn first(&self) -> &Table {
        &self.tables[0]
    }

    /// The directory and the middles.
    fn parts(&self) -> (&[u32], &[u32]) {
        self.words.split_at((self.tables.len() << self.bits) + 1)
    }

    fn searched(&self, distance: Distance) -> impl Iterator<Item = (&Table, u32)> {
        self.tables
            .iter()
            .zip(self.plan.radii(distance))
            .filter_map(|(table, radius)| Some((table, (*radius)?)))
    }

    fn value_in(&self, table: &Table, bucket: u32, at: u32) -> Permuted {
        let (middle, end) = (u64::from(self.parts().1[at as usize]), u64::from(self.end(at)));
        let key = u64::from(bucket - table.first_bucket);
        let rotated = key << (64 - self.bits) | middle << (32 - self.bits) | end;
        rotated.rotate_right(table.plan.first_bit)
    }

    #[inline]
    fn end(&self, at: u32) -> u32 {
        let at = at as usize;
        if self.bits == BLOCK_BITS_MAX {
            return u32::from(self.ends[at]);
        }
        u32::from(self.ends[2 * at]) | u32::from(self.ends[2 * at + 1]) << 16
    }
}

const STEP: u32 = WORDS_MAX as u32;

impl Table {
    fn of((role, plan): (u32, &TablePlan)) -> Self {
        let flips = geometry::flips(plan.key_bits, plan.radius);
        Self {
            plan: *plan,
            first_bucket: role << plan.key_bits,
            flips: flips.iter().map(|flips| flips >> (32 - plan.key_bits)).collect(),
        }
    }

    #[inline]
    fn rotated(&self, value: Permuted) -> u64 {
        value.rotate_left(self.plan.first_bit)
    }

    /// The place of a fingerprint's bucket in the directory.
    #[inline]
    fn bucket(&self, value: Permuted) -> u32 {
        self.first_bucket | (self.rotated(value) >> (64 - self.plan.key_bits)) as u32
    }

    /// The 32 bits behind the key, and those behind these.
    #[inline]
    fn middle_and_end(&self, value: Permuted) -> (u32, u32) {
        let rest = self.rotated(value) << self.plan.key_bits;
        ((rest >> 32) as u32, (rest << 32 >> 32 >> self.plan.key_bits) as u32)
    }

    fn flips_within(&self, radius: u32) -> &[u32] {
        let near = |flips: &u32| flips.count_ones() <= radius;
        &self.flips[..self.flips.partition_point(near)]
    }
}

/// The fingerprints of a small segment, ascending, with their numbers.
#[derive(Debug)]
pub struct Entries<'a> {
    buckets: &'a Buckets,
    /// That of the next entry, or one before it.
    bucket: u32,
    number: Number,
}

impl Iterator for Entries<'_> {
    type Item = (Key, Number);

    #[inline]
    fn next(&mut self) -> Option<(Key, Number)> {
        let number = self.number;
        if number == self.buckets.count {
            return None;
        }
        while self.buckets.words[self.bucket as usize + 1] <= number {
            self.bucket += 1;
        }
        self.number += 1;
        Some((self.buckets.value_in(self.buckets.first(), self.bucket, number), number))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Some fingerprints anywhere and some that share many bits, so that buckets of 0 to 100 entries
    /// come up.
    fn values() -> impl Strategy<Value = Vec<u64>> {
        let crowd = (any::<u64>(), 0..64_u32, 0..100_u64).prop_map(|(base, shift, count)| {
            (0..count).map(|i| base ^ i.rotate_left(shift)).collect::<Vec<u64>>()
        });
        (prop::collection::vec(crowd, 0..3), prop::collection::vec(any::<u64>(), 0..200)).prop_map(
            |(crowds, scattered)| {
                let all: BTreeSet<u64> = crowds.into_iter().flatten().chain(scattered).collect();
                all.into_iter().collect()
            },
        )
    }

    /// Tiny, or so many that they are not.
    fn padded(values: Vec<u64>, tiny: bool) -> Vec<u64> {
        let more = if tiny { 0 } else { TINY_MAX as u64 };
        let more = (1..=more).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        values.into_iter().chain(more).collect::<BTreeSet<u64>>().into_iter().collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn every_fingerprint_is_walked_over_in_order_and_found(
            values in (values(), any::<bool>()).prop_map(|(values, tiny)| padded(values, tiny)),
            distance in 0..=8_u8,
            absent: u64,
        ) {
            let buckets = Buckets::build(Distance::new(distance).unwrap(), &values);
            let numbered: Vec<(u64, u32)> = values.iter().copied().zip(0..).collect();
            prop_assert_eq!(buckets.entries().collect::<Vec<_>>(), numbered.clone());
            prop_assert_eq!((buckets.len(), buckets.is_empty()), (values.len(), values.is_empty()));
            for (value, number) in numbered {
                prop_assert_eq!(buckets.find(value), Some(number));
                prop_assert_eq!(buckets.value(number), value);
                for absent in [absent, value ^ 1, value ^ 1 << 20, value ^ 1 << 63] {
                    let is_there = values.binary_search(&absent).is_ok();
                    prop_assert_eq!(buckets.find(absent).is_some(), is_there);
                }
            }
        }

        /// Exactly what lies within the distance: here the pigeonhole principle is at work.
        #[test]
        fn a_look_up_finds_what_a_scan_finds(
            values in (values(), any::<bool>()).prop_map(|(values, tiny)| padded(values, tiny)),
            flips in prop::collection::vec(0..64_u32, 0..9),
            at in any::<prop::sample::Index>(),
            distance_max in 0..=8_u8,
        ) {
            let buckets = Buckets::build(Distance::new(distance_max).unwrap(), &values);
            let stored = if values.is_empty() { 7 } else { values[at.index(values.len())] };
            let query = flips.iter().fold(stored, |query, flip| query ^ 1 << flip);
            for distance in 0..=distance_max {
                let within = Distance::new(distance).unwrap();
                let (mut visits, mut found) = (Vec::new(), BTreeSet::new());
                buckets.locate(query, within, &mut visits);
                buckets.compare(query, within, &visits, &mut |value| {
                    found.insert(value);
                });
                let within = |value: &u64| (value ^ query).count_ones() <= u32::from(distance);
                let scanned: BTreeSet<u64> = values.iter().copied().filter(within).collect();
                prop_assert_eq!(found, scanned, "distance {} of {}", distance, distance_max);
            }
        }
    }
}
