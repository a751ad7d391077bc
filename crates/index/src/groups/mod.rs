//! Groups: stored documents that are connected by pairs within a distance.
//!
//! ```text
//!   Search::begin       all documents of a selection, sorted by fingerprint   one pass, one sort
//!   Search::run         looks up the fingerprints in the view, and joins the  in pieces, on any
//!                       groups of each pair that counts                       number of threads
//!   Search::run_likely  joins groups of similar texts beyond the distance     the same
//!   Search::finish      the groups, largest first                             two passes, one sort
//! ```
//!
//! Two documents are in one group if a chain of pairs leads from one to the other. Documents with
//! the same fingerprint are always in one group, and documents of different namespaces never are.
//! Which pairs join is up to the caller, which may compare sketches. It is not asked about pairs
//! that are in one group already: they change nothing, so the result depends neither on the order
//! of the pieces nor on the number of threads.
//!
//! Tested against union-find over all pairs.

mod criteria;
mod divided;
mod documents;
mod judge;
mod similar;
mod union_find;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use nearprint_fingerprint::{Distance, Fingerprint};

pub use criteria::{DELTA_EVENTS, GroupingCriteria, settle, shape};
pub use divided::{DividedSearch, Division};
pub use judge::{Evidence, EvidenceSource, SketchJudge};
pub use union_find::UnionFind;

use crate::document::Sequence;
use crate::groups::documents::DocumentSet;
use crate::groups::judge::SKETCHES_COMPARED_MAX;
use crate::lookup::Lookup;
use crate::memory::file::{catch_unreadable, unwind};
use crate::namespaces::NamespaceNumber;
use crate::permutation::Permuted;
use crate::view::{Selection, View};

/// The memory that a search takes at most for each document of its view, in bytes, its result
/// included.
pub const BYTES_EACH: u64 = 64;

/// Documents that one piece looks up: a millisecond or two.
const PIECE: usize = 4_096;

/// Fingerprints whose look-ups run together, and after which a piece asks whether to go on.
const QUERIES_AT_A_TIME: usize = 64;

/// The place of documents that are in no group.
const NOWHERE: u32 = u32::MAX;

/// Two fingerprints of one namespace within the distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The two, combined with the mask of the namespace; the same pair comes in the same order.
    pub masked: [Fingerprint; 2],
    /// Their distance, at least 1.
    pub distance: Distance,
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
pub struct PairSearch<'a> {
    view: &'a View,
    distance: Distance,
    documents: DocumentSet,
    joined: UnionFind,
    /// A document, and the nearest one that it was not compared with, where a bound was met.
    left_out: Mutex<Vec<[u32; 2]>>,
    partly_compared: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// The namespace of its documents.
    pub namespace: NamespaceNumber,
    /// Where its members begin among all members.
    first: u32,
    /// How many documents it has.
    pub size: u32,
}

/// A document of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMember {
    /// The change that stored it.
    pub sequence: Sequence,
    /// Its fingerprint, combined with the mask of its namespace.
    pub masked: Fingerprint,
}

/// The groups of a view, the largest first; of the same size, the one with the oldest document
/// first. `M` is what is kept of each document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups<M = GroupMember> {
    all: Vec<Group>,
    members: Vec<M>,
    partly_compared: u64,
}

impl<'a> PairSearch<'a> {
    /// Collects the documents of a selection. About 0.2 us and 24 bytes each.
    ///
    /// # Panics
    /// When the distance is above that of the view, or there are 2^32 documents.
    pub fn begin(view: &'a View, selection: Selection, distance: Distance) -> Self {
        assert!(distance <= view.shape().distance_max, "the index ends at distance_max");
        let documents = DocumentSet::of(view, selection);
        let joined = UnionFind::new(documents.len());
        Self { view, distance, documents, joined, left_out: Mutex::default(), partly_compared: 0 }
    }

    pub fn documents(&self) -> usize {
        self.documents.len()
    }

    pub fn pieces(&self) -> usize {
        self.documents.len().div_ceil(PIECE)
    }

