//! The labels of a delta: hash chains of the texts that share the first two minima of a label.
//!
//! Allocated with the first text, so that bare fingerprints pay nothing. Readers follow the chains
//! while the one writer appends. About 100 bytes a text.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use nearprint_fingerprint::{Distance, LABELS};

use crate::chains::Chains;
use crate::chains::cells::ChainCells;
use crate::labels::{self, LabelKey, LabelKeys};
use crate::plan::Plan;

/// The texts of a delta by their labels.
#[derive(Debug)]
pub(crate) struct DeltaLabels {
    capacity: usize,
    made: OnceLock<Made>,
}

#[derive(Debug)]
struct Made {
    /// One for each label.
    chains: [Chains; LABELS],
    texts: ChainCells<DeltaText>,
    count: AtomicU32,
}

/// A text of a delta, where its fingerprint has it first with these labels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeltaText {
    pub(crate) keys: LabelKeys,
    /// The node of its fingerprint.
    pub(crate) node: u32,
    /// The event that stored it.
    pub(crate) event: u32,
    /// The text of the same node before it, or [`NONE`].
    older: u32,
}

/// The end of the texts of a node.
pub(crate) const NONE: u32 = u32::MAX;

/// The texts of a node among which one with the same labels is looked for: a copy comes after its
/// like, and a row that is there twice does no harm.
const COMPARED_MAX: usize = 8;

impl DeltaLabels {
    /// No texts, and room for as many.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, made: OnceLock::new() }
    }

    /// Adds a text of a node, whose last text is `last` or [`NONE`], unless the node has it
    /// already. Returns its number. Only the one writer may.
    pub(crate) fn push(&self, keys: LabelKeys, (node, event): (u32, u32), last: u32) -> u32 {
        let made = self.made.get_or_init(|| Made::new(self.capacity));
        let older = |&number: &u32| Some(made.text(number).older).filter(|&older| older != NONE);
        let mut of_node = std::iter::successors(Some(last).filter(|&last| last != NONE), older);
        if of_node.by_ref().take(COMPARED_MAX).any(|number| made.text(number).keys == keys) {
            return last;
        }
        let number = made.count.load(Ordering::Relaxed);
        made.texts.fill(number, DeltaText { keys, node, event, older: last });
        for (table, chains) in made.chains.iter().enumerate() {
            let hashed = |number: u32| hashed(made.text(number).keys[table]);
            chains.push(hashed(number), number, hashed);
        }
        made.count.store(number + 1, Ordering::Release);
        number
    }

    /// Prefetches the head of the chain that [`Self::each_sharing`] walks.
    pub(crate) fn prefetch(&self, table: usize, key: LabelKey) {
        if let Some(made) = self.made.get() {
            let chains = &made.chains[table];
            chains.prefetch(0, chains.key(0, hashed(key)));
        }
    }

    /// Calls `each` with the texts that share the first two minima of a key. Cost: a few
    /// nanoseconds each.
    pub(crate) fn each_sharing(
        &self,
        table: usize,
        key: LabelKey,
        mut each: impl FnMut(&DeltaText),
    ) {
        let Some(made) = self.made.get() else { return };
        let (chains, hash) = (&made.chains[table], hashed(key));
        chains.find((0, chains.key(0, hash)), hash, 0, |number| {
            let text = made.text(number);
            if labels::is_shared(text.keys[table], key) {
                each(text);
            }
            false
        });
    }

    /// The texts, in the order in which they came.
    pub(crate) fn all(&self) -> impl Iterator<Item = &DeltaText> {
        self.made.get().into_iter().flat_map(|made| {
            let count = made.count.load(Ordering::Acquire);
            (0..count).map(|number| made.text(number))
        })
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.made.get().map_or(0, |made| {
            let chains = made.chains.iter().map(Chains::bytes_of_memory).sum::<usize>();
            chains + made.texts.bytes()
        })
    }
}

impl Made {
    fn new(capacity: usize) -> Self {
        let bits = capacity.max(16).ilog2();
        // One table, by the first bits.
        let plan = Plan::equal_blocks(1, bits.min(16), Distance::ZERO);
        Self {
            chains: std::array::from_fn(|_| Chains::new(&plan, capacity)),
            texts: ChainCells::empty(capacity),
            count: AtomicU32::new(0),
        }
    }

    fn text(&self, number: u32) -> &DeltaText {
        self.texts.get(number).expect("a chain leads to a filled text")
    }
}

/// The place of a key among chains: a hash of its two minima, by which it is distributed, and then
/// the minima, by which the texts of a chain are told apart. The chains compare the 32 bits after
/// those of the hash that they are distributed by.
fn hashed(key: LabelKey) -> u64 {
    let minima = key >> 32;
    let hash = minima.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash >> 48 << 48 | minima << 16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A few minima, so that texts share them, and a few nodes, so that they are copies.
        #[test]
        fn a_chain_has_the_texts_that_share_its_minima(
            texts in prop::collection::vec((0..4_u64, 0..3_u64, 0..30_u32), 1..200),
            capacity_bits in 0..8_u32,
        ) {
            let keys = |&(minima, rest, _): &(u64, u64, u32)| -> LabelKeys {
                std::array::from_fn(|table| (minima + table as u64) << 32 | rest << 5)
            };
            let labels = DeltaLabels::new(texts.len() << capacity_bits);
            let mut last = [NONE; 30];
            for (event, text) in texts.iter().enumerate() {
                let node = text.2 as usize;
                last[node] = labels.push(keys(text), (text.2, event as u32), last[node]);
            }
            let mut known: Vec<(LabelKeys, u32)> =
                texts.iter().map(|text| (keys(text), text.2)).collect();
            known.sort_unstable();
            known.dedup();
            let mut all: Vec<_> = labels.all().map(|text| (text.keys, text.node)).collect();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(&all, &known);
            for (table, query) in (0..LABELS).flat_map(|table| (0..10).map(move |q| (table, q << 32))) {
                labels.prefetch(table, query);
                let mut got = Vec::new();
                labels.each_sharing(table, query, |text| got.push((text.keys, text.node)));
                got.sort_unstable();
                got.dedup();
                let shares = |(keys, _): &&(LabelKeys, u32)| labels::is_shared(keys[table], query);
                let expected: Vec<_> = known.iter().filter(shares).copied().collect();
                prop_assert_eq!(got, expected);
            }
        }
    }

    #[test]
    fn copies_take_one_row_and_no_text_takes_no_memory() {
        let labels = DeltaLabels::new(100);
        assert_eq!((labels.bytes(), labels.all().count()), (0, 0));
        let mut last = NONE;
        for event in 0..100 {
            last = labels.push([1 << 40; LABELS], (7, event), last);
        }
        assert_eq!(labels.all().map(|text| text.event).collect::<Vec<_>>(), [0]);
        assert!(labels.bytes() > 0);
    }
}
