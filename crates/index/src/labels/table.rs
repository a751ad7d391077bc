//! One table of labels in a segment: its rows, sorted by key.
//!
//! ```text
//!   directory   for each value of the first bits of a key, where its rows begin     4 bytes
//!   rows        the other bits of the key, and the number of the fingerprint        8 bytes
//! ```
//!
//! The directory has 5 bits fewer than the largest number, so key and number of a row fill one
//! word, and 16 to 32 rows begin with the same bits.

use nearprint_fingerprint::Label;

use crate::kernel;
use crate::labels::{self, FREE_BITS, LabelKey};
use crate::memory::array::Array;
use crate::memory::placed::{PlacedArray, Placement};
use crate::tables::table::Number;

/// The rows of one label of all texts of a segment.
#[derive(Debug, Default)]
pub(crate) struct LabelTable {
    /// Sorted: the key without the bits of the directory, then the number.
    rows: PlacedArray<u64>,
    /// One entry more than there are values of the bits; empty if there are no rows.
    directory: Array<u32>,
    directory_bits: u32,
}

impl LabelTable {
    /// Prefetches the entry of the directory where [`Self::sharing`] begins.
    #[inline]
    pub(crate) fn prefetch(&self, key: LabelKey) {
        kernel::prefetch(&self.directory, self.bucket(key) as u32);
    }

    /// The second step: prefetches the rows that begin as a key does.
    #[inline]
    pub(crate) fn locate(&self, key: LabelKey) {
        let bucket = self.bucket(key);
        if let Some(&[start, end]) = self.directory.get(bucket..bucket + 2) {
            // The search of a long bucket begins elsewhere.
            let lines = (start..end).step_by(ROWS_OF_LINE).take(LINES_PREFETCHED);
            match self.rows.file() {
                None => lines.for_each(|row| self.rows.prefetch(row as usize)),
                Some(file) => file.will_need(start as usize..end as usize),
            }
        }
    }

    /// Calls `take` with the rows that share the first two minima of a key, at most `max`, the
    /// nearest: the bits in which the key differs, and the number. In no particular order. Returns
    /// whether there are more.
    pub(crate) fn sharing(
        &self,
        key: LabelKey,
        max: usize,
        mut take: impl FnMut(LabelKey, Number),
    ) -> bool {
        let bucket = self.bucket(key);
        let Some(&[start, end]) = self.directory.get(bucket..bucket + 2) else { return false };
        let (start, end) = (start as usize, end as usize);
        let (query, bits) = (key << self.directory_bits, self.directory_bits);
        // The two minima have more bits than the directory.
        let shared = |row: &u64| row >> (u64::BITS - Label::SHARED_BITS + bits);
        let wanted = shared(&query);
        let from = self.rows.partition_point(start..end, |row| shared(row) < wanted);
        let to = self.rows.partition_point(from..end, |row| shared(row) == wanted);
        let rows = &*self.rows.range(from..to);
        let numbers = self.number_mask();
        labels::nearest(rows, &|row| row & !numbers, query, max, &mut |some| {
            for row in some {
                take(((row ^ query) & !numbers) >> bits, (row & numbers) as Number);
            }
        });
        rows.len() > max
    }

