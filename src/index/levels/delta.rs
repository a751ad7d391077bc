//! The delta: the newest changes, readable while the one writer appends.
//!
//! Fixed arrays of write-once cells are linked into hash chains by atomic heads: one chain for each
//! block of the fingerprint (so that near ones are found as in a segment), and one by id. The
//! writer fills the next cell, then moves a head to it. A reader follows a head and ignores what is
//! newer than the length with which its view was published. No lock, no waiting, no `unsafe`.
//!
//! Each distinct fingerprint is one node, however many documents it gets, so that a flood of equal
//! pages lengthens only its own chain. Memory: about 210 bytes an event, 40 of them from the start.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::document::{Expiry, Sequence};
use crate::fingerprint::Distance;
use crate::index::levels::cells::Cells;
use crate::index::levels::ids::IdKey;
use crate::index::levels::level::{Expected, Level};
use crate::index::levels::posting::{Common, Posting};
use crate::index::levels::segment::{Row, Tally};
use crate::index::likely::{Keys, LIKELY_DISTANCE_MAX};
use crate::index::namespaces::NamespaceNumber;
use crate::index::permutation::Permuted;
use crate::index::plan::{Plan, Plans, TablePlan, masks_within};
use crate::index::tables::geometry::probes;
use crate::kernel;
use crate::sketch::Sketch;

/// The end of a chain.
const NONE: u32 = u32::MAX;

/// The largest number of tables of a plan on blocks.
const TABLES_MAX: usize = 5;

/// A level under construction.
pub struct Delta {
    plan: Plan,
    after: Sequence,
    /// For each table and key, the newest node.
    heads: Vec<Box<[AtomicU32]>>,
    id_heads: Box<[AtomicU32]>,
    nodes: Cells<Node>,
    events: Cells<Event>,
    node_count: AtomicU32,
    event_count: AtomicU32,
    tombstone_count: AtomicU32,
    /// The smallest and the largest namespace, and the first expiry, of its documents, and whether
    /// any has a sketch. A view that sees fewer events than there are may see more than it has.
    namespaces: [AtomicU64; 2],
    first_expiry: AtomicU32,
    any_sketch: AtomicBool,
    /// The number of fingerprints that a full delta adds to the older levels, once counted.
    added: OnceLock<i64>,
}

/// One distinct fingerprint.
struct Node {
    value: Permuted,
    /// The next older node in the chain of each table.
    older: [u32; TABLES_MAX],
    first_event: u32,
    last_event: AtomicU32,
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
    tally: Tally,
}

/// The effect of a change on one fingerprint.
#[derive(Debug)]
pub enum DeltaEvent {
    /// A document was put under it.
    Put {
        /// The document.
        posting: Posting,
        /// Whether the fingerprint is known to have had no document.
        is_new: bool,
        /// Its sketch, kept until the segment is built: its record may not be on disk yet.
        sketch: Option<Box<Sketch>>,
    },
    /// A document of it was removed.
    Removed {
        /// The document.
        posting: Posting,
    },
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
            heads: plan.tables().iter().map(|table| empty(table.key_bits)).collect(),
            id_heads: empty(plan.tables()[0].key_bits),
            plan,
            after,
            nodes: Cells::empty(capacity),
            events: Cells::empty(capacity),
            node_count: AtomicU32::new(0),
            event_count: AtomicU32::new(0),
            tombstone_count: AtomicU32::new(0),
            namespaces: [AtomicU64::new(u64::MAX), AtomicU64::new(0)],
            first_expiry: AtomicU32::new(u32::MAX),
            any_sketch: AtomicBool::new(false),
            added: OnceLock::new(),
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

    /// The number of fingerprints that a full delta adds to the older levels; counted once.
    pub fn added(&self, count: impl FnOnce() -> i64) -> i64 {
        *self.added.get_or_init(count)
    }

    /// The number of added fingerprints, if it has been counted.
    pub fn known_added(&self) -> Option<i64> {
        self.added.get().copied()
    }

    /// Memory in bytes, without sketches.
    pub fn bytes(&self) -> usize {
        self.heads.iter().chain([&self.id_heads]).map(|heads| size_of_val(&**heads)).sum::<usize>()
            + self.nodes.bytes()
            + self.events.bytes()
    }

    /// Appends an event; `id` is that of a put document.
    ///
    /// Only one writer may call it: concurrent calls would fill the same cell.
    ///
    /// # Panics
    /// When the delta is full.
    pub fn append(&self, at: Sequence, value: Permuted, what: DeltaEvent, id: Option<IdKey>) {
        let index = self.len();
        let node_index = self.node_of(value);
        let node = node_index.map(|i| self.node(i));
        let previous = node.map_or(NONE, |node| node.last_event.load(Ordering::Relaxed));
        let before = if previous == NONE { Tally::default() } else { self.event(previous).tally };
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
        if let Some(head) = id_head {
            head.store(index, Ordering::Release);
        }
        self.event_count.store(index + 1, Ordering::Release);
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
        let mut older = [NONE; TABLES_MAX];
        for (i, older) in older.iter_mut().enumerate().take(self.heads.len()) {
            *older = self.heads[i][self.key(i, value)].load(Ordering::Relaxed);
        }
        let node = Node { value, older, first_event, last_event: AtomicU32::new(first_event) };
        self.nodes.fill(index, node);
        for (i, heads) in self.heads.iter().enumerate() {
            heads[self.key(i, value)].store(index, Ordering::Release);
        }
        self.node_count.store(index + 1, Ordering::Release);
    }

