//! From an id to its document: the id index of a segment.
//!
//! Memory: 16 bytes an id, or 1.3 if the pairs are in a file. A look-up costs three to four cache
//! misses: the keys are uniform, so the position of a key is estimated and then corrected by the
//! keys found there. In a file it reads one page, and of an id that is not there, one in a hundred.

mod filter;

use std::cmp::Ordering;

use crate::id_key::IdKey;
use crate::levels::ids::filter::Filter;
use crate::memory::file::FileArray;
use crate::memory::placed::{PlacedArray, Placement};

/// Corrections of an estimated position. A third one makes no difference up to a hundred million
/// ids.
const CORRECTIONS: usize = 2;

/// This many keys on each side of the estimate are searched first: a cache line.
const REACH: usize = 8;

/// The pairs in a file between two keys that are in memory: about a page.
const PAIRS_OF_FIRST: usize = 256;

/// Memory of an id whose pair is in a file, in bits: of the filter, and of the keys that are in
/// memory.
pub(crate) const BITS_OF_ID_IN_FILE: usize =
    filter::BITS_OF_KEY + u64::BITS as usize / PAIRS_OF_FIRST;

/// A sorted map from id keys to the document numbers of one segment.
#[derive(Debug)]
pub struct IdTable(Pairs);

#[derive(Debug)]
enum Pairs {
    Memory(Columns),
    File(FilePairs),
}

/// The pairs in memory.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    highs: Vec<u64>,
    lows: Vec<u32>,
    documents: Vec<u32>,
}

/// The pairs in a file.
#[derive(Debug)]
struct FilePairs {
    pairs: FileArray<[u64; 2]>,
    /// The high half of one key in [`PAIRS_OF_FIRST`].
    firsts: Vec<u64>,
    filter: Filter,
}

impl IdTable {
    /// Builds the map from pairs sorted by distinct keys.
    pub fn from_sorted(pairs: impl ExactSizeIterator<Item = (IdKey, u32)>) -> Self {
        let mut table = IdTableBuilder::new(&Placement::Memory, pairs.len());
        for (key, document) in pairs {
            table.push(key, document);
        }
        table.finish()
    }

    /// The map with these pairs in a file, packed ([`pack`]). Reads all of them once.
    pub(crate) fn of_file(pairs: FileArray<[u64; 2]>) -> Self {
        let (mut firsts, mut filter) = (Vec::new(), Filter::for_keys(pairs.len()));
        for at in 0..pairs.len() {
            let (key, _) = unpack(pairs.get(at));
            note(key, at, (&mut firsts, &mut filter));
        }
        Self(Pairs::File(FilePairs { pairs, firsts, filter }))
    }

    /// The document number of a key.
    pub fn get(&self, key: IdKey) -> Option<u32> {
        match &self.0 {
            Pairs::Memory(columns) => columns.get(key),
            Pairs::File(file) => file.get(key),
        }
    }

    /// All pairs, by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (IdKey, u32)> + '_ {
        (0..self.len()).map(|at| match &self.0 {
            Pairs::Memory(columns) => columns.pair(at),
            Pairs::File(file) => unpack(file.pairs.get(at)),
        })
    }

    pub fn len(&self) -> usize {
        match &self.0 {
            Pairs::Memory(columns) => columns.highs.len(),
            Pairs::File(file) => file.pairs.len(),
        }
    }

    /// Whether there are no ids.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the pairs are in a file.
    pub(crate) fn is_in_file(&self) -> bool {
        matches!(self.0, Pairs::File(_))
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Pairs::Memory(columns) => columns.bytes(),
            Pairs::File(file) => file.firsts.capacity() * 8 + file.filter.bytes(),
        }
    }

    /// The bytes in a file.
    pub(crate) fn file_bytes(&self) -> u64 {
        match &self.0 {
            Pairs::Memory(_) => 0,
            Pairs::File(file) => file.pairs.bytes(),
        }
    }
}

impl Default for IdTable {
    fn default() -> Self {
        Self(Pairs::Memory(Columns::default()))
    }
}

impl Columns {
    fn get(&self, key: IdKey) -> Option<u32> {
        let first = self.first_at_least(key.high);
        (first..self.highs.len())
            .take_while(|&i| self.highs[i] == key.high)
            .find(|&i| self.lows[i] == key.low)
            .map(|i| self.documents[i])
    }

    fn pair(&self, at: usize) -> (IdKey, u32) {
        (IdKey { high: self.highs[at], low: self.lows[at] }, self.documents[at])
    }

    fn bytes(&self) -> usize {
        self.highs.capacity() * 8 + (self.lows.capacity() + self.documents.capacity()) * 4
    }

