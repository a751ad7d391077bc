//! The tables of a small segment: one for each block of 16 bits, as in Manku et al. 2007, section
//! 3.
//!
//! ```text
//!   a fingerprint, rotated so that the table's block comes first
//!   +--- 16 bits: key ---+------ 32 bits: middle ------+--- 16 bits: end ---+
//!            |                        |                          |
//!     directory[key]: where a bucket lies      | its middles ...  | their ends ... |
//!                       middles are compared, 16 at a time; an end is read where one is near
//! ```
//!
//! A look-up at distance 3 visits four buckets: with a million fingerprints, 15 entries each, which
//! are two or three lines, and a line of the directory. So it costs a third of the lines of
//! [`crate::tables::table`] as long as the buckets are short. Entries do not depend on each
//! other, so a table is built by counting, without sorting.
//!
//! Everything lies in one array, so that it shares large pages. Memory: 6 bytes for each entry and
//! table, 128 KiB of directory for each table ([`crate::buckets::directory`]), and 64 KiB
//! once. A tiny segment has blocks of 8 bits, whose directory takes 512 bytes, and ends of 24 bits,
//! which take 32. Immutable.
//!
//! Without buckets (decision 24): the p99 of look-ups during inserts is 13 us instead of 8 at
//! 10 million fingerprints, and 17 instead of 6 at 1 million.

use nearprint_fingerprint::Distance;

use crate::buckets::directory::{BUCKETS_AN_ENTRY, Directory};
use crate::kernel::scan::{self, WORDS_MAX};
use crate::kernel::{self, Simd};
use crate::memory::array::Array;
use crate::permutation::Permuted;
use crate::plan::{BLOCK_BITS_MAX, Key, Plan, TablePlan};
use crate::tables::geometry;
use crate::tables::table::Number;

/// Words of 32 bits in a cache line.
pub(crate) const WORDS_A_LINE: u32 = 16;

/// Up to this many fingerprints, the blocks have 8 bits: buckets of 16 on average.
const TINY_MAX: usize = 1 << 12;
const TINY_BLOCK_BITS: u32 = 8;

/// The largest number of fingerprints: the words of four tables are numbered together.
pub(crate) const COUNT_MAX: usize = directory::PLACES_MAX as usize / 8;

/// Buckets with candidates that are collected before they are verified.
const NOTED_MAX: usize = 8;

/// Bytes of this many tables with `count` entries each; `count` is not tiny.
pub(crate) fn bytes(tables: usize, count: u64) -> u64 {
    let entry = (size_of::<u32>() + size_of::<u16>()) as u64;
    let directory = directory::words(1 << BLOCK_BITS_MAX) * size_of::<u32>();
    // For the first table, the number of fingerprints before each entry of its directory.
    let before = (size_of::<u32>() << BLOCK_BITS_MAX) / BUCKETS_AN_ENTRY;
    tables as u64 * (directory as u64 + ODD_BYTES + count * entry) + before as u64
}

/// The padding of a table's buckets: half of them have an odd number of ends and lose two bytes.
const ODD_BYTES: u64 = 1 << BLOCK_BITS_MAX;

/// The number of words of a bucket of `count` entries.
#[inline]
const fn words_of(bits: u32, count: u32) -> u32 {
    if bits == BLOCK_BITS_MAX { count + count.div_ceil(2) } else { 2 * count }
}

/// The number of entries of a bucket of this many words.
#[inline]
const fn count_in(bits: u32, words: u32) -> u32 {
    if bits == BLOCK_BITS_MAX { 2 * words / 3 } else { words / 2 }
}

/// The place of the first end in a bucket of `count` entries that begins at `start`.
#[inline]
const fn ends(bits: u32, start: u32, count: u32) -> Place {
    let ends = start + count;
    if bits == BLOCK_BITS_MAX { 2 * ends } else { ends }
}

/// The order of small segments: the fingerprints as they are.
pub(crate) const ORDER: TablePlan =
    TablePlan { first_bit: 0, key_bits: 16, radius: 0, folded: false };

/// The tables of a small segment.
#[derive(Debug)]
pub struct Buckets {
    plan: Box<Plan>,
    /// By role. The entries of the first table are in the order of the fingerprints, so it is also
    /// the sorted list.
    tables: Vec<Table>,
    directory: Directory,
    /// The directory's entries, then the buckets, table by table.
    words: Array<u32>,
    /// For each entry of the first table's directory, the number of fingerprints before it.
    before: Array<u32>,
    /// Entries of each table.
    count: u32,
    /// Bits of a block.
    bits: u32,
    /// The number of lines of a bucket of average length that begins at the start of a line.
    lines_a_bucket: u32,
}

