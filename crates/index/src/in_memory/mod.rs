//! An index in the memory of this process, for programs that embed the crate.
//!
//! [`InMemoryIndex`] maps ids to fingerprints, like a map, and finds the fingerprints near a query.
//! It owns a [`View`] and does the view's background work itself: an insert that fills a delta
//! turns the delta into a segment and runs the merges that the compaction policy then asks for.
//! Nothing is stored on disk unless the index is saved. It is tested against a map that is searched
//! linearly.

mod chunks;
mod file;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use nearprint_fingerprint::{Distance, Fingerprint, MinResemblance, Sketch};

use crate::document::Sequence;
use crate::id_key::IdKey;
use crate::permutation::Permutation;
use crate::plan::SMALL_MAX;
use crate::view::{Near, Put, Shape, SimilarTo, View};
use crate::visibility::Visibility;

/// The number of events of a delta, as many as the service has by default.
const DELTA_EVENTS: usize = 32_768;

/// An exact index of documents by their fingerprints.
///
/// It stores no id, only a keyed hash of 96 bits. A document takes 40 to 60 bytes up to two
/// million documents, and about 35 beyond.
///
/// ```
/// use nearprint_fingerprint::{Distance, Fingerprint};
/// use nearprint_index::InMemoryIndex;
///
/// let three = Distance::new(3).expect("at most 64");
/// let mut index = InMemoryIndex::new(three);
/// assert_eq!(index.insert("a", Fingerprint::new(0b1011)), None);
/// assert_eq!(index.insert("a", Fingerprint::new(0b1111)), Some(Fingerprint::new(0b1011)));
/// assert!(index.near(Fingerprint::new(0), three).is_empty());
/// assert_eq!(index.near(Fingerprint::new(1), three)[0].distance, three);
/// ```
#[derive(Debug)]
pub struct InMemoryIndex {
    view: View,
    secrets: Secrets,
}

/// Random numbers that nobody outside the process knows, so that nobody can choose ids or
/// fingerprints that slow the index down. No answer depends on them.
#[derive(Clone, Copy)]
struct Secrets {
    of_permutation: u64,
    of_ids: u128,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

impl InMemoryIndex {
    /// An empty index for look-ups up to `distance_max`. It draws secrets at random, so that nobody
    /// outside the process can choose ids or fingerprints that slow it down. No answer depends on
    /// them.
    ///
    /// # Panics
    /// When `distance_max` is greater than [`Distance::LOOKUP_MAX`].
    pub fn new(distance_max: Distance) -> Self {
        Self::with_sizes(distance_max, DELTA_EVENTS, SMALL_MAX)
    }

    fn with_sizes(distance_max: Distance, delta_events: usize, small_max: u64) -> Self {
        let secrets = Secrets::draw();
        Self { view: View::new(secrets.shape(distance_max, delta_events, small_max)), secrets }
    }

    /// An index of fingerprints without ids, all that the iterator gives. Much quicker than an
    /// insert for each: about 0.2 us a fingerprint at ten million (`make figures WHAT=peers`). It
    /// takes 24 bytes a fingerprint in addition to the index while it works.
    ///
    /// # Panics
    /// When `distance_max` is greater than [`Distance::LOOKUP_MAX`].
    pub fn of_fingerprints(
        distance_max: Distance,
        fingerprints: impl ExactSizeIterator<Item = Fingerprint>,
    ) -> Self {
        let secrets = Secrets::draw();
        let shape = secrets.shape(distance_max, DELTA_EVENTS, SMALL_MAX);
        let count = fingerprints.len() as u64;
        Self { view: View::filled(shape, count, fingerprints), secrets }
    }

    /// Stores a document, and returns the fingerprint that its id had before.
    ///
    /// It takes about a microsecond, but one insert in 32,768 also flushes a delta and merges
    /// segments: milliseconds, and seconds where tens of millions of documents are merged.
    pub fn insert(&mut self, id: &str, fingerprint: Fingerprint) -> Option<Fingerprint> {
        self.put(id, fingerprint, None)
    }