    /// Looks up all documents on some threads, of which this is one; each has a judge of its own.
    /// About 0.4 us for each fingerprint at distance 3 in ten million, and 0.1 us for each pair.
    /// `watch` receives how many pieces are done, and ends the search by an error.
    ///
    /// # Errors
    /// Those of a judge and of `watch`. The search must not be used any more.
    pub fn run<J: Judge<Error: Send>>(
        &self,
        threads: usize,
        judge: impl Fn() -> J + Sync,
        watch: impl Fn(u64) -> Result<(), J::Error> + Sync,
    ) -> Result<(), J::Error> {
        let piece = |number, judge: &mut J| self.range(self.piece(number), judge);
        on_threads((self.pieces(), threads), judge, piece, watch)
    }

    /// The documents of a piece, the first of which is 0.
    fn piece(&self, number: usize) -> Range<usize> {
        number * PIECE..self.documents.len().min((number + 1) * PIECE)
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

    /// Counts the fingerprints that may belong to a larger group: those with more sketches, or with
    /// more neighbours in a table of labels, than are compared, and another near them that has not
    /// joined. Call it last, on this thread: which pairs were compared depends on the order of the
    /// pieces, and which are apart does not.
    ///
    /// # Errors
    /// Those of the judge.
    pub fn count_partly_compared<S: EvidenceSource>(
        &mut self,
        judge: &mut SketchJudge<'_, S>,
    ) -> Result<(), S::Error> {
        let pairs = self.pairs_left_out(judge)?;
        let mut partly: Vec<u32> = pairs.into_iter().map(|[one, _]| one).collect();
        partly.sort_unstable();
        partly.dedup();
        self.partly_compared = partly.len() as u64;
        Ok(())
    }

    /// The pairs that a bound kept from being compared and whose groups have not joined. The first
    /// of two is the first document of its fingerprint.
    fn pairs_left_out<S: EvidenceSource>(
        &self,
        judge: &mut SketchJudge<'_, S>,
    ) -> Result<Vec<[u32; 2]>, S::Error> {
        let (mut lookup, mut first, end) = (Lookup::default(), 0, self.documents.len());
        let mut pairs = std::mem::take(&mut *self.left_out());
        pairs.retain(|pair| self.are_apart(pair.map(|at| at as usize)));
        while first < end {
            let mut others = first + 1..end;
            let next = others.find(|&at| !self.documents.is_repeated(at)).unwrap_or(end);
            if next - first > SKETCHES_COMPARED_MAX {
                judge.goes_on()?;
                let masked = self.view.shape().permutation.restore(self.documents.value(first));
                if judge.leaves_sketches(masked, self.documents.namespace(first)) {
                    self.each_apart(first, &mut lookup, |other| {
                        pairs.push([first as u32, other as u32]);
                    });
                }
            }
            first = next;
        }
        Ok(pairs)
    }

    /// Whether two documents of one namespace are in different groups.
    fn are_apart(&self, [one, other]: [usize; 2]) -> bool {
        self.documents.namespace(one) == self.documents.namespace(other)
            && !self.joined.are_joined(one, other)
    }

    fn left_out(&self) -> MutexGuard<'_, Vec<[u32; 2]>> {
        self.left_out.lock().expect("no panic while it is locked")
    }

    /// Calls `each` with the documents of fingerprints near that of a document that are in other
    /// groups.
    fn each_apart(&self, at: usize, lookup: &mut Lookup, mut each: impl FnMut(usize)) {
        let (query, namespace) = (self.documents.value(at), self.documents.namespace(at));
        self.view.near_values(lookup, &[query], self.distance, &mut |_, value| {
            let other = self.documents.find(value, namespace);
            other
                .filter(|&other| !self.joined.are_joined(at, other))
                .into_iter()
                .for_each(&mut each);
        });
    }

