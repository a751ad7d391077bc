//! The directory of a small segment: where its buckets lie, in two bytes a bucket.
//!
//! Four buckets share an entry of two words, so that one load gives the beginning and the end of
//! each:
//!
//! ```text
//!   +- 32 bits: where the first begins -+-- 8 --+-- 8 --+-- 8 --+-- 8: where each ends, from there
//! ```
//!
//! If four buckets have more than 255 words together, the highest bit of the entry is set, and the
//! entry is the row of a list with their places. With random fingerprints this is one in 10,000.
//! The entries lie in front of the buckets, in the same array.

use crate::kernel;
use crate::memory::array::Array;

/// The number of buckets that share an entry.
pub(crate) const BUCKETS_AN_ENTRY: usize = 4;

const ENTRY_WORDS: usize = 2;

/// All places are below this bit. In an entry it marks long buckets.
pub(crate) const PLACES_MAX: u32 = 1 << 31;

/// The number of words of the entries of this many buckets.
pub(crate) const fn words(buckets: usize) -> usize {
    buckets / BUCKETS_AN_ENTRY * ENTRY_WORDS
}

/// The places that do not fit into entries.
#[derive(Debug)]
pub(crate) struct Directory {
    /// For each entry with long buckets, where each bucket begins, and where the last one ends.
    long: Vec<[u32; BUCKETS_AN_ENTRY + 1]>,
}

impl Directory {
    /// Lays `buckets` of these lengths, in words, one after the other: a directory, and the array
    /// of its entries and the empty buckets. There are as many buckets as fill all entries.
    ///
    /// # Panics
    /// When they have more than [`PLACES_MAX`] words.
    pub(crate) fn build(
        buckets: usize,
        lengths: impl Iterator<Item = u32> + Clone,
    ) -> (Self, Array<u32>) {
        let entries = words(buckets);
        let all = entries + lengths.clone().map(|length| length as usize).sum::<usize>();
        assert!(all <= PLACES_MAX as usize, "places have 31 bits");
        let mut array = Array::zeros(all);
        let (mut long, mut next) = (Vec::new(), entries as u32);
        let (entries, _) = array[..entries].as_chunks_mut::<ENTRY_WORDS>();
        let mut lengths = lengths;
        for entry in entries {
            let mut places = [next; BUCKETS_AN_ENTRY + 1];
            for (place, length) in places[1..].iter_mut().zip(lengths.by_ref()) {
                next += length;
                *place = next;
            }
            let [first, ..] = places;
            *entry = if next - first <= u8::MAX.into() {
                let [_, ends @ ..] = places.map(|place| (place - first) as u8);
                [first, u32::from_le_bytes(ends)]
            } else {
                long.push(places);
                [PLACES_MAX | (long.len() - 1) as u32, 0]
            };
        }
        (Self { long }, array)
    }

    /// Prefetches the entry of a bucket.
    #[inline]
    pub(crate) fn prefetch(array: &[u32], bucket: u32) {
        kernel::prefetch(array, bucket / BUCKETS_AN_ENTRY as u32 * ENTRY_WORDS as u32);
    }

    /// Where a bucket begins in the array, and where it ends.
    #[inline]
    pub(crate) fn bucket(&self, array: &[u32], bucket: u32) -> (u32, u32) {
        let (entries, _) = array.as_chunks::<ENTRY_WORDS>();
        let (entry, i) = (bucket as usize / BUCKETS_AN_ENTRY, bucket as usize % BUCKETS_AN_ENTRY);
        let [first, ends] = entries[entry];
        if first & PLACES_MAX != 0 {
            let places = &self.long[(first ^ PLACES_MAX) as usize];
            return (places[i], places[i + 1]);
        }
        // Five bytes: the first begins at the offset in the entry.
        let two = u64::from(ends) << 8 >> (8 * i);
        (first + (two & 0xff) as u32, first + (two >> 8 & 0xff) as u32)
    }

    /// Memory in bytes, without the array.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.long)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn buckets_lie_one_behind_the_other(
            lengths in prop::collection::vec(prop_oneof![0..90_u32, 0..9_u32, 0..600_u32], 0..200),
        ) {
            let mut lengths = lengths;
            lengths.truncate(lengths.len() / BUCKETS_AN_ENTRY * BUCKETS_AN_ENTRY);
            let (directory, array) = Directory::build(lengths.len(), lengths.iter().copied());
            let mut next = words(lengths.len()) as u32;
            for (bucket, &length) in (0..).zip(&lengths) {
                prop_assert_eq!(directory.bucket(&array, bucket), (next, next + length));
                next += length;
            }
            prop_assert_eq!(array.len(), next as usize);
            let fours = lengths.chunks(BUCKETS_AN_ENTRY);
            let long = fours.filter(|four| four.iter().sum::<u32>() > 255).count();
            prop_assert_eq!(directory.bytes(), 20 * long);
        }
    }
}