    /// Stores a text, which [`Self::similar`] finds by the labels of its sketch, and returns the
    /// fingerprint that its id had before. The index keeps the labels and a sample of the sketch,
    /// 41 bytes in addition to those of [`Self::insert`]; the caller keeps the sketch.
    pub fn insert_text(
        &mut self,
        id: &str,
        fingerprint: Fingerprint,
        sketch: &Sketch,
    ) -> Option<Fingerprint> {
        self.put(id, fingerprint, Some(Box::new(sketch.clone())))
    }

    fn put(
        &mut self,
        id: &str,
        fingerprint: Fingerprint,
        sketch: Option<Box<Sketch>>,
    ) -> Option<Fingerprint> {
        let key = self.key(id);
        let located = self.view.find_id(key);
        if let Some(located) = located {
            self.view.remove(located, None);
        }
        self.view
            .put(fingerprint, Put { id: Some(key), sketch, is_listed: true, ..Put::default() });
        self.view.flush_and_merge();
        located.map(|located| located.masked)
    }

    /// Removes the document with an id; returns whether there was one. It costs what
    /// [`Self::insert`] costs.
    pub fn remove(&mut self, id: &str) -> bool {
        let Some(located) = self.view.find_id(self.key(id)) else { return false };
        self.view.remove(located, None);
        self.view.advance();
        self.view.flush_and_merge();
        true
    }

    /// The stored fingerprints within `distance` of the query: each once, the nearest first,
    /// equally near ones ascending; of more than 16,384, the nearest. It takes 0.3 us with a
    /// million documents at distance 3 and 25 us with a hundred million at distance 6.
    ///
    /// # Panics
    /// When `distance` is greater than the `distance_max` of the index.
    pub fn near(&self, query: Fingerprint, distance: Distance) -> Vec<Near> {
        assert!(distance <= self.view.shape().distance_max, "the index ends at distance_max");
        let mut near = self.view.near(query, distance, &Visibility::DEFAULT);
        near.sort_unstable_by_key(|near| (near.distance, near.fingerprint));
        near
    }

    /// The distance of the nearest stored fingerprint from each query, if it is at most `distance`.
    /// Quicker than [`Self::near`] for each, because the memory that several queries need is
    /// fetched at the same time.
    ///
    /// # Panics
    /// When `distance` is greater than the `distance_max` of the index.
    pub fn nearest(&self, queries: &[Fingerprint], distance: Distance) -> Vec<Option<Distance>> {
        assert!(distance <= self.view.shape().distance_max, "the index ends at distance_max");
        self.view.nearest(queries, distance, Visibility::DEFAULT).collect()
    }

    /// The fingerprints of stored texts beyond a distance that share a label with this one and
    /// whose samples do not refute it ([`crate::labels`]): the nearest first. Whether they are
    /// similar, a comparison of sketches tells.
    pub fn similar(
        &self,
        query: Fingerprint,
        sketch: &Sketch,
        threshold: MinResemblance,
        beyond: Distance,
    ) -> Vec<Near> {
        let text = SimilarTo { fingerprint: query, sketch, threshold, beyond };
        self.view.similar(text, &Visibility::DEFAULT, &mut |_| true).0
    }

    /// The fingerprint of the document with an id.
    pub fn get(&self, id: &str) -> Option<Fingerprint> {
        self.find(id).map(|(fingerprint, _)| fingerprint)
    }

    /// The fingerprint of the document with an id, and the number of the change that stored it.
    pub fn find(&self, id: &str) -> Option<(Fingerprint, Sequence)> {
        let located = self.view.find_id(self.key(id))?;
        Some((located.masked, located.posting.sequence))
    }

