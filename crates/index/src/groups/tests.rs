//! Groups against union-find over all pairs of a list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use nearprint_fingerprint::{LABELS, Label, Sketch, Threshold};
use proptest::prelude::*;

use super::*;
use crate::document::Expiry;
use crate::id_key::IdKey;
use crate::labels::SAMPLED_BITS;
use crate::namespace_key::NamespaceKey;
use crate::permutation::Permutation;
use crate::view::{Expired, Put, Shape};
use crate::visibility::Visibility;

/// The second at which groups are looked for.
const NOW_S: u32 = 1_000;

/// Namespaces whose masks differ in one bit only, so that their documents are near each other in
/// the index.
fn namespace(number: u8) -> Option<NamespaceKey> {
    let key = IdKey { high: number.into(), low: 0 };
    (number > 0).then(|| NamespaceKey { key, mask: 1 << number })
}

/// A change: what the document with this id is, or that it is removed.
#[derive(Debug, Clone, Copy)]
struct Step {
    id: u8,
    put: Option<Stored>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Stored {
    bits: u64,
    namespace: u8,
    expires_s: Option<u32>,
    sequence: u64,
}

/// Few bits, so that many pairs are near.
fn stored() -> impl Strategy<Value = Stored> {
    let bits = prop::collection::vec(0..24_u32, 0..9);
    let bits = bits.prop_map(|bits| bits.iter().fold(0, |all, bit| all ^ 1 << bit));
    let expires_s = prop::option::weighted(0.2, NOW_S - 1..NOW_S + 2);
    (bits, 0..3_u8, expires_s).prop_map(|(bits, namespace, expires_s)| Stored {
        bits,
        namespace,
        expires_s,
        sequence: 0,
    })
}

/// A view without documents, of small levels.
fn empty_view(distance_max: Distance) -> View {
    View::new(Shape {
        distance_max,
        delta_events: 16,
        small_max: 24,
        permutation: Arc::new(Permutation::from_secret(0x5eed)),
        has_labels: true,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0..60_u8, prop::option::weighted(0.85, stored()));
    prop::collection::vec(step.prop_map(|(id, put)| Step { id, put }), 1..150)
}

/// The view after the steps, and its documents by id.
fn after(steps: &[Step], distance_max: Distance) -> (View, BTreeMap<u8, Stored>) {
    let mut view = empty_view(distance_max);
    let mut documents = BTreeMap::new();
    for &Step { id, put } in steps {
        let key = IdKey { high: 99, low: id.into() };
        if let Some(old) = documents.remove(&id) {
            let Stored { namespace: old, .. } = old;
            let located = view.find_id(key).expect("it is stored");
            view.remove(located, namespace(old).map(|old| old.key));
            if put.is_none() {
                view.advance();
            }
        }
        if let Some(stored) = put {
            let expiry = stored.expires_s.and_then(|second| Expiry::at(second.into()));
            let namespace = namespace(stored.namespace);
            let put = Put { id: Some(key), namespace, expiry, ..Put::default() };
            view.put(Fingerprint::new(stored.bits), put);
            documents.insert(id, Stored { sequence: view.sequence().get(), ..stored });
        }
        while let Some(work) = view.next_flush() {
            view.complete(work);
            while let Some(work) = view.next_merge(crate::compaction::policy::Load::Writing) {
                view.complete(work);
            }
        }
    }
    (view, documents)
}

/// The sequences of each group, by union-find over all pairs.
fn naive(
    documents: &BTreeMap<u8, Stored>,
    joins: impl Fn(&Stored, &Stored) -> bool,
    size_min: usize,
) -> Vec<Vec<u64>> {
    let documents: Vec<&Stored> = documents
        .values()
        .filter(|stored| stored.expires_s.is_none_or(|second| second > NOW_S))
        .collect();
    let mut names: Vec<usize> = (0..documents.len()).collect();
    for (a, one) in documents.iter().enumerate() {
        for (b, other) in documents.iter().enumerate() {
            if one.namespace == other.namespace && (one.bits == other.bits || joins(one, other)) {
                let (from, to) = (names[b], names[a]);
                names.iter_mut().filter(|name| **name == from).for_each(|name| *name = to);
            }
        }
    }
    let mut groups: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for (name, stored) in names.iter().zip(&documents) {
        groups.entry(*name).or_default().push(stored.sequence);
    }
    let mut groups: Vec<Vec<u64>> = groups.into_values().collect();
    for group in &mut groups {
        group.sort_unstable();
    }
    groups.retain(|group| group.len() >= size_min);
    groups.sort_by_key(|group| (Reverse(group.len()), group[0]));
    groups
}

fn selection(view: &View, namespace: Option<NamespaceNumber>) -> Selection {
    let (after, upto) = (Sequence::ZERO, view.sequence());
    Selection { namespace, after, upto, expired: Expired::Not(NOW_S) }
}

fn sequences(groups: &Groups) -> Vec<Vec<u64>> {
    let members =
        |group| groups.members(group).iter().map(|member| member.sequence.get()).collect();
    groups.all().iter().map(members).collect()
}

fn distance(bits: u8) -> Distance {
    Distance::new(bits).unwrap()
}

/// Joins pairs by a rule that depends on the pair alone.
struct JoinSome;

impl Judge for JoinSome {
    type Error = std::convert::Infallible;

    fn joins(&mut self, pair: &Pair) -> Result<bool, Self::Error> {
        Ok(joins_some(pair.masked[0].bits(), pair.masked[1].bits()))
    }
}

fn joins_some(one: u64, other: u64) -> bool {
    !(one ^ other).is_multiple_of(3)
}

proptest! {
    #[test]
    fn groups_are_those_of_union_find_over_all_pairs(
        steps in steps(),
        distance_max in 0..=8_u8,
        size_min in 1..4_u32,
    ) {
        let (view, documents) = after(&steps, distance(distance_max));
        for to in 0..=distance_max {
            let near = |a: &Stored, b: &Stored| (a.bits ^ b.bits).count_ones() <= u32::from(to);
            let found = Groups::find(&view, selection(&view, None), distance(to), size_min);
            prop_assert_eq!(sequences(&found), naive(&documents, near, size_min as usize));
        }
    }

    #[test]
    fn groups_of_a_namespace_are_those_of_its_documents(steps in steps(), of in 0..3_u8) {
        let (view, mut documents) = after(&steps, distance(3));
        documents.retain(|_, stored| stored.namespace == of);
        let number = namespace(of).map_or(NamespaceNumber::DEFAULT, |namespace| {
            view.namespaces().get(namespace.key).map_or(NamespaceNumber::NONE, |known| known.number)
        });
        let near = |a: &Stored, b: &Stored| (a.bits ^ b.bits).count_ones() <= 3;
        let found = Groups::find(&view, selection(&view, Some(number)), distance(3), 2);
        prop_assert_eq!(sequences(&found), naive(&documents, near, 2));
    }

    /// The pieces run on several threads, in an order that changes from run to run.
    #[test]
    fn pairs_that_are_refused_do_not_join_and_threads_change_nothing(steps in steps()) {
        let (view, documents) = after(&steps, distance(4));
        let near = |a: &Stored, b: &Stored| {
            let mask = namespace(a.namespace).map_or(0, |namespace| namespace.mask);
            (a.bits ^ b.bits).count_ones() <= 4 && joins_some(a.bits ^ mask, b.bits ^ mask)
        };
        let expected = naive(&documents, near, 2);
        for threads in 1..4 {
            let search = PairSearch::begin(&view, selection(&view, None), distance(4));
            let next = AtomicUsize::new(0);
            thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        // Pieces of one document, so that threads meet.
                        loop {
                            let at = next.fetch_add(1, Ordering::Relaxed);
                            if at >= search.documents() {
                                break;
                            }
                            let Ok(()) = search.range(at..at + 1, &mut JoinSome);
                        }
                    });
                }
            });
            prop_assert_eq!(sequences(&search.finish(2, |member| member)), expected.clone(), "{} threads", threads);
        }
    }
}