    /// All rows whose keys begin with a byte, ascending.
    pub(crate) fn beginning_with(&self, byte: u8) -> impl Iterator<Item = (LabelKey, Number)> + '_ {
        let first = u64::from(byte) << 56;
        let buckets = self.bucket(first)..self.bucket(first | u64::MAX >> 8) + 1;
        let buckets = if self.is_empty() { 0..0 } else { buckets };
        self.of_buckets(buckets).filter(move |(key, _)| key >> 56 == u64::from(byte))
    }

    /// All rows, ascending by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LabelKey, Number)> + '_ {
        self.of_buckets(0..self.directory.len().saturating_sub(1))
    }

    fn of_buckets(
        &self,
        buckets: std::ops::Range<usize>,
    ) -> impl Iterator<Item = (LabelKey, Number)> + '_ {
        let (bits, numbers) = (self.directory_bits, self.number_mask());
        buckets.flat_map(move |bucket| {
            let range = self.directory[bucket] as usize..self.directory[bucket + 1] as usize;
            let first = (bucket as u64) << 1 << (63 - bits);
            let row = move |row: u64| (first | (row & !numbers) >> bits, (row & numbers) as Number);
            range.map(|at| self.rows.get(at)).map(row)
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes() + self.directory.bytes()
    }

    /// The bytes in a file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.rows.file_bytes()
    }

    /// The parts of an image.
    pub(crate) fn parts(&self) -> (u32, &Array<u32>, &PlacedArray<u64>) {
        (self.directory_bits, &self.directory, &self.rows)
    }

    /// The table with these parts, of fingerprints with numbers below `numbers`; `None` where they
    /// do not fit each other. Rows in a file are not looked at.
    pub(crate) fn from_parts(
        directory_bits: u32,
        directory: Array<u32>,
        rows: PlacedArray<u64>,
        numbers: usize,
    ) -> Option<Self> {
        if rows.len() == 0 {
            return (directory_bits == 0 && directory.is_empty()).then(Self::default);
        }
        let fits = directory_bits <= DIRECTORY_BITS_MAX
            && directory.len() == (1 << directory_bits) + 1
            && directory.is_sorted()
            && directory.first() == Some(&0)
            && directory.last().map(|&end| end as usize) == Some(rows.len());
        let table = Self { rows, directory, directory_bits };
        let rows_fit = || {
            table.iter().is_sorted_by_key(|(key, _)| key)
                && table.iter().all(|(_, number)| (number as usize) < numbers)
        };
        (fits && (table.rows.file().is_some() || rows_fit())).then_some(table)
    }

    #[inline]
    fn bucket(&self, key: LabelKey) -> usize {
        // At most 63 bits at a time.
        (key >> 1 >> (63 - self.directory_bits)) as usize
    }

    #[inline]
    fn number_mask(&self) -> u64 {
        (1 << (self.directory_bits + FREE_BITS)) - 1
    }
}

/// The number of rows in 64 bytes.
const ROWS_OF_LINE: usize = 8;

/// Nearly all buckets have so many lines at most.
const LINES_PREFETCHED: usize = 4;

/// As many as numbers of 32 bits need.
const DIRECTORY_BITS_MAX: u32 = u32::BITS - FREE_BITS;

/// The bits of the directory of a table of fingerprints with numbers below `numbers`.
fn directory_bits(numbers: usize) -> u32 {
    let number_bits = usize::BITS - numbers.saturating_sub(1).leading_zeros();
    number_bits.saturating_sub(FREE_BITS)
}

/// Memory of a table of `count` fingerprints with a row each, in bytes.
pub(crate) fn bytes(count: u64) -> u64 {
    count * size_of::<u64>() as u64 + directory_bytes(count)
}

/// Memory of its directory, in bytes.
pub(crate) fn directory_bytes(count: u64) -> u64 {
    ((1 << directory_bits(count as usize)) + 1) * size_of::<u32>() as u64
}

/// Takes the rows of a table in ascending order of key.
#[derive(Debug)]
pub(crate) struct LabelTableBuilder {
    table: LabelTable,
    filled: usize,
    /// The values of the directory whose start is known.
    started: usize,
}

impl LabelTableBuilder {
    /// A builder for at most `count` rows in memory of fingerprints with numbers below `numbers`.
    pub(crate) fn new(count: usize, numbers: usize) -> Self {
        Self::placed(&Placement::Memory, count, numbers)
    }

    /// The same, with the rows elsewhere.
    pub(crate) fn placed(placement: &Placement, count: usize, numbers: usize) -> Self {
        let directory_bits = directory_bits(numbers);
        assert!(directory_bits <= DIRECTORY_BITS_MAX, "numbers have 32 bits");
        let directory = if count == 0 { 0 } else { (1 << directory_bits) + 1 };
        let table = LabelTable {
            rows: PlacedArray::zeros(placement, count),
            directory: Array::zeros(directory),
            directory_bits,
        };
        Self { table, filled: 0, started: 0 }
    }

