//! Groups: stored documents that are connected by pairs within a distance.
//!
//! ```text
//!   Search::begin     all documents of a selection, sorted by fingerprint     one pass, one sort
//!   Search::piece     looks up some of the fingerprints in the view, and joins  any order, any
//!                     the groups of each pair that counts                       number of threads
//!   Search::finish    the groups, largest first                               two passes
//!   Search::each_label    for callers who make the groups themselves          one pass
//! ```
//!
//! Two documents are in one group if a chain of pairs leads from one to the other. Documents with the
//! same fingerprint are always in one group, and documents of different namespaces never are. Which
//! pairs join is up to the caller, which may compare sketches. It is not asked about pairs that
//! are in one group already: they change nothing, so the result depends neither on the order of the
//! pieces nor on the number of threads.
//!
//! Tested against union-find over all pairs.

mod documents;
mod joined;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::ops::Range;

use nearprint_fingerprint::{Distance, Fingerprint, Margins};

use crate::document::Sequence;
use crate::groups::documents::DocumentSet;
use crate::groups::joined::Joined;
use crate::lookup::Lookup;
use crate::namespaces::NamespaceNumber;
use crate::permutation::Permuted;
use crate::view::{Likely, Selection, View};
use crate::visibility::Visibility;

/// The memory that a search takes at most for each document of its view, in bytes, its result
/// included.
pub const BYTES_EACH: u64 = 64;

/// Documents that one piece looks up: a millisecond or two.
const PIECE: usize = 4_096;

/// Fingerprints whose look-ups run together, and after which a piece asks whether to go on.
const QUERIES_AT_A_TIME: usize = 64;

/// Two fingerprints of one namespace within the distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The two, combined with the mask of the namespace; the same pair comes in the same order.
    pub masked: [Fingerprint; 2],
    /// Their distance, at least 1.
    pub distance: Distance,
    /// Their namespace.
    pub namespace: NamespaceNumber,
}

/// Decides which pairs join two groups.
pub trait Judge {
    /// Why it cannot decide, or must not go on.
    type Error;

    /// Whether a pair joins the groups of its fingerprints. The answer depends on the pair alone.
    ///
    /// # Errors
    /// Those of the judge; the piece ends with it.
    fn joins(&mut self, pair: &Pair) -> Result<bool, Self::Error>;

    /// Asked every few fingerprints, so that a search can be cancelled.
    ///
    /// # Errors
    /// Those of the judge; the piece ends with it.
    fn goes_on(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Decides which pairs beyond the distance join two groups, by likely searches.
pub trait LikelyJudge {
    /// Why it cannot decide, or must not go on.
    type Error;

    /// The margins of a document; `None` if it did not come as a text.
    ///
    /// # Errors
    /// Those of the judge; the piece ends with it.
    fn margins(&mut self, document: Sequence) -> Result<Option<Margins>, Self::Error>;

    /// Whether a document joins those of a fingerprint that its likely search found. The fingerprint is
    /// combined with the mask of the namespace.
    ///
    /// # Errors
    /// Those of the judge; the piece ends with it.
    fn joins_likely(
        &mut self,
        document: Sequence,
        likely: Likely,
        namespace: NamespaceNumber,
    ) -> Result<bool, Self::Error>;
}

/// Joins every pair within the distance.
#[derive(Debug, Clone, Copy, Default)]
pub struct JoinAll;

impl Judge for JoinAll {
    type Error = std::convert::Infallible;

    fn joins(&mut self, _: &Pair) -> Result<bool, Self::Error> {
        Ok(true)
    }
}

/// A search for the groups of a view.
#[derive(Debug)]
pub struct Search<'a> {
    view: &'a View,
    distance: Distance,
    documents: DocumentSet,
    joined: Joined,
}

/// A group of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// The namespace of its documents.
    pub namespace: NamespaceNumber,
    /// Its oldest document.
    pub oldest: Member,
    /// Where its members begin among all members.
    first: u32,
    /// How many documents it has.
    pub size: u32,
}

/// A document of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The change that stored it.
    pub sequence: Sequence,
    /// Its fingerprint, combined with the mask of its namespace.
    pub masked: Fingerprint,
}

