//! Distinct words, numbered in the order of their first occurrence.
//!
//! All are in one string, with a table of their numbers by their hash, which is keyed by a random
//! number of this process: about 25 bytes a word in addition to its own.

use std::hash::{BuildHasher, RandomState};

/// The number that no word has.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct NumberedWords {
    spellings: String,
    /// Where each word ends.
    ends: Vec<usize>,
    /// Open addressing with linear probing, at most three quarters full; empty or a power of two.
    slots: Vec<u32>,
    hasher: RandomState,
}

impl NumberedWords {
    pub(crate) const fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of a word, which is added if it is new.
    pub(crate) fn number(&mut self, word: &str) -> u32 {
        if 4 * (self.len() + 1) > 3 * self.slots.len() {
            self.grow();
        }
        let at = self.find(word);
        if self.slots[at] == NONE {
            self.slots[at] = self.len() as u32;
            self.spellings.push_str(word);
            self.ends.push(self.spellings.len());
        }
        self.slots[at]
    }

    /// The word with this number.
    pub(crate) fn word(&self, number: u32) -> &str {
        let number = number as usize;
        let begin = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.spellings[begin..self.ends[number]]
    }

    /// Gives back the table, after which no word can be added.
    pub(crate) fn without_table(mut self) -> Self {
        self.slots = Vec::new();
        self
    }

    /// The slot with this word, or the empty one where it belongs.
    fn find(&self, word: &str) -> usize {
        let last = self.slots.len() - 1;
        let mut at = self.hasher.hash_one(word) as usize & last;
        while self.slots[at] != NONE && self.word(self.slots[at]) != word {
            at = (at + 1) & last;
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        self.slots = vec![NONE; (2 * self.slots.len()).max(64)];
        for number in 0..self.len() as u32 {
            let at = self.find(self.word(number));
            self.slots[at] = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_are_those_of_the_first_occurrences(
            words in prop::collection::vec("[ab]{0,6}", 0..300),
        ) {
            let mut numbered = NumberedWords::default();
            let mut distinct: Vec<&String> = Vec::new();
            for word in &words {
                let number = numbered.number(word) as usize;
                let expected = distinct.iter().position(|known| *known == word);
                prop_assert_eq!(number, expected.unwrap_or(distinct.len()));
                if number == distinct.len() {
                    distinct.push(word);
                }
            }
            prop_assert_eq!(numbered.len(), distinct.len());
            for (number, word) in (0..).zip(distinct) {
                prop_assert_eq!(numbered.word(number), word);
            }
        }
    }
}