    /// The documents of a fingerprint, oldest first, by the number of the change that stored them:
    /// what [`Self::sequence`] was after their insert.
    pub fn documents_of(&self, fingerprint: Fingerprint) -> impl Iterator<Item = Sequence> {
        self.view.documents_of(fingerprint, Visibility::DEFAULT).map(|posting| posting.sequence)
    }

    /// The number of the last change. Each insert and each removal is one change.
    pub fn sequence(&self) -> Sequence {
        self.view.sequence()
    }

    /// The number of stored documents.
    pub fn len(&self) -> u64 {
        self.view.documents()
    }

    /// Whether no document is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn key(&self, id: &str) -> IdKey {
        IdKey::of(id, None, &self.secrets.of_ids.to_le_bytes())
    }

    /// Its view, and the secret of its ids: for a program that decides by more than this does, and
    /// does the view's [background work](View::flush_and_merge) itself.
    pub fn into_view(self) -> (View, [u8; 16]) {
        (self.view, self.secrets.of_ids.to_le_bytes())
    }

    /// The inverse of [`Self::into_view`].
    pub fn of_view(view: View, secret_of_ids: [u8; 16]) -> Self {
        let of_permutation = view.shape().permutation.secret();
        let secrets = Secrets { of_permutation, of_ids: u128::from_le_bytes(secret_of_ids) };
        Self { view, secrets }
    }
}

impl Secrets {
    fn draw() -> Self {
        // The standard library gives random numbers only as the keys of a hash function.
        let random = RandomState::new();
        let [one, high, low] = [0, 1, 2].map(|number| random.hash_one(number));
        Self { of_permutation: one, of_ids: u128::from(high) << 64 | u128::from(low) }
    }