/// The groups of a view, the largest first; of the same size, the one with the oldest document first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Groups {
    groups: Vec<Group>,
    members: Vec<Member>,
}

impl<'a> Search<'a> {
    /// Collects the documents of a selection. About 0.2 us and 24 bytes each.
    ///
    /// # Panics
    /// When the distance is above that of the view, or there are 2^32 documents.
    pub fn begin(view: &'a View, selection: Selection, distance: Distance) -> Self {
        assert!(distance <= view.shape().distance_max, "the index ends at distance_max");
        let documents = DocumentSet::of(view, selection);
        let joined = Joined::new(documents.len());
        Self { view, distance, documents, joined }
    }

    /// The number of documents.
    pub fn documents(&self) -> usize {
        self.documents.len()
    }

    /// The number of pieces.
    pub fn pieces(&self) -> usize {
        self.documents.len().div_ceil(PIECE)
    }

    /// Looks up a piece, the first of which is 0. Each has to be run once, on any thread. About
    /// 0.4 us for each fingerprint at distance 3 in ten million, and 0.1 us for each pair.
    ///
    /// # Errors
    /// Those of the judge. The search must not be used any more.
    pub fn piece<J: Judge>(&self, piece: usize, judge: &mut J) -> Result<(), J::Error> {
        self.range(piece * PIECE..self.documents.len().min((piece + 1) * PIECE), judge)
    }

    fn range<J: Judge>(&self, range: Range<usize>, judge: &mut J) -> Result<(), J::Error> {
        let (mut lookup, mut queries) = (Lookup::default(), Queries::default());
        for at in range {
            if self.documents.is_repeated(at) {
                self.joined.join(at, at - 1);
                continue;
            }
            queries.add(at, self.documents.value(at));
            if queries.values.len() == QUERIES_AT_A_TIME {
                self.look_up(&mut lookup, &mut queries, judge)?;
            }
        }
        self.look_up(&mut lookup, &mut queries, judge)
    }

    fn look_up<J: Judge>(
        &self,
        lookup: &mut Lookup,
        queries: &mut Queries,
        judge: &mut J,
    ) -> Result<(), J::Error> {
        judge.goes_on()?;
        let mut outcome = Ok(());
        self.view.near_values(lookup, &queries.values, self.distance, &mut |query, value| {
            if outcome.is_ok() {
                outcome = self.pair(queries.at[query], value, judge);
            }
        });
        queries.clear();
        outcome
    }

    /// Joins the groups of a document and of a fingerprint near it, if they are two.
    #[inline]
    fn pair<J: Judge>(&self, at: usize, value: Permuted, judge: &mut J) -> Result<(), J::Error> {
        let query = self.documents.value(at);
        // Each pair is found from both sides.
        if value <= query {
            return Ok(());
        }
        let namespace = self.documents.namespace(at);
        // What is not there has expired, was removed, or is of another namespace.
        let Some(other) = self.documents.find(value, namespace) else { return Ok(()) };
        if self.joined.are_joined(at, other) {
            return Ok(());
        }
        let masked = [query, value].map(|value| self.view.shape().permutation.restore(value));
        let distance = masked[0].distance(masked[1]);
        if judge.joins(&Pair { masked, distance, namespace })? {
            self.joined.join(at, other);
        }
        Ok(())
    }

    /// Searches beyond the distance for the documents of a piece, the first of which is 0, once all
    /// pieces within the distance were run. Any order, any number of threads. A few microseconds for
    /// each document with margins.
    ///
    /// # Errors
    /// Those of the judge. The search must not be used any more.
    pub fn likely_piece<J: LikelyJudge>(
        &self,
        piece: usize,
        judge: &mut J,
    ) -> Result<(), J::Error> {
        for at in piece * PIECE..self.documents.len().min((piece + 1) * PIECE) {
            let (document, namespace) = (self.documents.sequence(at), self.documents.namespace(at));
            let Some(margins) = judge.margins(document)? else { continue };
            let rule = self.view.likely_rule(&margins);
            let masked = self.view.shape().permutation.restore(self.documents.value(at));
            let visibility = Visibility { namespace, ..Visibility::DEFAULT };
            for likely in self.view.likely(masked, &rule, self.distance, &visibility) {
                let value = self.view.shape().permutation.apply(likely.fingerprint);
                let Some(other) = self.documents.find(value, namespace) else { continue };
                let are_apart = !self.joined.are_joined(at, other);
                if are_apart && judge.joins_likely(document, likely, namespace)? {
                    self.joined.join(at, other);
                }
            }
        }
        Ok(())
    }

