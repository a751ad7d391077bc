//! Counts the occurrences of 64-bit keys, in a table that a hostile text cannot slow down.
//!
//! Open addressing with linear probing, at most five eighths full. The keys are unseeded hashes of
//! pieces of the text, so its author could choose them to collide. Their positions are therefore
//! chosen by multiplication with a random number of this process, as in the maps of the standard
//! library. No answer depends on that number. About 4 ns a key while the table fits a cache; 19 to
//! 38 bytes a distinct key, or three times the text ([`Tally::bounded_by`]). Tested against a map
//! of the standard library.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use crate::kernel;

/// A random odd number.
static MULTIPLIER: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0) | 1);

/// Space for more keys is allocated only when they arrive.
const EXPECTED_MAX: usize = 2_560;

/// A table may have this many slots however short the text: 12 MiB.
const SLOTS_MAX_LEAST: usize = 1 << 20;

/// Larger tables do not fit into the second-level cache, so their slots are prefetched.
const PREFETCH_FROM: usize = 1 << 17;

/// The number of occurrences of each key.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    /// Their number is a power of two, at least two.
    slots: Vec<Slot>,
    slots_max: usize,
    /// A key times this is its position: the high bits choose its partition, the next ones its
    /// slot.
    multiplier: u64,
    /// Only keys of this partition are counted.
    partition: Partition,
    /// The number of distinct keys of this partition, and of those before it.
    distinct: usize,
    distinct_before: usize,
}

/// The keys whose positions begin with these bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Partition {
    bits: u32,
    number: u64,
}

impl Partition {
    /// The offset of a position within the partition; `None` outside of it.
    #[inline]
    fn offset(self, place: u64) -> Option<u64> {
        let first = self.number.unbounded_shl(u64::BITS - self.bits);
        let offset = place.wrapping_sub(first);
        (offset <= u64::MAX >> self.bits).then_some(offset)
    }

    /// The shift from an offset to the number of a slot.
    #[inline]
    const fn shift(self, slots: &[Slot]) -> u32 {
        (slots.len() - 1).leading_zeros() - self.bits
    }
}

/// The two halves of a key and its count, which is 0 in an empty slot. Stored together, so that
/// most searches touch one cache line.
type Slot = [u32; 3];

const fn key_of([low, high, _]: Slot) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn slot(key: u64, count: u32) -> Slot {
    [key as u32, (key >> 32) as u32, count]
}

impl Tally {
    /// An empty table for about `expected` keys, if they are few.
    pub(crate) fn with_capacity(expected: usize) -> Self {
        Self {
            slots: empty(slots_for(expected.min(EXPECTED_MAX))),
            slots_max: usize::MAX,
            multiplier: *MULTIPLIER,
            partition: Partition { bits: 0, number: 0 },
            distinct: 0,
            distinct_before: 0,
        }
    }

    /// Limits the memory to three times the size of the text (half as much again while it grows).
    /// If the keys do not fit, the table counts only one partition of them, and the text must be
    /// read again for each other partition ([`Self::next_partition`]): at most about ten times, for
    /// a text of random single characters.
    pub(crate) fn bounded_by(self, text: &str) -> Self {
        self.with_slots_max((3 * text.len() / size_of::<Slot>()).max(SLOTS_MAX_LEAST))
    }

    /// Limits the number of slots, which must be at least twice the number of keys added at a time.
    pub(crate) fn with_slots_max(self, slots_max: usize) -> Self {
        Self { slots_max, ..self }
    }

    /// Makes space for `keys` keys at once, if the table is still empty.
    pub(crate) fn make_room(&mut self, keys: usize) {
        let slots = slots_for(keys).min(self.slots_max);
        if self.distinct == 0 && slots > self.slots.len() {
            self.slots = empty(slots);
        }
    }

    /// Begins the next partition; false after the last one.
    pub(crate) fn next_partition(&mut self) -> bool {
        let Partition { bits, number } = self.partition;
        let is_last = number + 1 == 1 << bits;
        if !is_last {
            self.partition.number += 1;
            self.slots.fill([0; 3]);
            self.distinct_before += std::mem::take(&mut self.distinct);
        }
        !is_last
    }

    /// Counts one occurrence of each key, and writes its number of earlier ones; 0 for keys outside
    /// the partition.
    pub(crate) fn add(&mut self, keys: &[u64], earlier: &mut [u32]) {
        while 8 * (self.distinct + keys.len()) > 5 * self.slots.len() {
            self.grow();
        }
        let slots = &mut self.slots[..];
        let (partition, multiplier) = (self.partition, self.multiplier);
        let shift = partition.shift(slots);
        if slots.len() > PREFETCH_FROM {
            for key in keys {
                let offset = partition.offset(key.wrapping_mul(multiplier)).unwrap_or_default();
                kernel::prefetch(slots, (offset >> shift) as u32);
            }
        }
        let mut new = 0;
        for (&key, earlier) in keys.iter().zip(earlier) {
            let Some(offset) = partition.offset(key.wrapping_mul(multiplier)) else {
                *earlier = 0;
                continue;
            };
            let at = find(slots, (offset >> shift) as usize, key);
            let [.., before] = slots[at];
            *earlier = before;
            // No text has 2^32 tokens: it would not fit the memory of a request.
            slots[at] = slot(key, before.wrapping_add(1));
            new += u32::from(before == 0);
        }
        self.distinct += new as usize;
    }