    fn key(&self, table: usize, value: Permuted) -> usize {
        let plan = self.plan.tables()[table];
        (value.rotate_left(plan.first_bit) >> (64 - plan.key_bits)) as usize
    }

    fn id_bucket(&self, key: IdKey) -> usize {
        key.high as usize & (self.id_heads.len() - 1)
    }

    fn node(&self, index: u32) -> &Node {
        self.nodes.get(index).expect("a head points at a filled node")
    }

    fn event(&self, index: u32) -> &Event {
        self.events.get(index).expect("a link points at a filled event")
    }

    /// The nodes in the chain of a key, newest first.
    fn chain(&self, table: usize, key: usize) -> impl Iterator<Item = (u32, &Node)> {
        let link = |index: u32| (index != NONE).then(|| (index, self.node(index)));
        std::iter::successors(
            link(self.heads[table][key].load(Ordering::Acquire)),
            move |(_, n)| link(n.older[table]),
        )
    }

    fn node_of(&self, value: Permuted) -> Option<u32> {
        self.chain(0, self.key(0, value)).find(|(_, node)| node.value == value).map(|(i, _)| i)
    }
}

/// Whether `value` lies in a chain that a look-up of `query` walks in a table.
fn meets(plan: TablePlan, radius: Option<u32>, query: Permuted, value: Permuted) -> bool {
    radius.is_some_and(|radius| ((query ^ value) & plan.mask()).count_ones() <= radius)
}

impl std::fmt::Debug for Delta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Delta(after {}, {} of {} events)", self.after, self.len(), self.events.count())
    }
}

impl DeltaEvent {
    fn tally(&self, at: Sequence) -> Tally {
        match self {
            Self::Put { posting, .. } => Tally {
                documents: 1,
                listed: i64::from(posting.is_listed),
                namespace: posting.group_namespace(),
                ..Tally::default()
            },
            Self::Removed { posting } => {
                Tally { documents: -1, listed: -i64::from(posting.is_listed), ..Tally::default() }
            }
            Self::Reset => Tally { reset: Some(at), ..Tally::default() },
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
        self.each_chain(query, distance, |i, key| {
            kernel::prefetch(&self.delta.heads[i], key as u32);
        });
    }

    /// The first step of a look-up: prefetches the newest node of each of these chains.
    pub fn locate(self, query: Permuted, distance: Distance) {
        self.each_chain(query, distance, |i, key| {
            self.delta.nodes.prefetch(self.delta.heads[i][key].load(Ordering::Relaxed));
        });
    }

    /// Prefetches the heads of the chains of a fingerprint that will be appended.
    pub fn prefetch_value(self, value: Permuted) {
        for (i, heads) in self.delta.heads.iter().enumerate() {
            kernel::prefetch(heads, self.delta.key(i, value) as u32);
        }
    }

    /// Prefetches the newest node of the chain in which the writer looks for the fingerprint.
    pub fn locate_value(self, value: Permuted) {
        let head = &self.delta.heads[0][self.delta.key(0, value)];
        self.delta.nodes.prefetch(head.load(Ordering::Relaxed));
    }

    /// The number of chains that a look-up visits.
    pub fn cells(self, distance: Distance) -> usize {
        let plan = &self.delta.plan;
        let tables = plan.radii(distance).iter().zip(plan.tables());
        let cells = tables.filter_map(|(radius, table)| Some(probes(table.key_bits, (*radius)?)));
        cells.sum::<u64>() as usize
    }

    fn each_chain(self, query: Permuted, distance: Distance, each: impl Fn(usize, usize)) {
        let plan = &self.delta.plan;
        for (i, (radius, table)) in plan.radii(distance).iter().zip(plan.tables()).enumerate() {
            let &Some(radius) = radius else { continue };
            let key = self.delta.key(i, query);
            masks_within(table.key_bits, radius).for_each(|flips| each(i, key ^ flips as usize));
        }
    }

    /// The second step of a look-up: calls `found` with every fingerprint within `distance` of the
    /// query, once each, including fingerprints whose only events are removals.
    pub fn near(self, query: Permuted, distance: Distance, found: &mut impl FnMut(Permuted)) {
        let plans = self.delta.plan.tables();
        let radii = self.delta.plan.radii(distance);
        for (i, (radius, _)) in radii.iter().zip(plans).enumerate() {
            let &Some(radius) = radius else { continue };
            let key = self.delta.key(i, query);
            for flips in masks_within(plans[i].key_bits, radius) {
                for (_, node) in self.delta.chain(i, key ^ flips as usize) {
                    if (node.value ^ query).count_ones() > u32::from(distance.get())
                        || node.first_event >= self.length
                    {
                        continue;
                    }
                    let mut earlier = plans.iter().zip(radii).take(i);
                    if !earlier.any(|(plan, radius)| meets(*plan, *radius, query, node.value)) {
                        found(node.value);
                    }
                }
            }
        }
    }

    /// Calls `found` with every fingerprint in the chains of these keys that is within the distance of
    /// likely searches; one may be found more than once.
    pub(crate) fn near_likely(
        self,
        query: Permuted,
        keys: &Keys,
        found: &mut impl FnMut(Permuted),
    ) {
        let is_near = |value: Permuted| (value ^ query).count_ones() <= LIKELY_DISTANCE_MAX;
        match keys {
            Keys::All => {
                let values = self.values().map(|(value, _)| value);
                values.filter(|&value| is_near(value)).for_each(found);
            }
            Keys::Listed(keys) => {
                for &(role, flips) in keys {
                    let key = self.delta.key(role, query) ^ flips as usize;
                    for (_, node) in self.delta.chain(role, key) {
                        if is_near(node.value) && node.first_event < self.length {
                            found(node.value);
                        }
                    }
                }
            }
        }
    }

    /// The plan of its chains.
    pub(crate) fn plan(self) -> &'a Plan {
        &self.delta.plan
    }