#[test]
fn a_group_tells_its_members_oldest_first_with_their_fingerprints() {
    let mut view = empty_view(distance(3));
    for bits in [0xff00, 7, 0, 1 << 40, 7] {
        view.put(Fingerprint::new(bits), Put::default());
    }
    let found = Groups::find(&view, selection(&view, None), distance(3), 2);
    let [group] = found.all() else { panic!("one group: {found:?}") };
    assert_eq!((group.size, group.namespace), (4, NamespaceNumber::DEFAULT));
    let members: Vec<_> =
        found.members(group).iter().map(|m| (m.sequence.get(), m.masked.bits())).collect();
    assert_eq!(members, [(2, 7), (3, 0), (4, 1 << 40), (5, 7)]);
    assert_eq!(found.documents(), 4);
}

/// The texts of documents have sketches by the number of the change that stored them; that of the
/// last one is like that of another.
struct Sketches {
    last: u64,
    like: u64,
}

fn sketch_of(number: u64) -> Sketch {
    let hash =
        |bin: usize| xxhash_rust::xxh3::xxh3_64_with_seed(&(bin as u64).to_le_bytes(), number);
    let code = |bin: usize| (hash(bin) % 3 + 1) as u8;
    Sketch::from_codes(&std::array::from_fn(code))
}

impl EvidenceSource for Sketches {
    type Error = std::convert::Infallible;

    fn evidence(&mut self, document: Sequence) -> Result<Evidence, Self::Error> {
        let number = document.get();
        let sketch = sketch_of(if number == self.last { self.like } else { number });
        Ok(Evidence { is_short: false, sketch: Some(sketch) })
    }
}