    /// Calls `take` with every document and the label of its group, once all pieces were run. Labels
    /// are below the number of documents.
    pub fn each_label(&self, mut take: impl FnMut(Sequence, u32)) {
        for at in 0..self.documents.len() {
            take(self.documents.sequence(at), self.joined.root(at) as u32);
        }
    }

    /// The groups of at least `size_min` documents, once all pieces were run.
    pub fn finish(self, size_min: u32) -> Groups {
        let Self { view, documents, joined, .. } = self;
        let member = |at: usize| Member {
            sequence: documents.sequence(at),
            masked: view.shape().permutation.restore(documents.value(at)),
        };
        // By root: first the size of its group, then the number of the group, counted from 1.
        let mut of_root = vec![0_u32; documents.len()];
        for at in 0..documents.len() {
            of_root[joined.root(at)] += 1;
        }
        let mut groups: Vec<Group> = Vec::new();
        for at in 0..documents.len() {
            let root = joined.root(at);
            // The root is the first of its group.
            if root == at {
                let size = of_root[root];
                if size < size_min.max(1) {
                    of_root[root] = 0;
                    continue;
                }
                let namespace = documents.namespace(at);
                groups.push(Group { namespace, oldest: member(at), first: root as u32, size });
                of_root[root] = groups.len() as u32;
            } else if let Some(group) = of_root[root].checked_sub(1) {
                let group = &mut groups[group as usize];
                if documents.sequence(at) < group.oldest.sequence {
                    group.oldest = member(at);
                }
            }
        }
        groups.sort_unstable_by_key(|group| (Reverse(group.size), group.oldest.sequence));
        let mut first = 0;
        for (number, group) in (1..).zip(&mut groups) {
            of_root[group.first as usize] = number;
            group.first = first;
            first += group.size;
        }
        let none = Member { sequence: Sequence::ZERO, masked: Fingerprint::new(0) };
        let mut members = vec![none; first as usize];
        let mut next: Vec<u32> = groups.iter().map(|group| group.first).collect();
        for at in 0..documents.len() {
            if let Some(group) = of_root[joined.root(at)].checked_sub(1) {
                let next = &mut next[group as usize];
                members[*next as usize] = member(at);
                *next += 1;
            }
        }
        for group in &groups {
            members[group.range()].sort_unstable_by_key(|member| member.sequence);
        }
        Groups { groups, members }
    }
}

impl Group {
    fn range(&self) -> Range<usize> {
        self.first as usize..self.first as usize + self.size as usize
    }
}

impl Groups {
    /// All groups of at least `size_min` documents of a selection, found on this thread. Every pair
    /// within the distance joins.
    pub fn find(view: &View, selection: Selection, distance: Distance, size_min: u32) -> Self {
        let search = Search::begin(view, selection, distance);
        for piece in 0..search.pieces() {
            let Ok(()) = search.piece(piece, &mut JoinAll);
        }
        search.finish(size_min)
    }

    /// The groups, in their order.
    pub fn all(&self) -> &[Group] {
        &self.groups
    }

    /// The documents of a group, oldest first.
    pub fn members(&self, group: &Group) -> &[Member] {
        &self.members[group.range()]
    }

    /// The number of documents in all groups.
    pub fn documents(&self) -> usize {
        self.members.len()
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> u64 {
        let groups = self.groups.capacity() * size_of::<Group>();
        (groups + self.members.capacity() * size_of::<Member>()) as u64
    }
}

/// Fingerprints to look up together, with the documents that they come from.
#[derive(Debug, Default)]
struct Queries {
    at: Vec<usize>,
    values: Vec<Permuted>,
}

impl Queries {
    fn add(&mut self, at: usize, value: Permuted) {
        self.at.push(at);
        self.values.push(value);
    }

    fn clear(&mut self) {
        self.at.clear();
        self.values.clear();
    }
}
