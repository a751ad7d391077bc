//! The delta: the newest changes, readable while the one writer appends.
//!
//! Fixed arrays of write-once cells are linked into hash chains by atomic heads: one chain for each
//! block of the fingerprint ([`Chains`], so that near ones are found as in a segment), and one by
//! id. The writer fills the next cell, then moves a head to it. A reader follows a head and ignores
//! what is newer than the length with which its view was published. No lock, no waiting, no
//! `unsafe`.
//!
//! Each distinct fingerprint is one node, however many documents it gets, so that a flood of equal
//! pages lengthens no chain. Memory: about 250 bytes an event, 40 of them from the start.

mod flush;
mod texts;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use nearprint_fingerprint::{Distance, Sketch};

use crate::chains::Chains;
use crate::chains::cells::ChainCells;
use crate::document::{Expiry, Sequence};
use crate::id_key::IdKey;
use crate::labels::LabelKeys;
use crate::labels::delta::{self as delta_labels, DeltaLabels};
use crate::levels::posting::{Common, Posting};
use crate::levels::segment::PostingTally;
use crate::namespaces::NamespaceNumber;
use crate::permutation::Permuted;
use crate::plan::{Plan, TablePlan, masks_within};
use crate::tables::geometry::probes;

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// The newest changes, in memory. The writer appends to it until it is full and becomes a segment.
pub struct Delta {
    plan: Plan,
    after: Sequence,
    /// The nodes by the blocks of their fingerprints.
    chains: Chains,
    labels: DeltaLabels,
    id_heads: Box<[AtomicU32]>,
    nodes: ChainCells<Node>,
    events: ChainCells<Event>,
    node_count: AtomicU32,
    event_count: AtomicU32,
    tombstone_count: AtomicU32,
    /// The smallest and the largest namespace, and the first expiry, of its documents, and whether
    /// any has a sketch. A view that sees fewer events than there are may see more than it has.
    namespaces: [AtomicU64; 2],
    first_expiry: AtomicU32,
    any_sketch: AtomicBool,
}

/// One distinct fingerprint.
struct Node {
    value: Permuted,
    first_event: u32,
    last_event: AtomicU32,
    /// Its last text; only the writer asks.
    last_text: AtomicU32,
}

/// One event of a fingerprint, with its links.
struct Event {
    at: Sequence,
    node: u32,
    what: DeltaEvent,
    id: Option<IdKey>,
    /// The next older event in the chain of the id's bucket.
    id_older: u32,
    /// The previous and the next event of the same node.
    previous: u32,
    next: AtomicU32,
    /// The tally of the fingerprint up to and including this event.
    tally: PostingTally,
}

/// The effect of a change on one fingerprint.
#[derive(Debug, Clone)]
pub enum DeltaEvent {
    /// A document was put under it.
    Put {
        posting: Posting,
        /// Its sketch, kept until the segment is built: its record may not be on disk yet.
        sketch: Option<Box<Sketch>>,
    },
    /// A document of it was removed.
    Removed { posting: Posting },
    /// The fingerprint was removed with all its documents.
    Reset,
}

impl Delta {
    /// An empty delta for changes after a sequence, with a capacity of `capacity` events.
    pub fn new(capacity: usize, distance_max: Distance, after: Sequence) -> Self {
        // Two chains for each event: most that a look-up walks are then empty or of one node.
        let bits = if capacity == 0 { 0 } else { capacity.max(16).ilog2() + 1 };
        let plan = Plan::blocks(bits, distance_max);
        let empty = |bits: u32| (0..1_usize << bits).map(|_| AtomicU32::new(NONE)).collect();
        Self {
            chains: Chains::new(&plan, capacity),
            labels: DeltaLabels::new(capacity),
            id_heads: empty(plan.tables()[0].key_bits),
            plan,
            after,
            nodes: ChainCells::empty(capacity),
            events: ChainCells::empty(capacity),
            node_count: AtomicU32::new(0),
            event_count: AtomicU32::new(0),
            tombstone_count: AtomicU32::new(0),
            namespaces: [AtomicU64::new(u64::MAX), AtomicU64::new(0)],
            first_expiry: AtomicU32::new(u32::MAX),
            any_sketch: AtomicBool::new(false),
        }
    }

