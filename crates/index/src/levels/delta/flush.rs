//! From a delta to a segment.

use std::cell::RefCell;
use std::sync::atomic::Ordering;

use super::{DeltaAt, DeltaEvent};
use crate::document::Sequence;
use crate::id_key::IdKey;
use crate::labels::delta::DeltaText;
use crate::labels::tables::{LabelTables, LabelTarget, LabelledNumber};
use crate::levels::level::{Expected, Level};
use crate::levels::posting::Common;
use crate::levels::segment::FingerprintRow;
use crate::permutation::Permuted;
use crate::plan::Plans;
use crate::tables::table::Number;

/// The number of a node whose fingerprint has no document any more.
const NONE: Number = Number::MAX;

impl DeltaAt<'_> {
    /// Builds the level with the same content.
    pub fn to_level(self, plans: &Plans) -> Level {
        let postings = (0..self.length).filter_map(|i| match &self.delta.event(i).what {
            DeltaEvent::Put { posting, .. } => Some(Common::of(*posting)),
            DeltaEvent::Removed { .. } | DeltaEvent::Reset => None,
        });
        let common = postings.reduce(Common::and).unwrap_or(Common::NONE);
        let count = self.delta.node_count.load(Ordering::Acquire);
        let small = plans.is_small(u64::from(count));
        let expected = Expected { plans, small, count: count as usize, common, oldest: false };
        let add = |i: u32, row: &mut FingerprintRow| {
            for (at, event) in self.events_of_node(self.delta.node(i)) {
                match event {
                    DeltaEvent::Put { posting, .. } => row.put(*posting),
                    DeltaEvent::Removed { posting } => row.remove(*posting),
                    DeltaEvent::Reset => row.reset(at),
                }
            }
        };
        let numbers = RefCell::new(vec![NONE; count as usize]);
        let numbered = |i: u32, number| numbers.borrow_mut()[i as usize] = number;
        let labels = |target: &LabelTarget<'_>| {
            let numbers = numbers.borrow();
            let labelled = |text: &DeltaText| (text.keys, numbers[text.node as usize]);
            let texts = self.texts().map(labelled).filter(|&(_, number)| number != NONE);
            LabelTables::of(&texts.collect::<Vec<LabelledNumber>>(), target)
        };
        Level::of(expected, self.values(), (add, numbered), self.ids(), labels)
    }

    /// The newest document of each id, by key.
    fn ids(self) -> impl Iterator<Item = (IdKey, Permuted, Sequence)> {
        let mut ids: Vec<(IdKey, Sequence, Permuted)> = (0..self.length)
            .map(|i| self.delta.event(i))
            .filter_map(|e| Some((e.id?, e.at, self.delta.node(e.node).value)))
            .collect();
        // The newest document of each id comes first and is the one that stays.
        ids.sort_unstable_by_key(|&(key, at, _)| (key, std::cmp::Reverse(at)));
        ids.dedup_by_key(|(key, ..)| *key);
        ids.into_iter().map(|(key, at, value)| (key, value, at))
    }
}
