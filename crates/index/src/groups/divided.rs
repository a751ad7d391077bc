//! Groups of more documents than a view can hold: one part of them after the other.
//!
//! Near-duplicates have something in common. Two fingerprints within distance `d` are equal in one
//! of `d + 1` blocks of bits, because each bit that differs lies in one of them. Texts that are
//! similar beyond the distance share the first two minima of a label ([`crate::labels`]). A
//! [`Division`] divides the documents by one of these: what is equal there comes into the same
//! part. So whoever searches every part of every division finds every pair.
//!
//! Documents of equal fingerprints are in one part of each block, so the pairs are judged as in a
//! view of all documents, and the groups are the same. There is one exception: of texts with one
//! fingerprint whose samples are alike, a view compares the oldest with other fingerprints
//! ([`SketchJudge`]), and a part of a label another one if the oldest has another label.
//!
//! Cost: a search in a part for each document and division, of which there are 8 at distance 3.
//! Memory: a view of one part, 4 bytes for each document, and up to 8 more at the end.
//!
//! Tested against a view of all documents.

use std::cmp::Reverse;
use std::collections::HashMap;

use nearprint_fingerprint::{Distance, Fingerprint, LABELS, Label, Sketch};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::criteria::all_of;
use super::{
    EvidenceSource, Group, GroupingCriteria, Groups, NOWHERE, PairSearch, SketchJudge, UnionFind,
    shape,
};
use crate::document::Sequence;
use crate::namespaces::NamespaceNumber;
use crate::view::{Shape, View};
use crate::visibility::Visibility;

/// What the documents of a part have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Division {
    /// A block of bits of the fingerprint.
    Block {
        /// Its number, counted from the lowest bits.
        number: u32,
        /// How many there are.
        blocks: u32,
    },
    /// The first two minima of this label of the text.
    Label(usize),
}

impl Division {
    /// All that a search by these criteria needs, in their order.
    pub fn all(criteria: GroupingCriteria) -> impl Iterator<Item = Self> {
        let blocks = u32::from(criteria.distance.get()) + 1;
        let is_likely = criteria.is_likely && criteria.threshold.is_some();
        let labels = if is_likely { LABELS } else { 0 };
        let of_fingerprint = (0..blocks).map(move |number| Self::Block { number, blocks });
        of_fingerprint.chain((0..labels).map(Self::Label))
    }

    /// The part of a document, of so many. `None` if it is found by nothing here: it has no label.
    pub fn part(
        self,
        (namespace, fingerprint, sketch): (u32, Fingerprint, Option<&Sketch>),
        parts: u64,
    ) -> Option<u64> {
        let common = match self {
            Self::Block { number, blocks } => {
                let begin = |block: u32| u64::BITS * block / blocks;
                let bits = begin(number + 1) - begin(number);
                fingerprint.bits() >> begin(number) & (u64::MAX >> (u64::BITS - bits))
            }
            Self::Label(table) => {
                sketch?.labels()[table].bits() >> (Label::BITS - Label::SHARED_BITS)
            }
        };
        Some(xxh3_64_with_seed(&common.to_le_bytes(), namespace.into()) % parts.max(1))
    }

    /// The shape of a view of a part.
    pub fn shape(self, criteria: GroupingCriteria) -> Shape {
        shape(self.distance(criteria), matches!(self, Self::Label(_)))
    }

    fn distance(self, criteria: GroupingCriteria) -> Distance {
        match self {
            Self::Block { .. } => criteria.distance,
            Self::Label(_) => Distance::default(),
        }
    }
}

/// A search for the groups of documents that are numbered from 0 on. The groups are those of a view
/// of all documents, unless texts with one fingerprint have alike samples and different labels:
/// then it may compare one that such a view leaves out.
#[derive(Debug)]
pub struct DividedSearch {
    criteria: GroupingCriteria,
    documents: usize,
    joined: UnionFind,
    /// Two documents that a bound kept from being compared.
    left_out: Vec<[u32; 2]>,
}

impl DividedSearch {
    /// A search for groups of so many documents. Parts of blocks come before those of labels.
    ///
    /// # Panics
    /// When there are 2^32 documents.
    pub fn new(documents: usize, criteria: GroupingCriteria) -> Self {
        assert!(u32::try_from(documents).is_ok(), "documents have numbers of 32 bits");
        Self { criteria, documents, joined: UnionFind::new(documents), left_out: Vec::new() }
    }