    /// Every change in it is newer than this.
    pub fn after(&self) -> Sequence {
        self.after
    }

    /// The remaining capacity, in events.
    pub fn room(&self) -> usize {
        self.events.count() - self.len() as usize
    }

    /// The number of events.
    pub fn len(&self) -> u32 {
        self.event_count.load(Ordering::Acquire)
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of removals and resets.
    pub fn tombstones(&self) -> u32 {
        self.tombstone_count.load(Ordering::Acquire)
    }

    /// Memory in bytes, without sketches.
    pub fn bytes(&self) -> usize {
        self.chains.bytes_of_memory()
            + self.labels.bytes()
            + size_of_val(&*self.id_heads)
            + self.nodes.bytes()
            + self.events.bytes()
    }

    /// The texts by their labels.
    pub(crate) fn labels(&self) -> &DeltaLabels {
        &self.labels
    }

    /// Appends an event; `id` and `labels` are those of a put document.
    ///
    /// Only one writer may call it: concurrent calls would fill the same cell.
    ///
    /// # Panics
    /// When the delta is full.
    pub(crate) fn append(
        &self,
        at: Sequence,
        value: Permuted,
        what: DeltaEvent,
        (id, labels): (Option<IdKey>, Option<LabelKeys>),
    ) {
        let index = self.len();
        let node_index = self.node_of(value);
        let node = node_index.map(|i| self.node(i));
        let previous = node.map_or(NONE, |node| node.last_event.load(Ordering::Relaxed));
        let before =
            if previous == NONE { PostingTally::default() } else { self.event(previous).tally };
        if !matches!(what, DeltaEvent::Put { .. }) {
            self.tombstone_count.fetch_add(1, Ordering::Release);
        }
        if let DeltaEvent::Put { posting, .. } = &what {
            self.note(*posting);
        }
        let id_head = id.map(|key| &self.id_heads[self.id_bucket(key)]);
        let event = Event {
            at,
            node: node_index.unwrap_or_else(|| self.node_count.load(Ordering::Relaxed)),
            tally: before.then(what.tally(at)),
            what,
            id,
            id_older: id_head.map_or(NONE, |head| head.load(Ordering::Relaxed)),
            previous,
            next: AtomicU32::new(NONE),
        };
        self.events.fill(index, event);
        match node {
            Some(node) => {
                self.event(previous).next.store(index, Ordering::Release);
                node.last_event.store(index, Ordering::Release);
            }
            None => self.add_node(value, index),
        }
        if let Some(keys) = labels {
            let number = self.event(index).node;
            let last = &self.node(number).last_text;
            let text = self.labels.push(keys, (number, index), last.load(Ordering::Relaxed));
            last.store(text, Ordering::Relaxed);
        }
        if let Some(head) = id_head {
            head.store(index, Ordering::Release);
        }
        self.event_count.store(index + 1, Ordering::Release);
    }

    /// A delta with the first `length` events of this one, to which others than the rest of them
    /// can be appended. Cost: as much as appending them.
    pub(crate) fn fork(&self, distance_max: Distance, length: u32) -> Self {
        let fork = Self::new(self.events.count(), distance_max, self.after);
        let mut texts = self.labels.all().peekable();
        for index in 0..length {
            let Event { at, node, what, id, .. } = self.event(index);
            let labels = texts.next_if(|text| text.event == index).map(|text| text.keys);
            fork.append(*at, self.node(*node).value, what.clone(), (*id, labels));
        }
        fork
    }

    /// The properties that its documents share; `None` if it has no documents. Those of a single
    /// posting that all of them resemble: of sequences and flags nothing is known.
    pub fn common(&self) -> Option<Common> {
        let [first, last] = self.namespaces.each_ref().map(|number| number.load(Ordering::Relaxed));
        let namespace =
            |number| Posting { namespace: NamespaceNumber::new(number), ..Posting::default() };
        let expiry = Expiry::at(self.first_expiry.load(Ordering::Relaxed).into())
            .filter(|expiry| *expiry != Expiry::MAX);
        let expiring = Posting { expiry, ..namespace(first) };
        let any_sketch = self.any_sketch.load(Ordering::Relaxed);
        let common = || Common::of(expiring).and(Common::of(namespace(last)));
        (first <= last).then(|| Common { any_sketch, ..common() })
    }

    /// Notes namespace, expiry and sketch of a document.
    fn note(&self, posting: Posting) {
        let (number, [first, last]) = (posting.namespace.get(), &self.namespaces);
        // One writer: what it loads is what it stored.
        if first.load(Ordering::Relaxed) > number {
            first.store(number, Ordering::Relaxed);
        }
        if last.load(Ordering::Relaxed) < number {
            last.store(number, Ordering::Relaxed);
        }
        if let Some(expiry) = posting.expiry
            && self.first_expiry.load(Ordering::Relaxed) > expiry.second()
        {
            self.first_expiry.store(expiry.second(), Ordering::Relaxed);
        }
        if posting.sample.is_some() && !self.any_sketch.load(Ordering::Relaxed) {
            self.any_sketch.store(true, Ordering::Relaxed);
        }
    }

    /// The delta as it was when it had `length` events.
    pub fn at(&self, length: u32) -> DeltaAt<'_> {
        DeltaAt { delta: self, length: length.min(self.len()) }
    }

