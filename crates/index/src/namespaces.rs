//! The namespaces that have documents, other than the default one.
//!
//! A map from the keyed hash of a name to the number of the namespace, the number of its documents,
//! and a change whose record has the name. It is cloned with each view, so leaves of sorted entries
//! are shared: a change copies one leaf. Memory: about 36 bytes a namespace. Cost: about a
//! microsecond a change among a million namespaces, and nothing without any.

use std::sync::Arc;

use imbl::OrdMap;

use crate::document::Sequence;
use crate::id_key::IdKey;

/// The number of a namespace in this index, by which postings name it.
///
/// The default namespace has 0. Any other gets the next number with its first document, and loses
/// it with its last. Numbers are an affair of one index: no answer depends on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NamespaceNumber(u64);

impl NamespaceNumber {
    pub const DEFAULT: Self = Self(0);
    /// No document has this one.
    pub const NONE: Self = Self(u64::MAX);
    /// In a tally: the documents are of several namespaces, or some of them expire.
    pub(crate) const MIXED: Self = Self(u64::MAX - 1);

    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// The namespace of two groups of documents together.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::NONE, one) | (one, Self::NONE) => one,
            (one, other) if one == other => one,
            _ => Self::MIXED,
        }
    }
}

/// The largest number, sequence and count of documents that an entry can have.
pub const NUMBER_MAX: u64 = (1 << 48) - 1;
/// A leaf with more entries is split in two.
const LEAF_MAX: usize = 128;

/// What is known of one namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceEntry {
    /// The keyed hash of its name.
    pub key: IdKey,
    pub number: NamespaceNumber,
    /// The change that began it, whose record has its name.
    pub named_by: Sequence,
    /// The number of its documents.
    pub documents: u64,
}

/// An entry in 32 bytes: numbers of 48 bits are enough for any disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packed {
    key: [u32; 3],
    number: U48,
    named_by: U48,
    documents: U48,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct U48([u16; 3]);

/// The namespaces that have documents.
#[derive(Debug, Clone, Default)]
pub struct Namespaces {
    /// Leaves of ascending keys, by their first key.
    leaves: OrdMap<[u32; 3], Arc<[Packed]>>,
    count: usize,
    /// The largest number that was ever given.
    last_number: u64,
    documents: u64,
}

impl Namespaces {
    /// From entries in any order, and the largest number that was ever given.
    pub fn restored(last_number: u64, entries: impl Iterator<Item = NamespaceEntry>) -> Self {
        let mut all: Vec<Packed> = entries.map(Packed::of).collect();
        all.sort_unstable_by_key(|packed| packed.key);
        let leaves = all.chunks(LEAF_MAX * 3 / 4).map(|leaf| (leaf[0].key, Arc::from(leaf)));
        let documents = all.iter().map(|packed| packed.documents.get()).sum();
        Self { leaves: leaves.collect(), count: all.len(), last_number, documents }
    }

    pub fn get(&self, key: IdKey) -> Option<NamespaceEntry> {
        let key = packed_key(key);
        let (_, leaf) = self.leaves.get_prev(&key)?;
        let at = leaf.binary_search_by_key(&key, |packed| packed.key).ok()?;
        Some(leaf[at].entry())
    }

    /// Adds a document to a namespace, as the given change; begins the namespace if it has none.
    pub fn add(&mut self, key: IdKey, change: Sequence) -> NamespaceNumber {
        let known = self.get(key);
        let entry = if let Some(entry) = known {
            NamespaceEntry { documents: entry.documents + 1, ..entry }
        } else {
            self.last_number += 1;
            let number = NamespaceNumber::new(self.last_number);
            NamespaceEntry { key, number, named_by: change, documents: 1 }
        };
        self.put(entry);
        self.documents += 1;
        entry.number
    }

    /// Takes documents from a namespace, and forgets it with its last one.
    ///
    /// # Panics
    /// When it has fewer.
    pub fn take(&mut self, key: IdKey, documents: u64) {
        if documents == 0 {
            return;
        }
        let entry = self.get(key).expect("a namespace with documents is known");
        self.documents -= documents;
        let documents = entry.documents.checked_sub(documents).expect("it has that many");
        if documents > 0 {
            self.put(NamespaceEntry { documents, ..entry });
        } else {
            self.forget(key);
        }
    }

