//! Caps the weight of a feature: only about the first eight of its occurrences count.
//!
//! Without the cap, a few windows that occur very often pull all texts of one kind together. The
//! counts are not exact. Features share 65,536 counters by the upper 16 bits of their hashes, and
//! an occurrence counts only while its counter is below [`CAP`], in the order of the text. Exact
//! counts would find no more near-duplicates, but would need a table of the features.
//!
//! Cost: about 0.8 ns a feature, as much as the rest of the fingerprint of ASCII with AVX-512, to
//! read and write a byte at a random place of 64 KiB. It takes 64 KiB a thread, and as much again
//! after a text with CJK characters. The counters are not cleared for each text: values of earlier
//! texts lie below the floor of the current one. Tested against a map of the standard library.

use std::cell::Cell;

/// The largest weight of a feature.
pub(crate) const CAP: u8 = 8;

const COUNTERS: usize = 1 << 16;

/// The number of texts after which the counters must be cleared.
const FLOORS: usize = (u8::MAX / CAP) as usize;

/// For each floor (a multiple of [`CAP`]), what each value of a counter becomes. This is a table
/// because the compiler turns comparisons into branches, which are mispredicted (5 ns a feature).
static NEXT: [[u8; 256]; FLOORS] = {
    let mut next = [[0; 256]; FLOORS];
    let mut floor = 0;
    while floor < FLOORS {
        let mut value = 0;
        while value < 256 {
            let (first, full) = (floor as u8 * CAP, (floor as u8 + 1) * CAP);
            let value_now = value as u8;
            next[floor][value] = if value_now < first {
                first + 1
            } else if value_now < full {
                value_now + 1
            } else {
                full
            };
            value += 1;
        }
        floor += 1;
    }
    next
};

/// The counters of one text; the next text of this thread uses them again.
#[derive(Debug)]
pub(crate) struct Saturation {
    /// Those of single characters, which a text in Han repeats most.
    characters: Counters,
    /// Those of all other features.
    others: Counters,
}

thread_local! {
    /// Counters that no text uses now.
    static SPARE: Cell<[Counters; 2]> = const { Cell::new([Counters::NONE, Counters::NONE]) };
}

impl Saturation {
    /// Counters for a new text, all of them 0.
    pub(crate) fn for_text() -> Self {
        let [mut characters, mut others] = SPARE.replace([Counters::NONE, Counters::NONE]);
        characters.begin();
        others.begin();
        Self { characters, others }
    }

    /// The counters of single characters.
    pub(crate) const fn characters(&mut self) -> &mut Counters {
        &mut self.characters
    }

    /// The counters of all other features.
    pub(crate) const fn others(&mut self) -> &mut Counters {
        &mut self.others
    }

    /// Whether the next occurrence of a feature counts.
    pub(crate) fn admits(&mut self, is_character: bool, hash: u64) -> bool {
        let counters = if is_character { &mut self.characters } else { &mut self.others };
        counters.admit(&[hash], &mut [0]) == 1
    }
}

impl Drop for Saturation {
    fn drop(&mut self) {
        let take = |counters| std::mem::replace(counters, Counters::NONE);
        SPARE.set([take(&mut self.characters), take(&mut self.others)]);
    }
}

/// A table of counters, indexed by the upper 16 bits of a hash.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Each value is [`CAP`] times the floor, plus the count; a smaller value means a count of 0.
    /// Empty until the first text that needs them.
    values: Vec<u8>,
    /// It rises by one with each text, up to [`FLOORS`].
    floor: usize,
}

impl Counters {
    const NONE: Self = Self { values: Vec::new(), floor: 0 };

    /// Sets all counters to 0, for the next text.
    fn begin(&mut self) {
        self.floor += 1;
        if self.floor >= FLOORS {
            self.values.fill(0);
            self.floor = 0;
        }
    }

    /// Writes the hashes that count to the beginning of `admitted`, in their order, and returns
    /// their number. The rest of `admitted` is undefined.
    ///
    /// # Panics
    /// If `admitted` is shorter than `hashes`.
    #[inline]
    pub(crate) fn admit(&mut self, hashes: &[u64], admitted: &mut [u64]) -> usize {
        assert!(admitted.len() >= hashes.len(), "all may count");
        if self.values.is_empty() {
            self.values = vec![0; COUNTERS];
        }
        let values = self.values.first_chunk_mut::<COUNTERS>().expect("they are all there");
        let (next, full) = (&NEXT[self.floor], (self.floor as u8 + 1) * CAP);
        let mut counts = |hash: u64| {
            let value = &mut values[(hash >> 48) as usize];
            let counts = *value < full;
            *value = next[usize::from(*value)];
            usize::from(counts)
        };
        let mut count = 0;
        // Always written and only sometimes kept, so that no branch depends on the text. Eight at a
        // time share one check of the space.
        let (eights, rest) = hashes.as_chunks::<8>();
        for eight in eights {
            let space: &mut [u64; 8] = admitted[count..].first_chunk_mut().expect("all may count");
            let mut of_eight = 0;
            for &hash in eight {
                space[of_eight % 8] = hash;
                of_eight += counts(hash);
            }
            count += of_eight;
        }
        for &hash in rest {
            admitted[count] = hash;
            count += counts(hash);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Those that count, one after the other.
    fn admitted(counters: &mut Counters, hashes: &[u64], at_a_time: usize) -> Vec<u64> {
        let mut all = Vec::new();
        for some in hashes.chunks(at_a_time) {
            let mut admitted = vec![0; some.len()];
            let count = counters.admit(some, &mut admitted);
            all.extend_from_slice(&admitted[..count]);
        }
        all
    }

    fn plainly_admitted(hashes: &[u64]) -> Vec<u64> {
        let mut counts = BTreeMap::new();
        let counts_now = |hash: &u64| {
            let count = counts.entry(hash >> 48).or_insert(0);
            *count += 1;
            *count <= 8
        };
        hashes.iter().copied().filter(counts_now).collect()
    }

    proptest! {
        /// More texts than there are floors.
        #[test]
        fn each_text_is_counted_as_with_a_map_of_its_own(
            texts in prop::collection::vec(
                prop::collection::vec(
                    prop_oneof![(0..6_u64).prop_map(|key| key << 47), any::<u64>()],
                    0..60,
                ),
                1..80,
            ),
            at_a_time in 1..50_usize,
        ) {
            for hashes in texts {
                let mut saturation = Saturation::for_text();
                let of_characters = admitted(saturation.characters(), &hashes, at_a_time);
                prop_assert_eq!(of_characters, plainly_admitted(&hashes));
                let of_others = admitted(saturation.others(), &hashes, at_a_time);
                prop_assert_eq!(of_others, plainly_admitted(&hashes));
            }
        }
    }

    #[test]
    fn a_text_of_one_feature_counts_eight_of_its_occurrences() {
        let mut saturation = Saturation::for_text();
        assert_eq!(admitted(saturation.others(), &vec![7; 5_000], 256), [7; 8]);
        // The other counters are still at 0.
        assert_eq!(admitted(saturation.characters(), &[7; 9], 2), [7; 8]);
    }
}