    fn add_node(&self, value: Permuted, first_event: u32) {
        let index = self.node_count.load(Ordering::Relaxed);
        let (last_event, last_text) =
            (AtomicU32::new(first_event), AtomicU32::new(delta_labels::NONE));
        let node = Node { value, first_event, last_event, last_text };
        self.nodes.fill(index, node);
        self.chains.push(value, index, |other| self.node(other).value);
        self.node_count.store(index + 1, Ordering::Release);
    }

    fn id_bucket(&self, key: IdKey) -> usize {
        key.high as usize & (self.id_heads.len() - 1)
    }

    #[inline]
    fn node(&self, index: u32) -> &Node {
        self.nodes.get(index).expect("a head points at a filled node")
    }

    fn event(&self, index: u32) -> &Event {
        self.events.get(index).expect("a link points at a filled event")
    }

    fn node_of(&self, value: Permuted) -> Option<u32> {
        let chain = (0, self.chains.key(0, value));
        self.chains.find(chain, value, 0, |node| self.node(node).value == value)
    }
}

/// Whether `value` lies in a chain that a look-up of `query` walks in a table.
#[inline]
fn meets(plan: TablePlan, radius: Option<u32>, query: Permuted, value: Permuted) -> bool {
    radius.is_some_and(|radius| ((query ^ value) & plan.mask()).count_ones() <= radius)
}

impl std::fmt::Debug for Delta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Delta(after {}, {} of {} events)", self.after, self.len(), self.events.count())
    }
}

impl DeltaEvent {
    fn tally(&self, at: Sequence) -> PostingTally {
        match self {
            Self::Put { posting, .. } => PostingTally {
                documents: 1,
                listed: i64::from(posting.is_listed),
                namespace: posting.group_namespace(),
                ..PostingTally::default()
            },
            Self::Removed { posting } => PostingTally {
                documents: -1,
                listed: -i64::from(posting.is_listed),
                ..PostingTally::default()
            },
            Self::Reset => PostingTally { reset: Some(at), ..PostingTally::default() },
        }
    }
}

/// A delta as one view sees it.
#[derive(Debug, Clone, Copy)]
pub struct DeltaAt<'a> {
    delta: &'a Delta,
    length: u32,
}

impl<'a> DeltaAt<'a> {
    /// Prefetches the heads of the chains that a look-up walks.
    pub fn prefetch(self, query: Permuted, distance: Distance) {
        self.each_chain(distance, |table, flips| {
            let key = self.delta.chains.key(table, query) ^ flips as usize;
            self.delta.chains.prefetch(table, key);
        });
    }