    /// The fingerprints with events after a sequence; one may come more than once. Cost: the number
    /// of those events.
    pub(crate) fn changed_since(self, since: Sequence) -> impl Iterator<Item = Permuted> + 'a {
        let (mut from, mut to) = (0, self.length);
        while from < to {
            let middle = from + (to - from) / 2;
            if self.delta.event(middle).at > since {
                to = middle;
            } else {
                from = middle + 1;
            }
        }
        let events = (from..self.length).map(move |index| self.delta.event(index));
        events.map(move |event| self.delta.node(event.node).value)
    }

    /// The number of events that the view sees.
    pub fn length(self) -> u32 {
        self.length
    }

    /// The delta itself.
    pub fn delta(self) -> &'a Delta {
        self.delta
    }

    /// The tally of a fingerprint. Skips events that are newer than the view.
    pub fn tally(self, value: Permuted) -> Tally {
        self.last_event(value).map_or_else(Tally::default, |event| event.tally)
    }

    /// The fingerprints, each with its number.
    pub fn values(self) -> impl Iterator<Item = (Permuted, u32)> + 'a {
        let count = self.delta.node_count.load(Ordering::Acquire);
        let nodes = (0..count).map(move |number| (self.delta.node(number), number));
        nodes
            .filter(move |(node, _)| node.first_event < self.length)
            .map(|(node, number)| (node.value, number))
    }

    /// The tally of the fingerprint with a number.
    pub fn tally_of(self, number: u32) -> Tally {
        self.last_event_of(self.delta.node(number)).map_or_else(Tally::default, |event| event.tally)
    }

    /// Whether the fingerprint with a number is known to have had no document before.
    pub fn is_new(self, number: u32) -> bool {
        let first = &self.delta.event(self.delta.node(number).first_event).what;
        matches!(first, DeltaEvent::Put { is_new: true, .. })
    }

    /// The events of a fingerprint, oldest first, with the sequence of each.
    pub fn events(self, value: Permuted) -> impl Iterator<Item = (Sequence, &'a DeltaEvent)> {
        let node = self.delta.node_of(value).map(|index| self.delta.node(index));
        node.into_iter().flat_map(move |node| self.events_of_node(node))
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
        let link = move |index: u32| (index < self.length).then(|| self.delta.event(index));
        let first = link(node.first_event);
        std::iter::successors(first, move |event| link(event.next.load(Ordering::Acquire)))
            .map(|event| (event.at, &event.what))
    }

    /// The newest change of a fingerprint.
    pub fn last_change(self, value: Permuted) -> Option<Sequence> {
        self.last_event(value).map(|event| event.at)
    }

    /// The newest change.
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
        let add = |i: u32, row: &mut Row| {
            for (at, event) in self.events_of_node(self.delta.node(i)) {
                match event {
                    DeltaEvent::Put { posting, .. } => row.put(*posting),
                    DeltaEvent::Removed { posting } => row.remove(*posting),
                    DeltaEvent::Reset => row.reset(at),
                }
            }
        };
        Level::of(expected, self.values(), add, self.ids())
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

    fn last_event(self, value: Permuted) -> Option<&'a Event> {
        self.last_event_of(self.delta.node(self.delta.node_of(value)?))
    }

    fn last_event_of(self, node: &Node) -> Option<&'a Event> {
        let mut index = node.last_event.load(Ordering::Acquire);
        while index != NONE && index >= self.length {
            index = self.delta.event(index).previous;
        }
        (index != NONE).then(|| self.delta.event(index))
    }
}