    /// Joins the groups of near-duplicates of a part. `source` gives each thread the evidence of
    /// documents, and `document` the number of the one that a change of the view stored; `watch`
    /// receives how many pieces of the search are done, and how many there are, and ends the search
    /// by an error.
    ///
    /// # Errors
    /// Those of a source and of `watch`.
    pub fn search<S: EvidenceSource<Error: Send>>(
        &mut self,
        (division, view): (Division, &View),
        source: impl Fn() -> S + Sync,
        watch: impl Fn(u64, u64) -> Result<(), S::Error> + Sync,
        document: impl Fn(Sequence) -> u32,
    ) -> Result<(), S::Error> {
        let GroupingCriteria { threshold, threads, .. } = self.criteria;
        let threshold = threshold.filter(|_| view.may_have_sketches());
        let search = PairSearch::begin(view, all_of(view), division.distance(self.criteria));
        let number = |at: usize| document(search.documents.sequence(at));
        self.join_known(&search, number);
        let judge = || SketchJudge::new(view, Visibility::DEFAULT, threshold, source());
        match division {
            Division::Block { .. } => {
                let pieces = search.pieces() as u64;
                search.run(threads, judge, |done| watch(done, pieces))?;
            }
            Division::Label(_) => {
                let pieces = PairSearch::LIKELY_PIECES as u64;
                search.run_likely(threads, judge, |done| watch(done, pieces))?;
            }
        }
        for at in 0..search.documents.len() {
            let root = search.joined.root(at);
            if root != at {
                self.joined.join(number(at) as usize, number(root) as usize);
            }
        }
        let left_out = search.pairs_left_out(&mut judge())?;
        self.left_out.extend(left_out.into_iter().map(|pair| pair.map(|at| number(at as usize))));
        Ok(())
    }

    /// Joins the documents of a part that earlier parts have joined.
    fn join_known(&self, search: &PairSearch<'_>, number: impl Fn(usize) -> u32) {
        let mut joined: HashMap<usize, usize> = HashMap::new();
        // Most documents are in no group, so the map has only those that others lead to.
        for of_root in [false, true] {
            for at in 0..search.documents.len() {
                let document = number(at) as usize;
                let root = self.joined.root(document);
                if of_root != (root == document) {
                    continue;
                }
                match joined.get(&root) {
                    Some(&other) => search.joined.join(at, other),
                    None if of_root => {}
                    None => drop(joined.insert(root, at)),
                }
            }
        }
    }

    /// The groups of at least two documents, the largest first; of the same size, the one with the
    /// first document. `fingerprint` gives the namespace and the fingerprint of a document; the
    /// groups have namespaces by the same numbers.
    pub fn finish(self, fingerprint: impl Fn(u32) -> (u32, Option<Fingerprint>)) -> Groups<u32> {
        let Self { documents, joined, mut left_out, .. } = self;
        left_out.retain(|[one, other]| !joined.are_joined(*one as usize, *other as usize));
        let mut partly: Vec<_> = left_out.into_iter().map(|[one, _]| fingerprint(one)).collect();
        partly.sort_unstable();
        partly.dedup();
        // By root: the size of its group, and then where the next member of the group goes.
        let mut places = vec![0_u32; documents];
        (0..documents).for_each(|document| places[joined.root(document)] += 1);
        let count = places.iter().filter(|&&size| size >= 2).count();
        let mut groups: Vec<Group> = Vec::with_capacity(count);
        for (root, place) in (0..).zip(&mut places) {
            let size = std::mem::replace(place, NOWHERE);
            if size >= 2 {
                let namespace = NamespaceNumber::new(fingerprint(root).0.into());
                groups.push(Group { namespace, first: root, size });
            }
        }
        // The root is the first of its group.
        groups.sort_unstable_by_key(|group| (Reverse(group.size), group.first));
        let mut end = 0;
        for group in &mut groups {
            places[group.first as usize] = end;
            (group.first, end) = (end, end + group.size);
        }
        let mut members = vec![0; end as usize];
        for document in 0..documents {
            let place = &mut places[joined.root(document)];
            if *place != NOWHERE {
                members[*place as usize] = document as u32;
                *place += 1;
            }
        }
        Groups { all: groups, members, partly_compared: partly.len() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use nearprint_fingerprint::{BINS, Threshold};
    use proptest::prelude::*;

    use super::*;
    use crate::groups::Evidence;
    use crate::id_key::IdKey;
    use crate::namespace_key::NamespaceKey;
    use crate::view::Put;

    #[derive(Debug, Clone)]
    struct Stored {
        fingerprint: Fingerprint,
        namespace: u32,
        sketch: Option<Sketch>,
    }

    /// Fingerprints around a few, and texts that share some of their labels and half of their bins.
    fn stored() -> impl Strategy<Value = Stored> {
        let flips = prop::collection::vec(0..64_u32, 0..4);
        let labels = prop::array::uniform4(0..10_u64);
        let text = prop::option::weighted(0.8, (0..3_u8, 0..BINS, labels));
        (0..4_u64, flips, 0..3_u32, text).prop_map(|(around, flips, namespace, text)| {
            let bits = around.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let bits = flips.iter().fold(bits, |bits, flip| bits ^ 1 << flip);
            let sketch = text.map(|(code, bins, labels)| {
                let codes = std::array::from_fn(|bin| if bin < bins / 2 { 1 } else { 2 + code });
                // Two labels share their first two minima.
                let label = |label| Label::from_bits(((label / 2) << 8) | (label % 2));
                Sketch::from_codes(&codes).with_labels(labels.map(label))
            });
            Stored { fingerprint: Fingerprint::new(bits), namespace, sketch }
        })
    }

    /// Gives the documents of a fingerprint in a namespace the text of the first.
    fn one_text_a_fingerprint(mut documents: Vec<Stored>) -> Vec<Stored> {
        let mut texts = HashMap::new();
        for Stored { fingerprint, namespace, sketch } in &mut documents {
            let text = texts.entry((*fingerprint, *namespace));
            sketch.clone_from(text.or_insert_with(|| sketch.clone()));
        }
        documents
    }

    fn view<'a>(shape: Shape, documents: impl Iterator<Item = &'a Stored>) -> View {
        let mut view = View::new(shape);
        for document in documents {
            let number = document.namespace;
            let key = IdKey { high: number.into(), low: 0 };
            let namespace = (number > 0).then(|| NamespaceKey { key, mask: 1 << number });
            let sketch = document.sketch.clone().map(Box::new);
            view.put(document.fingerprint, Put { sketch, namespace, ..Put::default() });
        }
        view
    }

    /// Of the documents with these numbers, by the change that stored them.
    #[derive(Clone, Copy)]
    struct OfSome<'a>(&'a [Stored], &'a [u32]);

    impl OfSome<'_> {
        fn number(self, change: Sequence) -> u32 {
            self.1[change.get() as usize - 1]
        }
    }