    /// The groups of at least `size_min` documents, once all pieces were run. `member` makes what
    /// is kept of each document.
    pub fn finish<M>(self, size_min: u32, member: impl Fn(GroupMember) -> M) -> Groups<M> {
        let Self { view, documents, joined, partly_compared, .. } = self;
        // By root: the size of its group, and then where the next member of the group goes.
        let mut places = vec![0_u32; documents.len()];
        (0..documents.len()).for_each(|at| places[joined.root(at)] += 1);
        let sizes = || places.iter().filter(|&&size| size >= size_min.max(1));
        let mut order = vec![0_u32; sizes().sum::<u32>() as usize];
        let (mut groups, mut first) = (Vec::with_capacity(sizes().count()), 0);
        for at in 0..documents.len() {
            let root = joined.root(at);
            // The root is the first of its group.
            if root == at {
                let size = std::mem::replace(&mut places[root], NOWHERE);
                if size >= size_min {
                    groups.push(Group { namespace: documents.namespace(at), first, size });
                    places[root] = first;
                    first += size;
                }
            }
            let place = &mut places[root];
            if *place != NOWHERE {
                order[*place as usize] = at as u32;
                *place += 1;
            }
        }
        drop(places);
        for group in &groups {
            order[group.range()].sort_unstable_by_key(|&at| documents.sequence(at as usize));
        }
        groups.sort_unstable_by_key(|group| {
            (Reverse(group.size), documents.sequence(order[group.first as usize] as usize))
        });
        let mut members = Vec::with_capacity(order.len());
        for group in &mut groups {
            let set = &order[group.range()];
            group.first = members.len() as u32;
            members.extend(set.iter().map(|&at| {
                let (sequence, value) =
                    (documents.sequence(at as usize), documents.value(at as usize));
                member(GroupMember { sequence, masked: view.shape().permutation.restore(value) })
            }));
        }
        Groups { all: groups, members, partly_compared }
    }
}

/// Runs the pieces with the numbers from 0 on some threads, of which this is one.
fn on_threads<J, E: Send>(
    (pieces, threads): (usize, usize),
    judge: impl Fn() -> J + Sync,
    piece: impl Fn(usize, &mut J) -> Result<(), E> + Sync,
    watch: impl Fn(u64) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let (next, done, ended) = (AtomicUsize::new(0), AtomicU64::new(0), Mutex::new(None));
    let work = || {
        let mut judge = judge();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= pieces {
                return;
            }
            let outcome = piece(number, &mut judge);
            let outcome = outcome.and_then(|()| watch(done.fetch_add(1, Ordering::Relaxed) + 1));
            if let Err(why) = outcome {
                // The others stop at their next piece.
                next.store(pieces, Ordering::Relaxed);
                *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                return;
            }
        }
    };
    // What unwinds from one thread does not reach those that wait for it.
    let unreadable = Mutex::new(None);
    let work = || {
        if let Err(error) = catch_unreadable(work) {
            next.store(pieces, Ordering::Relaxed);
            unreadable.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    };
    thread::scope(|scope| {
        // Threads inherit the priority of the one that starts them.
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    if let Some(error) = unreadable.into_inner().unwrap_or_else(PoisonError::into_inner) {
        unwind(error);
    }
    ended.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
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
        let search = PairSearch::begin(view, selection, distance);
        let Ok(()) = search.run(1, || JoinAll, |_| Ok(()));
        search.finish(size_min, |member| member)
    }
}

impl<M> Groups<M> {
    /// The groups, in their order.
    pub fn all(&self) -> &[Group] {
        &self.all
    }

    /// The documents of a group, oldest first.
    pub fn members(&self, group: &Group) -> &[M] {
        &self.members[group.range()]
    }

    /// The documents of each group, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &[M]> {
        self.all.iter().map(|group| self.members(group))
    }

    /// The number of documents in all groups.
    pub fn documents(&self) -> usize {
        self.members.len()
    }

    /// How many fingerprints may belong to a larger group, because not all of their sketches were
    /// compared ([`PairSearch::count_partly_compared`]).
    pub const fn partly_compared(&self) -> u64 {
        self.partly_compared
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> u64 {
        let groups = self.all.capacity() * size_of::<Group>();
        (groups + self.members.capacity() * size_of::<M>()) as u64
    }
}

impl<M> Default for Groups<M> {
    fn default() -> Self {
        Self { all: Vec::new(), members: Vec::new(), partly_compared: 0 }
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
