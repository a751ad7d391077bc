//! From an id to its document: the id index of a segment.
//!
//! Memory: 16 bytes an id. A look-up costs three to four cache misses: the keys are uniform, so the
//! position of a key is estimated and then corrected by the keys found there.

use crate::id_key::IdKey;

/// Corrections of an estimated position. A third one makes no difference up to a hundred million
/// ids.
const CORRECTIONS: usize = 2;

/// This many keys on each side of the estimate are searched first: a cache line.
const REACH: usize = 8;

/// A sorted map from id keys to the document numbers of one segment.
#[derive(Debug, Default)]
pub struct IdTable {
    highs: Vec<u64>,
    lows: Vec<u32>,
    documents: Vec<u32>,
}

impl IdTable {
    /// Builds the map from pairs sorted by distinct keys.
    pub fn from_sorted(pairs: impl ExactSizeIterator<Item = (IdKey, u32)>) -> Self {
        let mut table = Self::with_capacity(pairs.len());
        for (key, document) in pairs {
            table.push(key, document);
        }
        table
    }

    /// An empty map with capacity for this many pairs.
    pub fn with_capacity(count: usize) -> Self {
        Self {
            highs: Vec::with_capacity(count),
            lows: Vec::with_capacity(count),
            documents: Vec::with_capacity(count),
        }
    }

    /// Adds a pair whose key is larger than all others.
    pub fn push(&mut self, key: IdKey, document: u32) {
        debug_assert!(self.last_key().is_none_or(|last| last < key), "keys ascend");
        self.highs.push(key.high);
        self.lows.push(key.low);
        self.documents.push(document);
    }

    /// The document number of a key.
    pub fn get(&self, key: IdKey) -> Option<u32> {
        let first = self.first_at_least(key.high);
        (first..self.len())
            .take_while(|&i| self.highs[i] == key.high)
            .find(|&i| self.lows[i] == key.low)
            .map(|i| self.documents[i])
    }

    /// Interpolation search: with `n` uniform keys an estimate is off by about `sqrt(n) / 2`, and
    /// after a correction by about the square root of that. Then the surrounding keys are searched,
    /// in a growing range in case the keys are not uniform.
    fn first_at_least(&self, high: u64) -> usize {
        let (highs, count) = (&self.highs, self.len());
        let places = |distance: u64| ((u128::from(distance) * count as u128) >> 64) as usize;
        let mut place = places(high);
        for _ in 0..CORRECTIONS {
            let Some(&there) = highs.get(place) else { break };
            let off = places(high.abs_diff(there));
            place = if there < high { count.min(place + off) } else { place.saturating_sub(off) };
        }
        let mut reach = REACH;
        loop {
            let (start, end) = (place.saturating_sub(reach), count.min(place + reach));
            let begins = start == 0 || highs[start - 1] < high;
            let ends = end == count || highs[end] >= high;
            if begins && ends {
                return start + highs[start..end].partition_point(|&there| there < high);
            }
            reach *= 8;
        }
    }

    /// All pairs, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (IdKey, u32)> + '_ {
        (0..self.len())
            .map(|i| (IdKey { high: self.highs[i], low: self.lows[i] }, self.documents[i]))
    }

    pub fn len(&self) -> usize {
        self.highs.len()
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.highs.is_empty()
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.highs.capacity() * 8 + (self.lows.capacity() + self.documents.capacity()) * 4
    }

    fn last_key(&self) -> Option<IdKey> {
        Some(IdKey { high: *self.highs.last()?, low: *self.lows.last()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Namespace;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Skewed on purpose: equal high halves, and keys that lie nowhere near their guess.
        #[test]
        fn it_finds_what_a_map_finds(keys in prop::collection::btree_set(
            (prop_oneof![0_u64..20, any::<u64>()], 0_u32..5), 0..400,
        )) {
            let map: BTreeMap<IdKey, u32> =
                keys.iter().zip(0..).map(|(&(high, low), i)| (IdKey { high, low }, i)).collect();
            let pairs: Vec<_> = map.iter().map(|(&key, &i)| (key, i)).collect();
            let table = IdTable::from_sorted(pairs.into_iter());
            let around = |&(high, _): &(u64, u32)| [high.wrapping_sub(1), high, high.wrapping_add(1)];
            for high in (0..20).chain(keys.iter().flat_map(around)) {
                for low in 0..5 {
                    let key = IdKey { high, low };
                    prop_assert_eq!(table.get(key), map.get(&key).copied());
                }
            }
        }
    }

    #[test]
    fn the_key_depends_on_the_secret_and_on_every_byte() {
        let key = |text, secret: u8| IdKey::of(text, None, &[secret; 16]);
        assert_eq!(key("a", 1), key("a", 1));
        assert_ne!(key("a", 1), key("a", 2));
        assert_ne!(key("a", 1), key("b", 1));
        let of = |id, namespace| IdKey::of(id, Some(&Namespace::new(namespace).unwrap()), &[1; 16]);
        assert_ne!(of("a", "n"), key("a", 1));
        assert_ne!(of("a", "n"), of("a", "m"));
        assert_ne!(of("an", "m"), of("a", "nm"));
    }
}