    /// All of them, in no meaningful order.
    pub fn iter(&self) -> impl Iterator<Item = NamespaceEntry> + '_ {
        self.leaves.values().flat_map(|leaf| leaf.iter().map(|packed| packed.entry()))
    }

    /// The first `limit` namespaces in the order in which they began, of those that began after the
    /// one with the number `after`. Cost: visits all of them.
    pub fn page(&self, after: NamespaceNumber, limit: usize) -> Vec<NamespaceEntry> {
        let mut page: Vec<NamespaceEntry> = Vec::new();
        for entry in self.iter().filter(|entry| entry.number > after) {
            page.push(entry);
            if page.len() >= limit.saturating_mul(2).max(64) {
                shorten(&mut page, limit);
            }
        }
        shorten(&mut page, limit);
        page.sort_unstable_by_key(|entry| entry.number);
        page
    }

    /// The number of their documents together.
    pub fn documents(&self) -> u64 {
        self.documents
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The largest number that was ever given.
    pub fn last_number(&self) -> u64 {
        self.last_number
    }

    /// Memory in bytes, about.
    pub fn bytes(&self) -> usize {
        self.count * size_of::<Packed>() + self.leaves.len() * 64
    }

    fn put(&mut self, entry: NamespaceEntry) {
        let packed = Packed::of(entry);
        let first = self
            .leaves
            .get_prev(&packed.key)
            .or_else(|| self.leaves.get_min().map(|(k, l)| (k, l)));
        let Some((&first, leaf)) = first else {
            self.count += 1;
            self.leaves.insert(packed.key, [packed].into());
            return;
        };
        match leaf.binary_search_by_key(&packed.key, |known| known.key) {
            Ok(at) => {
                let leaf = self.leaves.get_mut(&first).expect("it was found");
                Arc::make_mut(leaf)[at] = packed;
            }
            Err(at) => {
                self.count += 1;
                let mut entries = leaf.to_vec();
                entries.insert(at, packed);
                self.replace(first, &entries);
            }
        }
    }

    fn forget(&mut self, key: IdKey) {
        let key = packed_key(key);
        let found = self.leaves.get_prev(&key).map(|(&first, leaf)| (first, leaf.to_vec()));
        if let Some((first, mut entries)) = found {
            entries.retain(|packed| packed.key != key);
            self.count -= 1;
            self.replace(first, &entries);
        }
    }

    /// Replaces a leaf by these entries, in two leaves if they are too many.
    fn replace(&mut self, first: [u32; 3], entries: &[Packed]) {
        self.leaves.remove(&first);
        let leaf = if entries.len() > LEAF_MAX { LEAF_MAX / 2 } else { LEAF_MAX };
        for leaf in entries.chunks(leaf) {
            self.leaves.insert(leaf[0].key, leaf.into());
        }
    }
}

fn shorten(page: &mut Vec<NamespaceEntry>, limit: usize) {
    if page.len() > limit {
        page.select_nth_unstable_by_key(limit, |entry| entry.number);
        page.truncate(limit);
    }
}

fn packed_key(key: IdKey) -> [u32; 3] {
    [(key.high >> 32) as u32, key.high as u32, key.low]
}

impl Packed {
    fn of(entry: NamespaceEntry) -> Self {
        Self {
            key: packed_key(entry.key),
            number: U48::of(entry.number.get()),
            named_by: U48::of(entry.named_by.get()),
            documents: U48::of(entry.documents),
        }
    }

    fn entry(self) -> NamespaceEntry {
        let [high, middle, low] = self.key;
        NamespaceEntry {
            key: IdKey { high: u64::from(high) << 32 | u64::from(middle), low },
            number: NamespaceNumber::new(self.number.get()),
            named_by: Sequence::new(self.named_by.get()),
            documents: self.documents.get(),
        }
    }
}

impl U48 {
    fn of(number: u64) -> Self {
        debug_assert!(number <= NUMBER_MAX, "48 bits outlast any disk");
        Self([number as u16, (number >> 16) as u16, (number >> 32) as u16])
    }

    fn get(self) -> u64 {
        self.0.iter().rev().fold(0, |number, &part| number << 16 | u64::from(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key(number: u16) -> IdKey {
        // Spread, and some with equal high halves.
        IdKey {
            high: u64::from(number / 3).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            low: number.into(),
        }
    }

    proptest! {
        #[test]
        fn it_knows_what_a_map_knows(
            changes in prop::collection::vec((0_u16..600, 0_u8..5), 0..3_000),
            after in 0_u64..500,
            limit in 0_usize..50,
        ) {
            let mut namespaces = Namespaces::default();
            let mut map: BTreeMap<u16, NamespaceEntry> = BTreeMap::new();
            let mut numbers = 0;
            for (change, (which, what)) in (1..).map(Sequence::new).zip(changes) {
                if what == 0 {
                    if let Some(entry) = map.remove(&which) {
                        namespaces.take(entry.key, entry.documents);
                    }
                } else if what == 1 && let Some(entry) = map.get_mut(&which) {
                    namespaces.take(entry.key, 1);
                    entry.documents -= 1;
                    if entry.documents == 0 {
                        map.remove(&which);
                    }
                } else {
                    let number = namespaces.add(key(which), change);
                    let entry = map.entry(which).or_insert_with(|| {
                        numbers += 1;
                        let number = NamespaceNumber::new(numbers);
                        NamespaceEntry { key: key(which), number, named_by: change, documents: 0 }
                    });
                    entry.documents += 1;
                    prop_assert_eq!(number, entry.number);
                }
            }
            let again = Namespaces::restored(namespaces.last_number(), namespaces.iter());
            for namespaces in [namespaces, again] {
                prop_assert_eq!(namespaces.len(), map.len());
                let documents = map.values().map(|entry| entry.documents).sum::<u64>();
                prop_assert_eq!(namespaces.documents(), documents);
                prop_assert_eq!(namespaces.last_number(), numbers);
                for which in 0..600 {
                    prop_assert_eq!(namespaces.get(key(which)), map.get(&which).copied());
                }
                let mut all: Vec<_> = map.values().copied().collect();
                all.sort_by_key(|entry| entry.number);
                all.retain(|entry| entry.number.get() > after);
                all.truncate(limit);
                prop_assert_eq!(namespaces.page(NamespaceNumber::new(after), limit), all);
            }
        }
    }

    #[test]
    fn a_clone_keeps_what_it_had() {
        let mut namespaces = Namespaces::default();
        namespaces.add(key(1), Sequence::new(1));
        let before = namespaces.clone();
        namespaces.add(key(1), Sequence::new(2));
        namespaces.add(key(2), Sequence::new(3));
        assert_eq!(before.get(key(1)).unwrap().documents, 1);
        assert_eq!(before.get(key(2)), None);
        assert_eq!(namespaces.get(key(1)).unwrap().documents, 2);
    }

    #[test]
    fn an_entry_takes_32_bytes() {
        assert_eq!(size_of::<Packed>(), 32);
    }
}
