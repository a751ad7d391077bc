//! Counts how often each 64-bit key has come, in a table that a hostile text cannot slow down.
//!
//! Open addressing with linear probing, at most five eighths full. The keys are unseeded hashes of
//! pieces of the text, so whoever writes the text could choose them to fall into one place; their
//! places are therefore drawn by multiplication with a number made from the whole text, which
//! changes with every byte of it. No answer depends on that number. About 4 ns a key while the
//! table fits a cache; 19 to 39 bytes a distinct key. Tested against a map of the standard
//! library.

use xxhash_rust::xxh3::xxh3_64;

/// Room for more keys than these is made when they come.
const EXPECTED_MAX: usize = 2_560;

/// How often each key has come.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    /// The key of each slot: a power of two of them, at least two. Keys and counts lie apart
    /// because plain zeros come cheaply from the allocator.
    keys: Vec<u64>,
    /// How often the key of each slot came; never, in an empty slot.
    counts: Vec<u32>,
    /// Odd; the high bits of a key times this say where its search begins.
    multiplier: u64,
    distinct: usize,
}

impl Tally {
    /// An empty table for keys that come from this text, about so many if they are few.
    pub(crate) fn of_keys_from(text: &str, expected: usize) -> Self {
        let slots = (expected.min(EXPECTED_MAX) * 8 / 5 + 2).next_power_of_two();
        Self {
            keys: vec![0; slots],
            counts: vec![0; slots],
            multiplier: xxh3_64(text.as_bytes()) | 1,
            distinct: 0,
        }
    }

    /// Counts one occurrence of each key, and says how many there were before it.
    #[inline]
    pub(crate) fn add(&mut self, keys: &[u64], earlier: &mut [u32]) {
        while 8 * (self.distinct + keys.len()) > 5 * self.keys.len() {
            self.grow();
        }
        for (&key, earlier) in keys.iter().zip(earlier) {
            let at = self.find(key);
            let before = self.counts[at];
            *earlier = before;
            // No text has 2^32 tokens: it would not fit the memory of a request.
            self.counts[at] = before.wrapping_add(1);
            self.keys[at] = key;
            self.distinct += usize::from(before == 0);
        }
    }

    /// How many distinct keys came.
    pub(crate) const fn distinct(&self) -> usize {
        self.distinct
    }

    /// The keys with their counts, in no order that means anything.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u32)> {
        let slots = self.keys.iter().copied().zip(self.counts.iter().copied());
        slots.filter(|&(_, count)| count > 0)
    }

    /// The slot that has this key, or the empty one where it belongs.
    #[inline]
    fn find(&self, key: u64) -> usize {
        let last = self.keys.len() - 1;
        let mut at = (key.wrapping_mul(self.multiplier) >> last.leading_zeros()) as usize;
        while is_another(self.keys[at], self.counts[at], key) {
            at = (at + 1) & last;
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        let slots = 2 * self.keys.len();
        let keys = std::mem::replace(&mut self.keys, vec![0; slots]);
        let counts = std::mem::replace(&mut self.counts, vec![0; slots]);
        for (key, count) in keys.into_iter().zip(counts) {
            if count > 0 {
                let at = self.find(key);
                (self.keys[at], self.counts[at]) = (key, count);
            }
        }
    }
}

/// Whether a slot has a key, and another one than this.
///
/// By the signs of numbers, so that it is one branch, and one that is seldom taken (3.5 ns a
/// shingle). Of two comparisons the compiler makes two branches, and whether a shingle of a text
/// has come before cannot be foreseen (5.5 ns).
#[inline]
const fn is_another(slot: u64, count: u32, key: u64) -> bool {
    let difference = slot ^ key;
    let differs = difference | difference.wrapping_neg();
    let is_used = (count as u64).wrapping_neg();
    (differs & is_used).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_chosen_to_agree_in_most_bits_still_spread() {
        let tally = Tally::of_keys_from("a text", EXPECTED_MAX);
        for shift in [0, 20, 40, 50] {
            let places: BTreeSet<_> = (0..1_000).map(|i: u64| tally.find(i << shift)).collect();
            assert!(places.len() > 400, "{} places at {shift}", places.len());
        }
    }

    proptest! {
        #[test]
        fn a_tally_counts_as_a_map_does(
            keys in prop::collection::vec(prop_oneof![0..40_u64, any::<u64>()], 0..300),
            expected in 0..50_usize,
        ) {
            let mut tally = Tally::of_keys_from("any text", expected);
            let mut map = BTreeMap::new();
            for keys in keys.chunks(7) {
                let mut earlier = [0; 7];
                tally.add(keys, &mut earlier);
                for (&key, earlier) in keys.iter().zip(earlier) {
                    let count = map.entry(key).or_insert(0);
                    prop_assert_eq!(earlier, *count);
                    *count += 1;
                }
            }
            prop_assert_eq!(tally.distinct(), map.len());
            prop_assert_eq!(tally.counts().collect::<BTreeMap<_, _>>(), map);
        }
    }
}