/// All fingerprints of a segment by one block of their bits.
#[derive(Debug)]
struct Table {
    role: u32,
    /// The bits of its key, and of a fingerprint up to the key's end.
    key_bits: u32,
    key_end: u32,
    /// The number of its first bucket.
    first_bucket: u32,
    /// The flips that lead to the keys within the radius, the nearest first.
    flips: Box<[u32]>,
    /// The number of flips within each radius.
    flips_within: Box<[usize]>,
}

/// Entries of a bucket whose middles are near the query's.
#[derive(Debug, Clone, Copy, Default)]
struct Candidates {
    bucket: u32,
    role: u32,
    /// The places of the first middle of the bucket that was compared, and of its end.
    middle: u32,
    end: Place,
    /// Bit i for the i-th from there.
    near: u64,
}

/// The position of an end: in half words or, in a tiny segment, in words.
type Place = u32;

impl Buckets {
    /// The tables of distinct fingerprints, ascending, exact up to a distance.
    ///
    /// # Panics
    /// When there are more than [`COUNT_MAX`].
    pub fn build(distance_max: Distance, values: &[Permuted]) -> Self {
        let counts = |table: &Table| table.counts(values);
        let (mut buckets, counts) = Self::empty(distance_max, values.len(), counts);
        for (role, counts) in counts.iter().enumerate() {
            buckets.fill(role, counts, values);
        }
        buckets
    }

    /// Empty tables for `count` fingerprints. `counts` gives the number of entries of each bucket
    /// of a table; these counts are returned as well.
    fn empty(
        distance_max: Distance,
        count: usize,
        counts: impl Fn(&Table) -> Vec<u32>,
    ) -> (Self, Vec<Vec<u32>>) {
        assert!(count <= COUNT_MAX, "a small segment is small");
        let bits = if count <= TINY_MAX { TINY_BLOCK_BITS } else { BLOCK_BITS_MAX };
        let plan = Plan::blocks(bits, distance_max);
        let tables: Vec<Table> = (0..).zip(plan.tables()).map(Table::of).collect();
        // One list for each table: the allocator keeps pieces of this size for the next segment.
        let counts: Vec<Vec<u32>> = tables.iter().map(counts).collect();
        let in_first = counts[0].chunks(BUCKETS_AN_ENTRY);
        let before = in_first.scan(0, |before, counts| {
            let first = *before;
            *before += counts.iter().sum::<u32>();
            Some(first)
        });
        let before = Array::copied(&before.collect::<Vec<u32>>());
        let lengths = counts.iter().flatten().map(|&count| words_of(bits, count));
        let (directory, words) = Directory::build(tables.len() << bits, lengths);
        let average = words_of(bits, count as u32 >> bits);
        let buckets = Self {
            plan: Box::new(plan),
            tables,
            directory,
            words,
            before,
            count: count as u32,
            bits,
            lines_a_bucket: average.div_ceil(WORDS_A_LINE).max(1),
        };
        (buckets, counts)
    }

    /// Fills a table whose buckets have these counts.
    fn fill(&mut self, role: usize, counts: &[u32], values: &[Permuted]) {
        debug_assert!(values.is_sorted_by(|a, b| a < b), "fingerprints ascend");
        let (bits, table) = (self.bits, &self.tables[role]);
        let (mut start, _) = self.directory.bucket(&self.words, table.first_bucket);
        // The places of the next middle and the next end of each bucket.
        let places = counts.iter().map(|&count| {
            let place = [start, ends(bits, start, count)];
            start += words_of(bits, count);
            place
        });
        let mut next: Vec<[u32; 2]> = places.collect();
        let words = &mut *self.words;
        for &value in values {
            let [middle_at, end_at] = &mut next[table.key(value)];
            let end = table.end(value);
            words[*middle_at as usize] = table.middle(value);
            if bits == BLOCK_BITS_MAX {
                let halves: &mut [u16] = bytemuck::cast_slice_mut(words);
                halves[*end_at as usize] = end as u16;
            } else {
                words[*end_at as usize] = end;
            }
            *middle_at += 1;
            *end_at += 1;
        }
    }

    /// Prefetches the directory entries at which most of a look-up at a distance begins.
    pub fn prefetch(&self, query: Permuted, distance: Distance) {
        let words = &*self.words;
        for (table, _) in self.searched(distance) {
            Directory::prefetch(words, table.bucket(query));
        }
    }

    /// The number of buckets that a look-up visits.
    pub fn cells(&self, distance: Distance) -> usize {
        self.searched(distance).map(|(table, radius)| table.flips_within(radius).len()).sum()
    }

