//! A set of numbers in order, as bits: how many come before a number, and which is the n-th.
//!
//! Memory: 1.06 bits for each number up to the largest one.

/// Words between two counts.
const WORDS: usize = 8;

/// Numbers that are added in ascending order.
#[derive(Debug, Default)]
pub(crate) struct RankedSet {
    words: Vec<u64>,
    /// How many numbers come before so many words each.
    ranks: Vec<u32>,
    count: u32,
}

impl RankedSet {
    /// An empty set with room for numbers below `numbers`.
    pub(crate) fn below(numbers: usize) -> Self {
        let words = numbers.div_ceil(64);
        Self {
            words: Vec::with_capacity(words),
            ranks: Vec::with_capacity(words.div_ceil(WORDS)),
            count: 0,
        }
    }

    /// Adds a number that is larger than all others.
    pub(crate) fn push(&mut self, number: u32) {
        let word = number as usize / 64;
        while self.words.len() <= word {
            if self.words.len().is_multiple_of(WORDS) {
                self.ranks.push(self.count);
            }
            self.words.push(0);
        }
        self.words[word] |= 1 << (number % 64);
        self.count += 1;
    }

    /// How many numbers are smaller, if the number is in the set.
    pub(crate) fn rank(&self, number: u32) -> Option<u32> {
        let at = number as usize / 64;
        let word = self.words.get(at).filter(|&&word| word >> (number % 64) & 1 == 1)?;
        let first = at / WORDS * WORDS;
        let before: u32 = self.words[first..at].iter().map(|word| word.count_ones()).sum();
        let below = word & ((1 << (number % 64)) - 1);
        Some(self.ranks[at / WORDS] + before + below.count_ones())
    }

    /// The number that so many are smaller than, if there is one.
    pub(crate) fn select(&self, rank: u32) -> Option<u32> {
        if rank >= self.count {
            return None;
        }
        let group = self.ranks.partition_point(|&before| before <= rank) - 1;
        let mut left = rank - self.ranks[group];
        for (at, word) in self.words.iter().enumerate().skip(group * WORDS) {
            let ones = word.count_ones();
            if left < ones {
                let mut word = *word;
                (0..left).for_each(|_| word &= word - 1);
                return Some(at as u32 * 64 + word.trailing_zeros());
            }
            left -= ones;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranks_are_places_in_order(
            crowded in prop::collection::btree_set(0..2_000_u32, 0..600),
            scattered in prop::collection::btree_set(0..100_000_u32, 0..100),
        ) {
            let numbers: BTreeSet<u32> = crowded.union(&scattered).copied().collect();
            let mut set = RankedSet::below(50_000);
            for &number in &numbers {
                set.push(number);
            }
            for (&number, rank) in numbers.iter().zip(0..) {
                prop_assert_eq!((set.rank(number), set.select(rank)), (Some(rank), Some(number)));
            }
            prop_assert_eq!(set.select(numbers.len() as u32), None);
            for number in (0..100_100).step_by(7).filter(|number| !numbers.contains(number)) {
                prop_assert_eq!(set.rank(number), None);
            }
        }
    }
}