    fn shape(self, distance_max: Distance, delta_events: usize, small_max: u64) -> Shape {
        assert!(distance_max <= Distance::LOOKUP_MAX, "an index has no tables for this distance");
        let permutation = Arc::new(Permutation::from_secret(self.of_permutation));
        Shape { distance_max, delta_events, small_max, permutation, has_labels: true }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nearprint_fingerprint::{BINS, Label};
    use proptest::prelude::*;

    use super::*;

    /// An insert of a fingerprint, or a removal.
    type Step = (u8, Option<u64>);

    /// Few ids, and fingerprints near each other, so that replacements, removals and hits meet.
    fn step() -> impl Strategy<Value = Step> {
        let bits = prop::collection::vec(0..64_u32, 0..5);
        let fingerprint = bits.prop_map(|bits| bits.iter().fold(0, |all, bit| all ^ 1 << bit));
        (0..40_u8, prop::option::weighted(0.8, fingerprint))
    }

    fn naive_near(stored: &BTreeMap<u8, Fingerprint>, query: Fingerprint, to: u8) -> Vec<Near> {
        let near = |&fingerprint| Near { fingerprint, distance: query.distance(fingerprint) };
        let mut near: Vec<_> = stored.values().map(near).collect();
        near.retain(|near| near.distance.get() <= to);
        near.sort_unstable_by_key(|near| (near.distance, near.fingerprint));
        near.dedup();
        near
    }

    proptest! {
        /// Deltas of 4 events and small segments of at most 12 fingerprints: flushes and all kinds
        /// of merges happen.
        #[test]
        fn it_answers_like_a_map_that_is_searched_linearly(
            steps in prop::collection::vec(step(), 1..300),
            distance_max in 0..=12_u8,
        ) {
            let distance = |bits| Distance::new(bits).unwrap();
            let mut index = InMemoryIndex::with_sizes(distance(distance_max), 4, 12);
            let mut stored = BTreeMap::new();
            let mut stored_at = BTreeMap::new();
            for (number, &(id, fingerprint)) in steps.iter().enumerate() {
                let name = id.to_string();
                if let Some(fingerprint) = fingerprint.map(Fingerprint::new) {
                    let before = stored.insert(id, fingerprint);
                    prop_assert_eq!(index.insert(&name, fingerprint), before);
                    stored_at.insert(id, index.sequence());
                } else {
                    prop_assert_eq!(index.remove(&name), stored.remove(&id).is_some());
                }
                prop_assert_eq!(index.len(), stored.len() as u64);
                prop_assert_eq!(index.is_empty(), stored.is_empty());
                prop_assert_eq!(index.get(&name), stored.get(&id).copied());
                let query = Fingerprint::new(steps[number / 2].1.unwrap_or_default());
                let to = (number % 13).min(usize::from(distance_max)) as u8;
                let near = index.near(query, distance(to));
                let nearest = near.first().map(|near| near.distance);
                prop_assert_eq!(index.nearest(&[query, query], distance(to)), [nearest; 2]);
                prop_assert_eq!(&near, &naive_near(&stored, query, to));
                for near in near {
                    let of = stored.iter().filter(|(_, other)| **other == near.fingerprint);
                    let mut documents: Vec<_> = of.map(|(id, _)| stored_at[id]).collect();
                    documents.sort_unstable();
                    prop_assert!(index.documents_of(near.fingerprint).eq(documents));
                }
            }
            let mut bytes = Vec::new();
            index.save(&mut bytes).unwrap();
            let mut loaded = InMemoryIndex::load(&bytes[..]).unwrap();
            prop_assert_eq!(loaded.sequence(), index.sequence());
            for id in stored.keys() {
                let found = stored.get(id).copied().zip(stored_at.get(id).copied());
                prop_assert_eq!(loaded.find(&id.to_string()), found);
            }
            for (id, _) in &steps {
                let name = id.to_string();
                let query = stored.get(id).copied().unwrap_or_default();
                let far = distance(distance_max);
                prop_assert_eq!(loaded.get(&name), stored.get(id).copied());
                prop_assert_eq!(loaded.near(query, far), index.near(query, far));
            }
            for id in 0..40_u8 {
                prop_assert_eq!(loaded.remove(&id.to_string()), stored.contains_key(&id));
            }
            prop_assert!(loaded.is_empty() && loaded.near(Fingerprint::new(0), distance(0)).is_empty());
        }
    }

    #[test]
    fn fingerprints_without_ids_are_found() {
        let three = Distance::new(3).unwrap();
        let stored = (0..1_000_u64).map(|number| Fingerprint::new(number << 20));
        let index = InMemoryIndex::of_fingerprints(three, stored.collect::<Vec<_>>().into_iter());
        assert_eq!(index.len(), 1_000);
        let query = Fingerprint::new(7 << 20 | 0b11);
        assert_eq!(index.near(query, three)[0].fingerprint, Fingerprint::new(7 << 20));
        assert_eq!(index.nearest(&[query], three), [Distance::new(2)]);
    }

    #[test]
    fn texts_that_share_a_label_are_similar_in_all_levels_and_when_loaded() {
        let mut index = InMemoryIndex::with_sizes(Distance::new(3).unwrap(), 4, 12);
        let sketch = |number: u64| {
            let labels = [1, 2, 3, 4].map(|table| Label::from_bits((table * 100 + number) << 8));
            Sketch::from_codes(&[1; BINS]).with_labels(labels)
        };
        let fingerprint = |number: u64| Fingerprint::new(number << 32);
        for number in 0..50 {
            index.insert_text(&number.to_string(), fingerprint(number), &sketch(number % 10));
        }
        let threshold = MinResemblance::of_similarity(0.83).unwrap();
        let found = |index: &InMemoryIndex, beyond| -> Vec<u64> {
            let beyond = Distance::new(beyond).unwrap();
            let near = index.similar(fingerprint(3), &sketch(3), threshold, beyond);
            let mut found: Vec<u64> =
                near.iter().map(|near| near.fingerprint.bits() >> 32).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(
            found(&index, 3),
            [43_u64, 23, 33, 13]
                .into_iter()
                .filter(|n| (n ^ 3).count_ones() > 3)
                .collect::<Vec<_>>()
        );
        let mut bytes = Vec::new();
        index.save(&mut bytes).unwrap();
        let mut loaded = InMemoryIndex::load(&bytes[..]).unwrap();
        assert_eq!(found(&loaded, 0), [13, 23, 33, 43]);
        assert!(loaded.remove("23"));
        assert_eq!(found(&loaded, 0), [13, 33, 43]);
    }

    /// A saved index of a few documents, some of them in large segments.
    fn saved() -> Vec<u8> {
        let mut index = InMemoryIndex::with_sizes(Distance::new(3).unwrap(), 4, 12);
        for number in 0..40_u64 {
            index.insert(&number.to_string(), Fingerprint::new(number << 8));
        }
        let mut bytes = Vec::new();
        index.save(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_file_with_a_changed_byte_or_without_its_end_is_refused() {
        let bytes = saved();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            assert!(InMemoryIndex::load(&changed[..]).is_err(), "byte {at} was changed");
            assert!(InMemoryIndex::load(&bytes[..at]).is_err(), "cut to {at} bytes");
        }
        assert!(InMemoryIndex::load(&bytes[..]).is_ok());
    }

    #[test]
    fn what_a_caller_adds_is_read_after_the_index_or_refused_with_it() {
        let mut index = InMemoryIndex::new(Distance::new(3).unwrap());
        index.insert("a", Fingerprint::new(1));
        let more = vec![7; 3 << 20];
        let mut bytes = Vec::new();
        let (view, secret) = index.into_view();
        let index = InMemoryIndex::of_view(view, secret);
        index.save_with(&mut bytes, |sink| sink.write_all(&more)).unwrap();
        let load = |bytes: &[u8]| {
            InMemoryIndex::load_with(bytes, |index, source| {
                assert_eq!(index.get("a"), Some(Fingerprint::new(1)));
                let mut read = vec![0; more.len()];
                source.read_exact(&mut read).map(|()| read)
            })
        };
        assert_eq!(load(&bytes).unwrap().1, more);
        let mut changed = bytes.clone();
        changed[bytes.len() - 20] ^= 1;
        assert!(load(&changed).is_err());
        assert!(load(&bytes[..bytes.len() - 1]).is_err());
        assert!(InMemoryIndex::load(&bytes[..]).is_err(), "more follows than it reads");
        let foreign = InMemoryIndex::load(&[b'x'; 100][..]).unwrap_err();
        assert!(foreign.to_string().contains("not an index"), "{foreign}");
    }

    #[test]
    fn saving_changes_nothing() {
        let mut index = InMemoryIndex::new(Distance::new(3).unwrap());
        index.insert("a", Fingerprint::new(1));
        index.save(&mut std::io::sink()).unwrap();
        assert_eq!(index.insert("b", Fingerprint::new(2)), None);
        assert_eq!((index.len(), index.sequence()), (2, Sequence::new(2)));
    }

    #[test]
    fn a_full_delta_becomes_a_segment_and_segments_are_merged() {
        let mut index = InMemoryIndex::with_sizes(Distance::new(3).unwrap(), 4, 12);
        for number in 0..400_u64 {
            index.insert(&number.to_string(), Fingerprint::new(number << 8));
        }
        assert!(index.view.full_deltas().is_empty());
        assert!((1..12).contains(&index.view.segments().len()));
        assert!(!index.view.secondary_tables().is_empty(), "some segments are large");
        assert_eq!(index.len(), 400);
    }

    #[test]
    #[should_panic(expected = "distance_max")]
    fn a_look_up_beyond_the_largest_distance_is_a_bug() {
        let [two, three] = [2, 3].map(|bits| Distance::new(bits).unwrap());
        InMemoryIndex::new(two).near(Fingerprint::new(0), three);
    }
}