    /// The first step of a look-up: appends where each bucket to visit begins and ends, and
    /// prefetches its entries.
    pub fn locate(&self, query: Permuted, distance: Distance, visits: &mut Vec<u32>) {
        let words = &*self.words;
        for (table, radius) in self.searched(distance) {
            let bucket = table.bucket(query);
            for flip in table.flips_within(radius) {
                let (start, end) = self.directory.bucket(words, bucket ^ flip);
                self.prefetch_lines(words, start, end);
                visits.extend_from_slice(&[start, end]);
            }
        }
    }

    /// The second step: calls `found` with every fingerprint within `distance` of the query in the
    /// buckets that were located. One that lies in several of them is found more than once.
    ///
    /// A fingerprint differs from the query in the flips of its bucket, so its middle may differ in
    /// fewer bits than the distance. Whether a bucket has candidates is unpredictable, so the loop
    /// does not branch on it: candidates are collected, and verified afterwards.
    pub fn compare(
        &self,
        query: Permuted,
        distance: Distance,
        visits: &[u32],
        found: &mut impl FnMut(Permuted),
    ) {
        let (simd, words) = (Simd::best(), &*self.words);
        let most = u32::from(distance.get());
        let (visits, _) = visits.as_chunks::<2>();
        let mut visits = visits.iter();
        let (mut noted, mut count) = ([Candidates::default(); NOTED_MAX], 0);
        for (table, radius) in self.searched(distance) {
            let (bucket, middle) = (table.bucket(query), table.middle(query));
            for (ones, flips) in (0..).zip(table.runs(radius)) {
                for (flip, &[start, end]) in flips.iter().zip(visits.by_ref()) {
                    let mut rest = &words[start as usize..][..self.count_in(start, end)];
                    let mut next = Candidates {
                        bucket: bucket ^ flip,
                        role: table.role,
                        middle: start,
                        end: self.ends(start, end),
                        near: 0,
                    };
                    loop {
                        next.near = scan::scan_words(simd, rest, middle, most - ones);
                        noted[count % NOTED_MAX] = next;
                        count = count.wrapping_add(usize::from(next.near != 0));
                        if count == NOTED_MAX {
                            self.verify(words, (query, most), &noted, found);
                            count = 0;
                        }
                        if rest.len() <= WORDS_MAX {
                            break;
                        }
                        rest = &rest[WORDS_MAX..];
                        next.middle += WORDS_MAX as u32;
                        next.end += WORDS_MAX as u32;
                    }
                }
            }
        }
        self.verify(words, (query, most), &noted[..count], found);
    }

    /// Calls `found` with the candidates whose whole fingerprints are near.
    #[inline]
    fn verify(
        &self,
        words: &[u32],
        (query, most): (Permuted, u32),
        noted: &[Candidates],
        found: &mut impl FnMut(Permuted),
    ) {
        for &Candidates { bucket, role, middle, end, mut near } in noted {
            let table = &self.tables[role as usize];
            while near != 0 {
                let i = near.trailing_zeros();
                let (middle, end) = (middle.wrapping_add(i), end.wrapping_add(i));
                let value = self.value_at(words, (table, bucket), middle, end);
                if (value ^ query).count_ones() <= most {
                    found(value);
                }
                near &= near.wrapping_sub(1);
            }
        }
    }

    /// Prefetches the directory entry of a fingerprint.
    pub fn prefetch_value(&self, value: Permuted) {
        Directory::prefetch(&self.words, self.first().bucket(value));
    }

    /// The second step after [`Self::prefetch_value`]: prefetches the middles that [`Self::find`]
    /// compares.
    pub fn locate_value(&self, value: Permuted) {
        let words = &*self.words;
        let (start, end) = self.directory.bucket(words, self.first().bucket(value));
        self.prefetch_lines(words, start, start + count_in(self.bits, end - start));
    }

    /// The number of a fingerprint, if it is stored: that many are smaller.
    pub fn find(&self, value: Permuted) -> Option<Number> {
        let words = &*self.words;
        let bucket = self.first().bucket(value);
        let (start, end) = self.directory.bucket(words, bucket);
        let (middle, last) = (self.first().middle(value), self.first().end(value));
        let ends = self.ends(start, end);
        let middles = &words[start as usize..start as usize + self.count_in(start, end)];
        for (from, some) in (0..).step_by(WORDS_MAX).zip(middles.chunks(WORDS_MAX)) {
            let mut same = scan::scan_words(Simd::best(), some, middle, 0);
            while same != 0 {
                let i = from + same.trailing_zeros();
                if self.end(words, ends + i) == last {
                    return Some(self.before(bucket) + i);
                }
                same &= same - 1;
            }
        }
        None
    }