    /// The first step of a look-up: prefetches the newest chunk of each of these chains.
    pub fn locate(self, query: Permuted, distance: Distance) {
        let Delta { chains, nodes, .. } = self.delta;
        self.each_chain(distance, |table, flips| {
            let key = chains.key(table, query) ^ flips as usize;
            chains.locate(table, key, |node| nodes.prefetch(node));
        });
    }

    /// Prefetches the heads of the chains of a fingerprint that will be appended.
    pub fn prefetch_value(self, value: Permuted) {
        let chains = &self.delta.chains;
        for table in 0..self.delta.plan.tables().len() {
            chains.prefetch(table, chains.key(table, value));
        }
    }

    /// Prefetches the newest chunk of the chain in which the writer looks for the fingerprint.
    pub fn locate_value(self, value: Permuted) {
        let Delta { chains, nodes, .. } = self.delta;
        chains.locate(0, chains.key(0, value), |node| nodes.prefetch(node));
    }

    /// The number of chains that a look-up visits.
    pub fn cells(self, distance: Distance) -> usize {
        let plan = &self.delta.plan;
        let tables = plan.radii(distance).iter().zip(plan.tables());
        let cells = tables.filter_map(|(radius, table)| Some(probes(table.key_bits, (*radius)?)));
        cells.sum::<u64>() as usize
    }

    /// Calls `each` with every table and key flips of a look-up.
    fn each_chain(self, distance: Distance, mut each: impl FnMut(usize, u32)) {
        let plan = &self.delta.plan;
        for (i, (radius, table)) in plan.radii(distance).iter().zip(plan.tables()).enumerate() {
            let &Some(radius) = radius else { continue };
            masks_within(table.key_bits, radius).for_each(|flips| each(i, flips as u32));
        }
    }

    /// The second step of a look-up: calls `found` with every fingerprint within `distance` of the
    /// query, once each, including fingerprints whose only events are removals.
    pub fn near(self, query: Permuted, distance: Distance, found: &mut impl FnMut(Permuted)) {
        let (plans, radii) = (self.delta.plan.tables(), self.delta.plan.radii(distance));
        let within = u32::from(distance.get());
        for (table, (radius, plan)) in radii.iter().zip(plans).enumerate() {
            let &Some(radius) = radius else { continue };
            for flips in masks_within(plan.key_bits, radius) {
                self.near_in_chain(query, (table, flips as u32), within, &mut |value| {
                    let mut earlier = plans.iter().zip(radii).take(table);
                    if !earlier.any(|(plan, radius)| meets(*plan, *radius, query, value)) {
                        found(value);
                    }
                });
            }
        }
    }

    #[inline]
    fn near_in_chain(
        self,
        query: Permuted,
        (table, flips): (usize, u32),
        within: u32,
        found: &mut impl FnMut(Permuted),
    ) {
        let Delta { chains, .. } = self.delta;
        let chain = (table, chains.key(table, query) ^ flips as usize);
        // The bits of the key that differ count already.
        let Some(left) = within.checked_sub(flips.count_ones()) else { return };
        chains.find(chain, query, left, |node| {
            let node = self.delta.node(node);
            if (node.value ^ query).count_ones() <= within && node.first_event < self.length {
                found(node.value);
            }
            false
        });
    }

    /// The events after a sequence, each with its fingerprint. Cost: the number of those events.
    pub(crate) fn changed_since(
        self,
        since: Sequence,
    ) -> impl Iterator<Item = (Permuted, &'a DeltaEvent)> {
        let events =
            (self.first_after(since)..self.length).map(move |index| self.delta.event(index));
        events.map(move |event| (self.delta.node(event.node).value, &event.what))
    }

