//! The texts of a delta by their labels.

use super::{DeltaAt, DeltaEvent};
use crate::labels::LabelKey;
use crate::labels::delta::DeltaText;
use crate::levels::posting::Posting;
use crate::permutation::Permuted;

impl<'a> DeltaAt<'a> {
    /// Calls `each` with the texts that share the first two minima of a key in a table.
    pub(crate) fn each_sharing(
        self,
        table: usize,
        key: LabelKey,
        mut each: impl FnMut(&DeltaText),
    ) {
        self.delta.labels.each_sharing(table, key, |text| {
            if text.event < self.length {
                each(text);
            }
        });
    }

    /// All texts, in the order in which they came. A copy may come more than once.
    pub(crate) fn texts(self) -> impl Iterator<Item = &'a DeltaText> {
        self.delta.labels.all().take_while(move |text| text.event < self.length)
    }

    /// The fingerprint of a node that the view sees.
    pub(crate) fn value_of(self, node: u32) -> Permuted {
        self.delta.node(node).value
    }

    /// The documents that were put under a node's fingerprint, oldest first.
    pub(crate) fn puts_of(self, node: u32) -> impl Iterator<Item = Posting> + 'a {
        self.events_of(node).filter_map(|event| match event {
            DeltaEvent::Put { posting, .. } => Some(*posting),
            DeltaEvent::Removed { .. } | DeltaEvent::Reset => None,
        })
    }

    /// The events of a node that the view sees, oldest first.
    fn events_of(self, node: u32) -> impl Iterator<Item = &'a DeltaEvent> {
        self.events_of_node(self.delta.node(node)).map(|(_, event)| event)
    }
}