/// How many groups a crowd under one fingerprint and a document near it make, whose sketch is like
/// that of one of the crowd; and how many fingerprints were partly compared.
fn crowd_and_another(crowd: u64, like: u64) -> (usize, u64) {
    let mut view = empty_view(distance(3));
    for number in 1..=crowd + 1 {
        let sketch = Some(Box::new(sketch_of(if number > crowd { like } else { number })));
        let bits = u64::from(number > crowd);
        view.put(Fingerprint::new(bits), Put { sketch, ..Put::default() });
    }
    let judge = || {
        let visibility = Visibility::DEFAULT;
        let threshold = Threshold::of_similarity(0.9);
        SketchJudge::new(&view, visibility, threshold, Sketches { last: crowd + 1, like })
    };
    let mut search = PairSearch::begin(&view, selection(&view, None), distance(3));
    let Ok(()) = search.run(1, judge, |_| Ok(()));
    let Ok(()) = search.count_partly_compared(&mut judge());
    let groups = search.finish(1, |member| member);
    (groups.all().len(), groups.partly_compared())
}

#[test]
fn a_fingerprint_whose_sketches_are_not_all_compared_is_counted_if_that_may_matter() {
    assert_eq!(crowd_and_another(256, 256), (1, 0), "all are compared");
    assert_eq!(crowd_and_another(256, 999), (2, 0), "none is alike");
    assert_eq!(crowd_and_another(257, 257), (2, 1), "the one that is alike is left");
    assert_eq!(crowd_and_another(257, 1), (1, 0), "they have joined");
}

/// Sketches that share all labels, and are those of one text or of unlike ones.
#[derive(Clone, Copy)]
struct OneLabel {
    are_alike: bool,
}

impl OneLabel {
    fn sketch(self, document: u64) -> Sketch {
        let sketch = sketch_of(if self.are_alike { 0 } else { document });
        sketch.with_labels([Label::from_bits(77); LABELS])
    }

    /// How many groups so many texts make, and how many of them were partly compared.
    fn groups(self, texts: u64) -> (usize, u64) {
        let mut view = empty_view(distance(3));
        for number in 1..=texts {
            // Far from each other, and the same in the sampled bits.
            let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> SAMPLED_BITS << SAMPLED_BITS;
            let sketch = Some(Box::new(self.sketch(number)));
            view.put(Fingerprint::new(bits), Put { sketch, ..Put::default() });
        }
        let threshold = Threshold::of_similarity(0.9);
        let judge = || SketchJudge::new(&view, Visibility::DEFAULT, threshold, self);
        let mut search = PairSearch::begin(&view, selection(&view, None), distance(3));
        let Ok(()) = search.run(1, judge, |_| Ok(()));
        let Ok(()) = search.run_likely(1, judge, |_| Ok(()));
        let Ok(()) = search.count_partly_compared(&mut judge());
        let groups = search.finish(1, |member| member);
        (groups.all().len(), groups.partly_compared())
    }
}

impl EvidenceSource for OneLabel {
    type Error = std::convert::Infallible;

    fn evidence(&mut self, document: Sequence) -> Result<Evidence, Self::Error> {
        Ok(Evidence { is_short: false, sketch: Some(self.sketch(document.get())) })
    }
}

#[test]
fn texts_of_a_label_that_are_not_all_compared_are_counted() {
    let unlike = OneLabel { are_alike: false };
    assert_eq!(unlike.groups(65), (65, 0), "each is compared with all others");
    assert_eq!(unlike.groups(66), (66, 66), "one is left for each");
    assert_eq!(unlike.groups(300), (300, 300));
    assert_eq!(OneLabel { are_alike: true }.groups(300), (1, 0), "those that are left have joined");
}

/// Stops after some fingerprints.
struct GoesOnFor(usize);

impl Judge for GoesOnFor {
    type Error = &'static str;

    fn joins(&mut self, _: &Pair) -> Result<bool, Self::Error> {
        Ok(true)
    }

    fn goes_on(&mut self) -> Result<(), Self::Error> {
        self.0 = self.0.checked_sub(1).ok_or("cancelled")?;
        Ok(())
    }
}

#[test]
fn a_piece_asks_every_64_fingerprints_whether_to_go_on() {
    let shape = Shape {
        distance_max: distance(3),
        delta_events: 16,
        small_max: 24,
        permutation: Arc::new(Permutation::from_secret(0x5eed)),
        has_labels: true,
    };
    let view = View::filled(shape, 640, (0..640).map(|n| Fingerprint::new(n << 20)));
    let search = PairSearch::begin(&view, selection(&view, None), distance(3));
    assert_eq!((search.pieces(), search.documents()), (1, 640));
    assert_eq!(search.range(search.piece(0), &mut GoesOnFor(9)), Err("cancelled"));
    assert_eq!(search.range(search.piece(0), &mut GoesOnFor(11)), Ok(()));
}