    /// The number of distinct keys.
    pub(crate) const fn distinct(&self) -> usize {
        self.distinct_before + self.distinct
    }

    /// The keys with their counts, in no particular order.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> impl Iterator<Item = (u64, u32)> {
        let used = self.slots.iter().copied().filter(|&[.., count]| count > 0);
        used.map(|slot| (key_of(slot), slot[2]))
    }

    /// Doubles the table, or halves the partition.
    #[cold]
    fn grow(&mut self) {
        let mut slots = 2 * self.slots.len();
        if slots > self.slots_max {
            slots = self.slots.len();
            self.partition =
                Partition { bits: self.partition.bits + 1, number: 2 * self.partition.number };
        }
        self.distinct = 0;
        for old in std::mem::replace(&mut self.slots, empty(slots)) {
            let place = key_of(old).wrapping_mul(self.multiplier);
            if let Some(offset) = self.partition.offset(place)
                && old[2] > 0
            {
                let home = (offset >> self.partition.shift(&self.slots)) as usize;
                let at = find(&self.slots, home, key_of(old));
                self.slots[at] = old;
                self.distinct += 1;
            }
        }
    }
}

/// The number of slots that `keys` keys fill to five eighths.
const fn slots_for(keys: usize) -> usize {
    (keys * 8 / 5 + 2).next_power_of_two()
}

/// Empty slots.
///
/// Written here rather than taken zeroed from the system, because slots are read before they are
/// written: the system would map its page of zeros at the read, and replace it at the write, which
/// takes two faults a page and an interrupt of the other cores (half the time of a long text).
fn empty(slots: usize) -> Vec<Slot> {
    let mut table = Vec::with_capacity(slots);
    table.resize(slots, [0; 3]);
    table
}

/// The slot with this key, or the empty one where it belongs.
#[inline]
fn find(slots: &[Slot], home: usize, key: u64) -> usize {
    let last = slots.len() - 1;
    let mut at = home & last;
    while is_another(slots[at], key) {
        at = (at + 1) & last;
    }
    at
}

/// Whether a slot has a key other than this.
///
/// Computed from signs, so that it is one branch that is seldom taken (3.5 ns a shingle). From two
/// comparisons the compiler makes two branches, one of which is mispredicted because it depends on
/// whether a shingle has occurred before (5.5 ns).
#[inline]
const fn is_another(slot: Slot, key: u64) -> bool {
    let difference = key_of(slot) ^ key;
    let differs = difference | difference.wrapping_neg();
    let is_used = (slot[2] as u64).wrapping_neg();
    (differs & is_used).cast_signed() < 0
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// Every multiplier is bad for some keys; most must be good for these.
    #[test]
    fn keys_chosen_to_agree_in_most_bits_still_spread() {
        let mut tally = Tally::with_capacity(EXPECTED_MAX);
        for shift in [0, 20, 40, 50] {
            let mut places: Vec<usize> = (1..=99_u64)
                .map(|i| {
                    let mixed = i.wrapping_mul(0xbf58_476d_1ce4_e5b9);
                    tally.multiplier =
                        (mixed ^ mixed >> 31).wrapping_mul(0x94d0_49bb_1331_11eb) | 1;
                    let home = |key: u64| {
                        let offset = tally.partition.offset(key.wrapping_mul(tally.multiplier));
                        (offset.unwrap() >> tally.partition.shift(&tally.slots)) as usize
                    };
                    (0..1_000).map(|i: u64| home(i << shift)).collect::<BTreeSet<_>>().len()
                })
                .collect();
            places.sort_unstable();
            assert!(places[10] > 100 && places[50] > 700, "{places:?} places at {shift}");
        }
    }

    proptest! {
        #[test]
        fn a_tally_counts_as_a_map_does(
            keys in prop::collection::vec(prop_oneof![0..40_u64, any::<u64>()], 0..300),
            expected in 0..50_usize,
        ) {
            let mut tally = Tally::with_capacity(expected);
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

        #[test]
        fn a_bounded_tally_counts_every_key_in_one_partition(
            keys in prop::collection::vec(prop_oneof![0..40_u64, any::<u64>()], 0..300),
        ) {
            let mut tally = Tally::with_capacity(3).with_slots_max(32);
            let mut all = Tally::with_capacity(3);
            for keys in keys.chunks(7) {
                all.add(keys, &mut [0; 7]);
            }
            let mut counts = BTreeMap::new();
            loop {
                for keys in keys.chunks(7) {
                    tally.add(keys, &mut [0; 7]);
                    prop_assert!(tally.slots.len() <= 32);
                }
                for (key, count) in tally.counts() {
                    prop_assert_eq!(counts.insert(key, count), None);
                }
                if !tally.next_partition() {
                    break;
                }
            }
            prop_assert_eq!(tally.distinct(), counts.len());
            prop_assert_eq!(counts, all.counts().collect::<BTreeMap<_, _>>());
        }
    }
}