    /// Interpolation search: with `n` uniform keys an estimate is off by about `sqrt(n) / 2`, and
    /// after a correction by about the square root of that. Then the surrounding keys are searched,
    /// in a growing range in case the keys are not uniform.
    fn first_at_least(&self, high: u64) -> usize {
        let (highs, count) = (&self.highs, self.highs.len());
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
}

impl FilePairs {
    fn get(&self, key: IdKey) -> Option<u32> {
        if !self.filter.may_have(key) {
            return None;
        }
        let from = self.firsts.partition_point(|&first| first < key.high).saturating_sub(1);
        let to = self.firsts.partition_point(|&first| first <= key.high);
        let (mut low, mut high) =
            (from * PAIRS_OF_FIRST, self.pairs.len().min(to * PAIRS_OF_FIRST));
        while low < high {
            let middle = low.midpoint(high);
            let (there, document) = unpack(self.pairs.get(middle));
            match there.cmp(&key) {
                Ordering::Equal => return Some(document),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }
}

/// Takes the pairs of a map by ascending key.
#[derive(Debug)]
pub(crate) enum IdTableBuilder {
    Memory(Columns),
    File { pairs: PlacedArray<[u64; 2]>, count: usize, firsts: Vec<u64>, filter: Filter },
}

impl IdTableBuilder {
    /// A builder for at most `count` pairs.
    pub(crate) fn new(placement: &Placement, count: usize) -> Self {
        match placement {
            Placement::Files(_) if count > 0 => Self::File {
                pairs: PlacedArray::zeros(placement, count),
                count: 0,
                firsts: Vec::new(),
                filter: Filter::for_keys(count),
            },
            Placement::Files(_) | Placement::Memory => Self::Memory(Columns {
                highs: Vec::with_capacity(count),
                lows: Vec::with_capacity(count),
                documents: Vec::with_capacity(count),
            }),
        }
    }

    /// Adds a pair whose key is larger than all others.
    pub(crate) fn push(&mut self, key: IdKey, document: u32) {
        match self {
            Self::Memory(columns) => {
                columns.highs.push(key.high);
                columns.lows.push(key.low);
                columns.documents.push(document);
            }
            Self::File { pairs, count, firsts, filter } => {
                note(key, *count, (firsts, filter));
                *pairs.slot(*count) = pack(key, document);
                *count += 1;
            }
        }
    }

    pub(crate) fn finish(self) -> IdTable {
        match self {
            Self::Memory(columns) => IdTable(Pairs::Memory(columns)),
            Self::File { mut pairs, count, firsts, filter } => {
                pairs.finish(count);
                match pairs {
                    PlacedArray::File(pairs) => {
                        IdTable(Pairs::File(FilePairs { pairs, firsts, filter }))
                    }
                    PlacedArray::Memory(_) | PlacedArray::Filling(_) => IdTable::default(),
                }
            }
        }
    }
}

/// Notes the key of the pair at a place.
fn note(key: IdKey, at: usize, (firsts, filter): (&mut Vec<u64>, &mut Filter)) {
    if at.is_multiple_of(PAIRS_OF_FIRST) {
        firsts.push(key.high);
    }
    filter.add(key);
}

/// A pair as it lies in files.
pub(crate) fn pack(key: IdKey, document: u32) -> [u64; 2] {
    [key.high, u64::from(key.low) << 32 | u64::from(document)]
}

pub(crate) fn unpack([high, low]: [u64; 2]) -> (IdKey, u32) {
    (IdKey { high, low: (low >> 32) as u32 }, low as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Namespace;
    use crate::memory::file::tests::FilesInMemory;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    proptest! {
        /// Skewed on purpose: equal high halves, and keys that lie nowhere near their guess.
        #[test]
        fn it_finds_what_a_map_finds(keys in prop::collection::btree_set(
            (prop_oneof![0_u64..20, any::<u64>()], 0_u32..5), 0..400,
        )) {
            let map: BTreeMap<IdKey, u32> =
                keys.iter().zip(0..).map(|(&(high, low), i)| (IdKey { high, low }, i)).collect();
            let pairs: Vec<_> = map.iter().map(|(&key, &i)| (key, i)).collect();
            let table = IdTable::from_sorted(pairs.iter().copied());
            let files = Placement::Files(Arc::new(FilesInMemory::default()));
            let mut in_file = IdTableBuilder::new(&files, pairs.len() + 3);
            for &(key, document) in &pairs {
                in_file.push(key, document);
            }
            let in_file = in_file.finish();
            prop_assert!(in_file.is_in_file() && in_file.iter().eq(pairs.iter().copied()));
            let packed: Vec<[u64; 2]> =
                pairs.iter().map(|&(key, document)| pack(key, document)).collect();
            let file = FilesInMemory::default().file_of(bytemuck::cast_slice(&packed).to_vec());
            let opened = IdTable::of_file(FileArray::new(file, 0, packed.len()));
            let around = |&(high, _): &(u64, u32)| [high.wrapping_sub(1), high, high.wrapping_add(1)];
            for high in (0..20).chain(keys.iter().flat_map(around)) {
                for low in 0..5 {
                    let key = IdKey { high, low };
                    for table in [&table, &in_file, &opened] {
                        prop_assert_eq!(table.get(key), map.get(&key).copied());
                    }
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
