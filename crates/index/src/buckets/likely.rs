//! The likely search in a small segment: the buckets of expected flips of its keys.

use super::{Buckets, Candidates};
use crate::buckets::directory::Directory;
use crate::kernel::Simd;
use crate::kernel::scan::{self, WORDS_MAX};
use crate::likely::{Keys, LIKELY_DISTANCE_MAX};
use crate::permutation::Permuted;
use crate::plan::Plan;

impl Buckets {
    /// The plan of its tables.
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Calls `found` with every fingerprint within [`LIKELY_DISTANCE_MAX`] in the buckets of these
    /// keys; one that lies in several of them is found more than once.
    pub(crate) fn near_likely(
        &self,
        query: Permuted,
        keys: &Keys,
        found: &mut impl FnMut(Permuted),
    ) {
        let Keys::Listed(keys) = keys else { return self.near_of_all(query, found) };
        let words = &*self.words;
        let bucket = |&(role, flips): &(usize, u32)| self.tables[role].bucket(query) ^ flips;
        for key in keys {
            Directory::prefetch(words, bucket(key));
        }
        for key in keys {
            let (start, end) = self.directory.bucket(words, bucket(key));
            self.prefetch_lines(words, start, end);
        }
        for key in keys {
            self.near_in_bucket(query, (key.0, bucket(key)), found);
        }
    }

    fn near_in_bucket(
        &self,
        query: Permuted,
        (role, bucket): (usize, u32),
        found: &mut impl FnMut(Permuted),
    ) {
        let words = &*self.words;
        let middle = self.tables[role].middle(query);
        let (start, end) = self.directory.bucket(words, bucket);
        let middles = &words[start as usize..][..self.count_in(start, end)];
        for (from, some) in (0..).step_by(WORDS_MAX).zip(middles.chunks(WORDS_MAX)) {
            let candidates = Candidates {
                bucket,
                role: role as u32,
                middle: start + from,
                end: self.ends(start, end) + from,
                near: scan::scan_words(Simd::best(), some, middle, LIKELY_DISTANCE_MAX),
            };
            self.verify(words, (query, LIKELY_DISTANCE_MAX), &[candidates], found);
        }
    }

    /// The same among all fingerprints.
    fn near_of_all(&self, query: Permuted, found: &mut impl FnMut(Permuted)) {
        let values = self.entries().map(|(value, _)| value);
        values.filter(|value| (value ^ query).count_ones() <= LIKELY_DISTANCE_MAX).for_each(found);
    }
}