    /// The index of the first event after a sequence.
    fn first_after(self, since: Sequence) -> u32 {
        let (mut from, mut to) = (0, self.length);
        while from < to {
            let middle = from + (to - from) / 2;
            if self.delta.event(middle).at > since {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        from
    }

    /// The document that a change stored under a fingerprint, however many it has.
    pub(crate) fn put_by(
        self,
        sequence: Sequence,
        value: Permuted,
    ) -> Option<(Posting, Option<&'a Sketch>)> {
        // A change removes what it replaces before it stores.
        let event = self.delta.event(self.first_after(sequence).checked_sub(1)?);
        match &event.what {
            DeltaEvent::Put { posting, sketch }
                if event.at == sequence && self.delta.node(event.node).value == value =>
            {
                Some((*posting, sketch.as_deref()))
            }
            DeltaEvent::Put { .. } | DeltaEvent::Removed { .. } | DeltaEvent::Reset => None,
        }
    }

    /// The number of events that the view sees.
    pub fn length(self) -> u32 {
        self.length
    }

    pub fn delta(self) -> &'a Delta {
        self.delta
    }

    /// The tally of a fingerprint. Skips events that are newer than the view.
    pub fn tally(self, value: Permuted) -> PostingTally {
        self.last_event(value).map_or_else(PostingTally::default, |event| event.tally)
    }

    /// The fingerprints, each with its number.
    pub fn values(self) -> impl Iterator<Item = (Permuted, u32)> + 'a {
        let count = self.delta.node_count.load(Ordering::Acquire);
        let nodes = (0..count).map(move |number| (self.delta.node(number), number));
        nodes
            .filter(move |(node, _)| node.first_event < self.length)
            .map(|(node, number)| (node.value, number))
    }

    /// The events of a fingerprint from a change on, oldest first, with the sequence of each. Cost:
    /// the number of these events.
    pub fn events_from(
        self,
        value: Permuted,
        first: Sequence,
    ) -> impl Iterator<Item = (Sequence, &'a DeltaEvent)> {
        let oldest = self.delta.node_of(value).map(|index| self.delta.node(index).first_event);
        let oldest = oldest.filter(|&index| index < self.length).map(|i| self.delta.event(i));
        let start = match oldest {
            Some(oldest) if oldest.at < first => self.newest_events(value, first).last(),
            oldest => oldest,
        };
        self.events_after(start).map(|event| (event.at, &event.what))
    }