    /// The fingerprint with a number: that many are smaller.
    pub fn value(&self, number: Number) -> Permuted {
        let words = &*self.words;
        let entry = self.before.partition_point(|&before| before <= number) - 1;
        let mut bucket = (entry * BUCKETS_AN_ENTRY) as u32;
        let mut i = number - self.before[entry];
        loop {
            let (start, end) = self.directory.bucket(words, bucket);
            let count = self.count_in(start, end) as u32;
            if i < count {
                let ends = self.ends(start, end);
                return self.value_at(words, (self.first(), bucket), start + i, ends + i);
            }
            i -= count;
            bucket += 1;
        }
    }

    /// All fingerprints, ascending, with their numbers.
    pub fn entries(&self) -> Entries<'_> {
        Entries { buckets: self, next: 0, left: 0..0, ends: 0, number: 0 }
    }

    /// The number of fingerprints.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it has no fingerprint.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.words.bytes() + self.before.bytes() + self.directory.bytes()
    }

    /// Prefetches as many lines as an average bucket has, and the last line of this one: a branch
    /// on the number of its lines would be mispredicted, which costs more than prefetching a line
    /// twice. The last line is at least that of the 16th word, because the kernel always loads 16
    /// words, and a Zen 4 waits for all of them. Places have 31 bits, so no sum wraps, here as in
    /// [`Self::compare`]; checking it would take time.
    #[inline]
    fn prefetch_lines(&self, words: &[u32], start: u32, end: u32) {
        let last = end.wrapping_sub(1).max(start.wrapping_add(WORDS_A_LINE - 1));
        let mut at = start;
        for _ in 0..self.lines_a_bucket {
            kernel::prefetch(words, at.min(last));
            at = at.wrapping_add(WORDS_A_LINE);
        }
        kernel::prefetch(words, last);
    }

    fn first(&self) -> &Table {
        &self.tables[0]
    }

    /// The tables to search, each with its radius.
    fn searched(&self, distance: Distance) -> impl Iterator<Item = (&Table, u32)> {
        let radii = self.plan.radii(distance);
        self.tables.iter().zip(radii).filter_map(|(table, radius)| Some((table, (*radius)?)))
    }

    /// The number of fingerprints smaller than those of a bucket of the first table.
    fn before(&self, bucket: u32) -> u32 {
        let entry = bucket as usize / BUCKETS_AN_ENTRY;
        let first = (entry * BUCKETS_AN_ENTRY) as u32;
        let counts = (first..bucket).map(|bucket| {
            let (start, end) = self.directory.bucket(&self.words, bucket);
            self.count_in(start, end) as u32
        });
        self.before[entry] + counts.sum::<u32>()
    }

    /// The number of entries of the bucket between two places.
    #[inline]
    fn count_in(&self, start: u32, end: u32) -> usize {
        count_in(self.bits, end - start) as usize
    }

    /// The place of the first end of the bucket between two places.
    #[inline]
    fn ends(&self, start: u32, end: u32) -> Place {
        ends(self.bits, start, count_in(self.bits, end - start))
    }

    #[inline]
    fn value_at(
        &self,
        words: &[u32],
        (table, bucket): (&Table, u32),
        middle: u32,
        end: Place,
    ) -> Permuted {
        let (middle, end) = (u64::from(words[middle as usize]), u64::from(self.end(words, end)));
        let key = u64::from(bucket - table.first_bucket);
        (middle << 32 | end << self.bits | key).rotate_right(table.key_end)
    }

    #[inline]
    fn end(&self, words: &[u32], at: Place) -> u32 {
        if self.bits == BLOCK_BITS_MAX {
            let halves: &[u16] = bytemuck::cast_slice(words);
            return halves[at as usize].into();
        }
        words[at as usize]
    }
}

impl Table {
    fn of((role, plan): (u32, &TablePlan)) -> Self {
        let flips = geometry::flips(plan.key_bits, plan.radius);
        let within = |radius| flips.partition_point(|flips| flips.count_ones() <= radius);
        Self {
            role,
            key_bits: plan.key_bits,
            key_end: plan.first_bit + plan.key_bits,
            first_bucket: role << plan.key_bits,
            flips_within: (0..=plan.radius).map(within).collect(),
            flips: flips.iter().map(|flips| flips >> (32 - plan.key_bits)).collect(),
        }
    }