    impl EvidenceSource for OfSome<'_> {
        type Error = Infallible;

        fn evidence(&mut self, document: Sequence) -> Result<Evidence, Infallible> {
            let stored = &self.0[self.number(document) as usize];
            Ok(Evidence { is_short: false, sketch: stored.sketch.clone() })
        }
    }

    proptest! {
        #[test]
        fn the_groups_are_those_of_a_view_of_all_documents(
            documents in prop::collection::vec(stored(), 0..120),
            distance in 0..=5_u8,
            threshold in prop::option::weighted(0.8, Just(0.8)),
            is_likely: bool,
            parts in 1..6_u64,
        ) {
            let documents = one_text_a_fingerprint(documents);
            let criteria = GroupingCriteria {
                distance: Distance::new(distance).expect("at most 64"),
                threshold: threshold.and_then(Threshold::of_similarity),
                is_likely,
                threads: 2,
            };
            let all: Vec<u32> = (0..documents.len() as u32).collect();
            let of_all = OfSome(&documents, &all);
            let whole = view(shape(criteria.distance, true), documents.iter());
            let member = |member: super::super::GroupMember| of_all.number(member.sequence);
            let Ok(whole) = criteria.groups(&whole, || of_all, |_, _| Ok(()), member);

            let mut search = DividedSearch::new(documents.len(), criteria);
            for division in Division::all(criteria) {
                for part in 0..parts {
                    let is_own = |document: &u32| {
                        let stored = &documents[*document as usize];
                        let sketch = stored.sketch.as_ref();
                        let of = (stored.namespace, stored.fingerprint, sketch);
                        division.part(of, parts) == Some(part)
                    };
                    let own: Vec<u32> = all.iter().copied().filter(is_own).collect();
                    let stored = own.iter().map(|&document| &documents[document as usize]);
                    let view = view(division.shape(criteria), stored);
                    let of_part = OfSome(&documents, &own);
                    let Ok(()) = search.search(
                        (division, &view), || of_part, |_, _| Ok(()), |change| of_part.number(change),
                    );
                }
            }
            let divided = search.finish(|document| {
                let stored = &documents[document as usize];
                (stored.namespace, Some(stored.fingerprint))
            });
            prop_assert!(divided.iter().eq(whole.iter()), "{divided:?} {whole:?}");
            prop_assert_eq!(divided.partly_compared(), whole.partly_compared());
        }
    }
}