    /// The documents of a fingerprint that were put from a change on, the newest first.
    pub(crate) fn newest_puts(
        self,
        value: Permuted,
        first: Sequence,
    ) -> impl Iterator<Item = Posting> + 'a {
        self.newest_events(value, first).filter_map(|event| match &event.what {
            DeltaEvent::Put { posting, .. } => Some(*posting),
            DeltaEvent::Removed { .. } | DeltaEvent::Reset => None,
        })
    }

    /// The events of a fingerprint from a change on, the newest first.
    fn newest_events(self, value: Permuted, first: Sequence) -> impl Iterator<Item = &'a Event> {
        let previous =
            |event: &&'a Event| (event.previous != NONE).then(|| self.delta.event(event.previous));
        std::iter::successors(self.last_event(value), previous)
            .take_while(move |event| event.at >= first)
    }

    /// All events, in the order in which they were made, each with its fingerprint.
    pub fn all_events(self) -> impl Iterator<Item = (Permuted, &'a DeltaEvent)> {
        let events = (0..self.length).map(move |index| self.delta.event(index));
        events.map(move |event| (self.delta.node(event.node).value, &event.what))
    }

    /// The last reset of a fingerprint.
    pub fn last_reset(self, value: Permuted) -> Option<Sequence> {
        self.tally(value).reset
    }

    fn events_of_node(self, node: &'a Node) -> impl Iterator<Item = (Sequence, &'a DeltaEvent)> {
        let first = (node.first_event < self.length).then(|| self.delta.event(node.first_event));
        self.events_after(first).map(|event| (event.at, &event.what))
    }

    /// An event and those of the same fingerprint after it.
    fn events_after(self, first: Option<&'a Event>) -> impl Iterator<Item = &'a Event> {
        let link = move |index: u32| (index < self.length).then(|| self.delta.event(index));
        std::iter::successors(first, move |event| link(event.next.load(Ordering::Acquire)))
    }

    /// The newest change of a fingerprint.
    pub fn last_change(self, value: Permuted) -> Option<Sequence> {
        self.last_event(value).map(|event| event.at)
    }

    /// The newest change; `None` if it has none.
    pub fn last(self) -> Option<Sequence> {
        self.length.checked_sub(1).map(|index| self.delta.event(index).at)
    }

    /// The newest document that was put under an id.
    pub fn find_id(self, key: IdKey) -> Option<(Permuted, Posting)> {
        let mut index = self.delta.id_heads[self.delta.id_bucket(key)].load(Ordering::Acquire);
        while index != NONE {
            let event = self.delta.event(index);
            if let (DeltaEvent::Put { posting, .. }, true) =
                (&event.what, event.id == Some(key) && index < self.length)
            {
                return Some((self.delta.node(event.node).value, *posting));
            }
            index = event.id_older;
        }
        None
    }

    fn last_event(self, value: Permuted) -> Option<&'a Event> {
        let node = self.delta.node(self.delta.node_of(value)?);
        let mut index = node.last_event.load(Ordering::Acquire);
        while index != NONE && index >= self.length {
            index = self.delta.event(index).previous;
        }
        (index != NONE).then(|| self.delta.event(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(values: &[Permuted], distance_max: Distance) -> Delta {
        let delta = Delta::new(values.len(), distance_max, Sequence::ZERO);
        for (&value, sequence) in values.iter().zip(1..) {
            let sequence = Sequence::new(sequence);
            let posting = Posting { sequence, ..Posting::default() };
            let put = DeltaEvent::Put { posting, sketch: None };
            delta.append(sequence, value, put, (None, None));
        }
        delta
    }

    fn sorted(mut values: Vec<Permuted>) -> Vec<Permuted> {
        values.sort_unstable();
        values
    }

    proptest! {
        /// Near fingerprints around three centres, some of them appended after the view was taken.
        #[test]
        fn look_ups_find_what_a_scan_of_the_visible_finds(
            stored in prop::collection::vec((0..3_u64, prop::collection::vec(0..64_u32, 0..8)), 1..400),
            visible in any::<prop::sample::Index>(),
            asked in (0..3_u64, prop::collection::vec(0..64_u32, 0..4)),
            keys in prop::collection::vec((0..4_usize, 0..16_u32, 0..16_u32), 0..12),
            distance_max in 0..=12_u8,
            within in 0..=10_u32,
        ) {
            let of = |(centre, flips): &(u64, Vec<u32>)| {
                let centre = centre.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                flips.iter().fold(centre, |value, bit| value ^ 1 << bit)
            };
            let (values, query): (Vec<_>, _) = (stored.iter().map(of).collect(), of(&asked));
            let distance_max = Distance::new(distance_max).unwrap();
            let delta = filled(&values, distance_max);
            let length = visible.index(values.len() + 1);
            let at = delta.at(length as u32);
            let mut seen = sorted(values[..length].to_vec());
            seen.dedup();

            let mut found = Vec::new();
            at.near(query, distance_max, &mut |value| found.push(value));
            let distance = |value: Permuted| (value ^ query).count_ones();
            let mut near = seen.clone();
            near.retain(|&value| distance(value) <= u32::from(distance_max.get()));
            prop_assert_eq!(sorted(found), near);

            let tables = delta.plan.tables();
            let keys: Vec<(usize, u32)> = keys
                .into_iter()
                .filter(|(table, ..)| *table < tables.len())
                .map(|(table, one, other)| {
                    let flips = 1 << one | 1 << other;
                    (table, flips & ((1 << tables[table].key_bits) - 1))
                })
                .collect();
            let mut found = Vec::new();
            for &key in &keys {
                at.near_in_chain(query, key, within, &mut |value| found.push(value));
            }
            let key = |table: usize, value| delta.chains.key(table, value);
            let of_chain = |&(table, flips): &(usize, u32)| {
                let asked = key(table, query) ^ flips as usize;
                seen.iter().copied().filter(move |&value| key(table, value) == asked)
            };
            let all = keys.iter().flat_map(of_chain);
            let near = all.filter(|&value| distance(value) <= within).collect();
            prop_assert_eq!(sorted(found), sorted(near));
        }
    }
}