    /// A fingerprint whose key comes last: middle, end, key.
    #[inline]
    fn rotated(&self, value: Permuted) -> u64 {
        value.rotate_left(self.key_end)
    }

    /// The number of a fingerprint's bucket among those of the table.
    #[inline]
    fn key(&self, value: Permuted) -> usize {
        self.rotated(value) as usize & ((1 << self.key_bits) - 1)
    }

    /// The number of a fingerprint's bucket.
    #[inline]
    fn bucket(&self, value: Permuted) -> u32 {
        self.first_bucket | self.key(value) as u32
    }

    /// The number of fingerprints of each of its buckets.
    fn counts(&self, values: &[Permuted]) -> Vec<u32> {
        let mut counts = vec![0; 1 << self.key_bits];
        for &value in values {
            counts[self.key(value)] += 1;
        }
        counts
    }

    /// The 32 bits after the key.
    #[inline]
    fn middle(&self, value: Permuted) -> u32 {
        (self.rotated(value) >> 32) as u32
    }

    /// The bits after the middle.
    #[inline]
    fn end(&self, value: Permuted) -> u32 {
        self.rotated(value) as u32 >> self.key_bits
    }

    #[inline]
    fn flips_within(&self, radius: u32) -> &[u32] {
        &self.flips[..self.flips_within[radius as usize]]
    }

    /// The flips of no bit, of one bit, and so on up to the radius.
    #[inline]
    fn runs(&self, radius: u32) -> impl Iterator<Item = &[u32]> {
        let mut start = 0;
        self.flips_within[..=radius as usize].iter().map(move |&end| {
            let run = &self.flips[start..end];
            start = end;
            run
        })
    }
}

/// The fingerprints of a small segment, ascending, with their numbers.
#[derive(Debug)]
pub struct Entries<'a> {
    buckets: &'a Buckets,
    /// The bucket after this one.
    next: u32,
    /// The middles left in this bucket, and the place of the end of the next one.
    left: std::ops::Range<u32>,
    ends: Place,
    number: Number,
}

impl Entries<'_> {
    /// Calls `each` with the entries up to the end of their bucket; returns whether there were any.
    pub fn next_few(&mut self, mut each: impl FnMut((Key, Number))) -> bool {
        let Some(item) = self.next() else { return false };
        each(item);
        let (buckets, bucket) = (self.buckets, (self.buckets.first(), self.next - 1));
        for middle in self.left.clone() {
            each((buckets.value_at(&buckets.words, bucket, middle, self.ends), self.number));
            self.ends += 1;
            self.number += 1;
        }
        self.left.start = self.left.end;
        true
    }
}

impl Iterator for Entries<'_> {
    type Item = (Key, Number);

    #[inline]
    fn next(&mut self) -> Option<(Key, Number)> {
        let buckets = self.buckets;
        if self.number == buckets.count {
            return None;
        }
        while self.left.is_empty() {
            let (start, end) = buckets.directory.bucket(&buckets.words, self.next);
            self.left = start..start + count_in(buckets.bits, end - start);
            self.ends = buckets.ends(start, end);
            self.next += 1;
        }
        let (middle, end, number) = (self.left.start, self.ends, self.number);
        self.left.start += 1;
        self.ends += 1;
        self.number += 1;
        let bucket = (buckets.first(), self.next - 1);
        Some((buckets.value_at(&buckets.words, bucket, middle, end), number))
    }

    /// A bucket at a time.
    fn fold<B, F: FnMut(B, Self::Item) -> B>(mut self, init: B, mut each: F) -> B {
        let mut folded = Some(init);
        while self.next_few(|item| folded = folded.take().map(|folded| each(folded, item))) {}
        folded.expect("it is always put back")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Some fingerprints anywhere and some that share many bits, so that buckets of 0 to 100
    /// entries come up.
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

    /// Few enough for a tiny segment, or more.
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
            distance in 0..=12_u8,
            absent: u64,
            step in 0..500_usize,
        ) {
            let buckets = Buckets::build(Distance::new(distance).unwrap(), &values);
            let numbered: Vec<(u64, u32)> = values.iter().copied().zip(0..).collect();
            prop_assert_eq!(buckets.entries().collect::<Vec<_>>(), numbered.clone());
            let mut rest = buckets.entries();
            let mut walked: Vec<_> = rest.by_ref().take(step).collect();
            rest.for_each(|entry| walked.push(entry));
            prop_assert_eq!(&walked, &numbered, "one at a time and all at once");
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
            flips in prop::collection::vec(0..64_u32, 0..14),
            at in any::<prop::sample::Index>(),
            distance_max in 0..=12_u8,
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
pub(crate) mod directory;
