//! The removals of a segment: which documents of older segments it removes.
//!
//! A purge or an expiry leaves millions of them until a merge drops both the documents and their
//! removals, and meanwhile every hit asks for the removals of its fingerprint. So a directory leads
//! from the upper bits of a key to the few removals that begin with them: a look-up costs two cache
//! misses, where a binary search of ten million costs more than twenty.

use crate::kernel;
use crate::levels::posting::Posting;
use crate::permutation::Permuted;
use crate::plan::{Key, TablePlan};

/// A document of an older level is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Removal {
    pub value: Permuted,
    pub posting: Posting,
}

/// The average number of removals to which an entry of the directory leads: half a byte each.
const REMOVALS_OF_ENTRY: usize = 8;

/// Removals, sorted by key.
#[derive(Debug)]
pub(crate) struct Removals {
    order: TablePlan,
    all: Vec<Removal>,
    /// For each value of the upper bits of a key, where its removals start. One entry more than
    /// there are values; empty if there are no removals.
    directory: Vec<u32>,
    /// The bits of a key below those that the directory distinguishes.
    low_bits: u32,
}

impl Removals {
    /// `None` if they are not sorted by the keys of this order. Cost: a pass over all of them.
    pub(crate) fn of_sorted(order: TablePlan, all: Vec<Removal>) -> Option<Self> {
        if !all.is_sorted_by_key(|removal| order.key(removal.value)) {
            return None;
        }
        // At least one bit, so that the others can be shifted out.
        let upper_bits = (all.len() / REMOVALS_OF_ENTRY).next_power_of_two().ilog2().max(1);
        let low_bits = u64::BITS - upper_bits;
        let mut directory = Vec::new();
        if !all.is_empty() {
            directory.reserve_exact((1 << upper_bits) + 1);
            for (at, removal) in all.iter().enumerate() {
                let upper = (order.key(removal.value) >> low_bits) as usize;
                // The values before this one, which have none, start where it starts.
                directory.resize(directory.len().max(upper + 1), at as u32);
            }
            directory.resize((1 << upper_bits) + 1, all.len() as u32);
        }
        Some(Self { order, all, directory, low_bits })
    }

    /// All of them, by key.
    pub(crate) fn all(&self) -> &[Removal] {
        &self.all
    }

    /// Prefetches the entry of the directory where [`Self::of`] begins.
    pub(crate) fn prefetch_value(&self, value: Permuted) {
        if !self.all.is_empty() {
            kernel::prefetch(&self.directory, self.upper(self.order.key(value)) as u32);
        }
    }

    /// The second step after [`Self::prefetch_value`]: prefetches the removals themselves.
    pub(crate) fn locate_value(&self, value: Permuted) {
        if !self.all.is_empty() {
            let start = self.directory[self.upper(self.order.key(value))];
            kernel::prefetch(&self.all, start);
        }
    }

    /// The removals of one fingerprint, by sequence of the document.
    pub(crate) fn of(&self, value: Permuted) -> &[Removal] {
        if self.all.is_empty() {
            return &[];
        }
        let key = self.order.key(value);
        let upper = self.upper(key);
        let range = self.directory[upper] as usize..self.directory[upper + 1] as usize;
        let near = &self.all[range];
        let start = near.partition_point(|removal| self.order.key(removal.value) < key);
        let count = near[start..].partition_point(|removal| removal.value == value);
        &near[start..start + count]
    }

    fn upper(&self, key: Key) -> usize {
        (key >> self.low_bits) as usize
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.all.capacity() * size_of::<Removal>() + self.directory.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use nearprint_fingerprint::Distance;
    use proptest::prelude::*;

    use super::*;
    use crate::document::Sequence;
    use crate::plan::Plan;

    proptest! {
        /// Keys that crowd together, with several documents each, and keys that are far apart.
        #[test]
        fn the_directory_leads_to_the_removals_that_a_scan_finds(
            crowded in proptest::collection::vec(0..40_u64, 0..200),
            scattered in proptest::collection::vec(any::<u64>(), 0..200),
            absent: u64,
        ) {
            let order = Plan::of(Distance::new(3).unwrap()).tables()[0];
            let values = crowded.into_iter().chain(scattered);
            let mut all: Vec<Removal> = (1..)
                .zip(values)
                .map(|(sequence, value)| {
                    let sequence = Sequence::new(sequence);
                    Removal { value, posting: Posting { sequence, ..Posting::default() } }
                })
                .collect();
            all.sort_by_key(|removal| (order.key(removal.value), removal.posting));
            let removals = Removals::of_sorted(order, all.clone()).expect("they are sorted");
            for value in all.iter().map(|removal| removal.value).chain([absent, 0, u64::MAX]) {
                let scanned: Vec<Removal> =
                    all.iter().copied().filter(|removal| removal.value == value).collect();
                prop_assert_eq!(removals.of(value), &scanned[..]);
            }
            if all.first().map(|first| first.value) != all.last().map(|last| last.value) {
                all.reverse();
                prop_assert!(Removals::of_sorted(order, all).is_none());
            }
        }
    }
}
