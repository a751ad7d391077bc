//! A blocked Bloom filter (Putze, Sanders and Singler 2007): which ids may be in a file.
//!
//! Ten bits a key, of which seven are set, all in one line of 64 bytes: one cache miss a question,
//! and one in a hundred says yes to a key that is not there.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::id_key::IdKey;

pub(super) const BITS_OF_KEY: usize = 10;

const PROBES: u32 = 7;

const WORDS: usize = 8;

/// Log2 of the bits of a block.
const BLOCK_BITS: u32 = 9;

/// Some keys.
#[derive(Debug)]
pub(crate) struct Filter(Vec<[u64; WORDS]>);

impl Filter {
    /// An empty filter with room for this many keys.
    pub(crate) fn for_keys(count: usize) -> Self {
        Self(vec![[0; WORDS]; (count * BITS_OF_KEY).div_ceil(1 << BLOCK_BITS).max(1)])
    }

    pub(crate) fn add(&mut self, key: IdKey) {
        let block = self.block(key);
        each_bit(key, |word, bit| self.0[block][word] |= bit);
    }

    /// Whether a key may be among those that were added.
    pub(crate) fn may_have(&self, key: IdKey) -> bool {
        let (block, mut may_have) = (&self.0[self.block(key)], true);
        each_bit(key, |word, bit| may_have &= block[word] & bit != 0);
        may_have
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }

    /// Keys are keyed hashes, and their high halves uniform.
    fn block(&self, key: IdKey) -> usize {
        ((u128::from(key.high) * self.0.len() as u128) >> 64) as usize
    }
}

fn each_bit(key: IdKey, mut each: impl FnMut(usize, u64)) {
    let hash = xxh3_64_with_seed(&key.low.to_le_bytes(), key.high);
    for probe in 0..PROBES {
        let bit = hash >> (probe * BLOCK_BITS);
        each((bit >> 6) as usize % WORDS, 1 << (bit & 63));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> IdKey {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        IdKey { high: mixed ^ mixed >> 29, low: (mixed >> 17) as u32 }
    }

    #[test]
    fn what_was_added_is_known_and_little_else() {
        let mut filter = Filter::for_keys(100_000);
        (0..100_000).for_each(|number| filter.add(key(number)));
        assert!((0..100_000).all(|number| filter.may_have(key(number))));
        let others = (100_000..200_000).filter(|&number| filter.may_have(key(number))).count();
        assert!(others < 1_500, "{others} of 100,000");
        assert!(filter.bytes() <= 126_000);
        assert!(!Filter::for_keys(0).may_have(key(1)));
    }
}