    /// Adds a row whose key is not smaller than those before it.
    #[inline]
    pub(crate) fn push(&mut self, key: LabelKey, number: Number) {
        let bucket = self.table.bucket(key);
        self.start_up_to(bucket + 1);
        *self.table.rows.slot(self.filled) = key << self.table.directory_bits | u64::from(number);
        self.filled += 1;
    }

    pub(crate) fn finish(mut self) -> LabelTable {
        if self.filled == 0 {
            return LabelTable::default();
        }
        self.start_up_to(self.table.directory.len());
        let Self { mut table, filled, .. } = self;
        table.rows.finish(filled);
        table
    }

    fn start_up_to(&mut self, end: usize) {
        let here = self.filled as u32;
        self.table.directory[self.started.min(end)..end].fill(here);
        self.started = self.started.max(end);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_has_the_rows_that_it_was_given(
            keys in prop::collection::vec((0..4_u64, 0..3_u64, 0..64_u64, any::<bool>()), 0..600),
            numbers in prop_oneof![1..600_usize, Just(1 << 16)],
            max in prop_oneof![Just(2_usize), Just(1_000)],
            byte: u8,
        ) {
            let key = |&(minima, third, sampled, spread): &(u64, u64, u64, bool)| {
                let minima = if spread { minima.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 } else { minima };
                minima << 32 | third << 24 | sampled << FREE_BITS
            };
            let mut rows: Vec<(u64, u32)> = keys.iter().map(key).zip(0..).collect();
            for (_, number) in &mut rows {
                *number %= numbers as u32;
            }
            rows.sort_unstable();
            let mut builder = LabelTableBuilder::new(rows.len() + 3, numbers);
            for &(key, number) in &rows {
                builder.push(key, number);
            }
            let table = builder.finish();
            prop_assert_eq!(table.len(), rows.len());
            prop_assert!(table.iter().eq(rows.iter().copied()));
            let of_byte = rows.iter().copied().filter(|(key, _)| key >> 56 == u64::from(byte));
            prop_assert!(table.beginning_with(byte).eq(of_byte));
            for query in keys.iter().map(key).chain([0, u64::MAX >> 5 << 5]) {
                table.prefetch(query);
                table.locate(query);
                let mut got = Vec::new();
                let is_cut = table.sharing(query, max, |differing, number| got.push((differing, number)));
                got.sort_unstable();
                let shared = rows.iter().filter(|(key, _)| labels::is_shared(*key, query));
                let mut expected: Vec<_> = shared.map(|&(key, number)| (key ^ query, number)).collect();
                expected.sort_unstable();
                prop_assert_eq!(is_cut, expected.len() > max);
                expected.truncate(max);
                prop_assert_eq!(got, expected);
            }
        }
    }

    #[test]
    fn parts_that_do_not_fit_are_refused() {
        let parts = |bits, directory: &[u32], rows: &[u64], numbers| {
            let (directory, rows) = (Array::copied(directory), Array::copied(rows).into());
            LabelTable::from_parts(bits, directory, rows, numbers).is_some()
        };
        assert!(parts(0, &[], &[], 0));
        assert!(parts(1, &[0, 1, 2], &[1, 2], 3));
        assert!(!parts(0, &[0], &[], 0), "a directory of nothing");
        assert!(!parts(1, &[0, 2, 2], &[1 << 40, 2], 3), "rows out of order");
        assert!(!parts(1, &[0, 1, 2], &[1, 2], 2), "a number that is not there");
        assert!(!parts(1, &[0, 1, 1], &[1, 2], 3), "a row that no bits lead to");
        assert!(!parts(2, &[0, 1, 2], &[1, 2], 3), "a directory of another size");
        assert!(!parts(28, &[0, 1, 2], &[1, 2], 3), "too many bits");
    }
}
