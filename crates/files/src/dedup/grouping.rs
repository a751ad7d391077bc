//! The groups of connected near-duplicates, from an index in memory.
//!
//! The index is a [`View`], the documents are its changes, and [`Search`] joins the pairs: those of
//! a service would be the same.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::{io, iter};

use nearprint_engine::document::{Namespace, Sequence};
use nearprint_engine::machine::groups::{Compared, SKETCHES_COMPARED_MAX, joins};
use nearprint_engine::machine::query::{SearchKind, Verification};
use nearprint_fingerprint::{Distance, Fingerprint, Margins, MinResemblance};
use nearprint_index::compaction::policy::Load;
use nearprint_index::groups::{Judge, LikelyJudge, Pair, Search};
use nearprint_index::likely::LIKELY_DISTANCE_MAX;
use nearprint_index::lookup::Lookup;
use nearprint_index::namespaces::NamespaceNumber;
use nearprint_index::permutation::Permutation;
use nearprint_index::plan::SMALL_MAX;
use nearprint_index::view::{Expired, Likely, Put, Selection, Shape, View};
use nearprint_index::visibility::{NamespaceKey, Visibility};

use crate::dedup::scan::Scanned;
use crate::dedup::spill::Evidence;

/// Changes in a delta. Fingerprints of similar texts often begin with the same bits and share a
/// hash chain, and long deltas make long chains: 2^18 changes make the index of 60,000 texts 0.3 s
/// slower.
const DELTA_EVENTS: usize = 1 << 14;
/// Nobody chooses the fingerprints and sees the answers of one process, so these need no secret.
const SEED: u64 = 1;
const SECRET: [u8; 16] = *b"nearprint dedup ";
/// Fingerprints whose sketches each thread keeps.
const KEPT: usize = 4_096;
/// The label of a document that is in no group.
const ALONE: u32 = u32::MAX;

/// The distance of two near-duplicates, unless the command line says otherwise.
pub const DISTANCE_DEFAULT: Distance = Distance::new(3).expect("at most 64");

/// Whether a likely search for a text with these margins and the first fingerprint finds the
/// second, in an index for [`DISTANCE_DEFAULT`].
pub fn is_likely(margins: &Margins, [one, other]: [Fingerprint; 2]) -> bool {
    let view = View::new(shape(DISTANCE_DEFAULT));
    view.is_likely(&view.likely_rule(margins), one, other)
}

fn shape(distance_max: Distance) -> Shape {
    Shape {
        distance_max,
        delta_events: DELTA_EVENTS,
        small_max: SMALL_MAX,
        permutation: Arc::new(Permutation::from_secret(SEED)),
    }
}

/// What counts as a near-duplicate.
#[derive(Debug, Clone, Copy)]
pub struct GroupingCriteria {
    /// The largest distance of two fingerprints.
    pub distance: Distance,
    /// What two sketches must reach; `None` does not compare them.
    pub min_resemblance: Option<MinResemblance>,
    /// Whether texts are also searched beyond the distance.
    pub search: SearchKind,
    /// Threads that search.
    pub threads: usize,
}

impl GroupingCriteria {
    /// Whether searches go beyond the distance.
    fn is_likely(&self, scanned: &Scanned) -> bool {
        self.search == SearchKind::Likely
            && self.min_resemblance.is_some()
            && scanned.spill.is_some()
            && u32::from(self.distance.get()) < LIKELY_DISTANCE_MAX
    }
}

/// The groups of at least two documents. The largest comes first; of the same size, the one with
/// the first document. 4 bytes of memory a group, and 4 for each of its documents.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DuplicateGroups {
    /// The documents of all groups, one group after the other.
    documents: Vec<u32>,
    /// Where each group ends in them.
    ends: Vec<u32>,
}

impl DuplicateGroups {
    /// Makes a group of the documents that have one label. A label is below the number of
    /// documents, or is [`ALONE`].
    pub(super) fn of(labels: &[u32]) -> Self {
        let labelled = || (0..).zip(labels).filter(|&(_, &label)| label != ALONE);
        // The size of each label's group; later the number of that group, counted from 1.
        let mut of_label = vec![0_u32; labels.len()];
        labelled().for_each(|(_, &label)| of_label[label as usize] += 1);
        let mut groups = Vec::with_capacity(of_label.iter().filter(|&&size| size > 1).count());
        for (document, &label) in labelled() {
            let size = std::mem::take(&mut of_label[label as usize]);
            if size > 1 {
                groups.push((Reverse(size), document));
            }
        }
        groups.sort_unstable();
        let (mut next, mut count) = (Vec::with_capacity(groups.len()), 0);
        for (number, (Reverse(size), first)) in (1..).zip(groups) {
            of_label[labels[first as usize] as usize] = number;
            next.push(count);
            count += size;
        }
        let mut documents = vec![0; count as usize];
        for (document, &label) in labelled() {
            if let Some(group) = of_label[label as usize].checked_sub(1) {
                let next = &mut next[group as usize];
                documents[*next as usize] = document;
                *next += 1;
            }
        }
        Self { documents, ends: next }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The documents of each group, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &[u32]> {
        let starts = iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.documents[start as usize..end as usize])
    }

    /// The documents of all groups, one group after the other.
    pub fn documents(&self) -> &[u32] {
        &self.documents
    }
}

/// Two near-duplicates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NearPair {
    /// The two documents, the first one first.
    pub documents: [u32; 2],
    /// The distance of their fingerprints.
    pub distance: Distance,
    /// The similarity of their texts, 0 to 1, if both have sketches.
    pub similarity: Option<f64>,
}

/// An index of all documents with a fingerprint.
#[derive(Debug)]
pub struct Index {
    view: View,
    /// For each change of the view, counted from 0, its document. Empty if they are the same.
    documents: Vec<u32>,
    /// Of all namespaces of the files.
    keys: Vec<Option<NamespaceKey>>,
}

impl Index {
    /// The groups of at least two documents. `watch` receives how many pieces of the search are
    /// done, and how many there are, and says whether to go on. If not, the groups are not
    /// complete.
    ///
    /// # Errors
    /// The temporary file of sketches cannot be read.
    pub fn groups(
        &self,
        scanned: &Scanned,
        criteria: GroupingCriteria,
        watch: &(dyn Fn(u64, u64) -> bool + Sync),
    ) -> io::Result<DuplicateGroups> {
        let selection = Selection {
            namespace: None,
            after: Sequence::ZERO,
            upto: self.view.sequence(),
            expired: Expired::Not(0),
        };
        let search = Search::begin(&self.view, selection, criteria.distance);
        let judge = || SpillJudge::new(self, scanned, criteria);
        let (pieces, likely) = (search.pieces() as u64, criteria.is_likely(scanned));
        let all = if likely { 2 * pieces } else { pieces };
        let within = |piece, judge: &mut SpillJudge<'_>| search.piece(piece, judge);
        run(search.pieces(), criteria.threads, (&judge, &within), &|done| watch(done, all))?;
        if likely {
            let beyond = |piece, judge: &mut SpillJudge<'_>| search.likely_piece(piece, judge);
            let watch = |done| watch(pieces + done, all);
            run(search.pieces(), criteria.threads, (&judge, &beyond), &watch)?;
        }
        let mut labels = vec![ALONE; scanned.len()];
        search.each_label(|change, label| labels[self.document(change) as usize] = label);
        drop(search);
        Ok(DuplicateGroups::of(&labels))
    }

    /// Passes on every pair of near-duplicates, by its first and then by its second document. A
    /// pair of equal fingerprints always counts. Documents with one fingerprint make about half the
    /// square of their number of pairs.
    ///
    /// # Errors
    /// Those of `take`, and the temporary file of sketches cannot be read.
    pub fn pairs(
        &self,
        scanned: &Scanned,
        criteria: GroupingCriteria,
        take: &mut dyn FnMut(NearPair) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut lookup, permutation) = (Lookup::default(), &self.view.shape().permutation);
        let (mut near, mut others) = (Vec::new(), Vec::new());
        let likely = self.likely_pairs(scanned, criteria)?;
        let mut likely = likely.iter().peekable();
        for change in 1..=self.view.sequence().get() {
            let document = self.document(Sequence::new(change));
            let Some(masked) = self.masked(scanned, document) else { continue };
            let (number, _) = self.namespace(scanned, document);
            let value = permutation.apply(masked);
            near.clear();
            self.view.near_values(&mut lookup, &[value], criteria.distance, &mut |_, value| {
                near.push(permutation.restore(value));
            });
            // A fingerprint may be found in several tables.
            near.sort_unstable();
            near.dedup();
            others.clear();
            for &masked in &near {
                let visibility = of_namespace(number);
                let later =
                    self.view.documents_of(masked, visibility).map(|posting| posting.sequence);
                let later = later.filter(|sequence| sequence.get() > change);
                others.extend(later.map(|sequence| self.document(sequence)));
            }
            while let Some(&[_, other]) = likely.next_if(|[first, _]| *first == document) {
                others.push(other);
            }
            others.sort_unstable();
            for &other in &others {
                if let Some(pair) = judged(scanned, criteria, [document, other])? {
                    take(pair)?;
                }
            }
        }
        Ok(())
    }

    /// The pairs beyond the distance that a likely search for one of the two finds and their
    /// sketches confirm, each with its first document first, sorted. 8 bytes each.
    fn likely_pairs(
        &self,
        scanned: &Scanned,
        criteria: GroupingCriteria,
    ) -> io::Result<Vec<[u32; 2]>> {
        let mut pairs = Vec::new();
        if !criteria.is_likely(scanned) {
            return Ok(pairs);
        }
        let mut judge = SpillJudge::new(self, scanned, criteria);
        for change in 1..=self.view.sequence().get() {
            let Some(margins) = judge.margins(Sequence::new(change))? else { continue };
            let document = self.document(Sequence::new(change));
            let Some(masked) = self.masked(scanned, document) else { continue };
            let visibility = of_namespace(self.namespace(scanned, document).0);
            let rule = self.view.likely_rule(&margins);
            for likely in self.view.likely(masked, &rule, criteria.distance, &visibility) {
                for posting in self.view.documents_of(likely.fingerprint, visibility) {
                    let other = self.document(posting.sequence);
                    if judge.confirms([document, other])? {
                        pairs.push([document.min(other), document.max(other)]);
                    }
                }
            }
        }
        pairs.sort_unstable();
        pairs.dedup();
        Ok(pairs)
    }

    /// The fingerprint of a document as it is indexed.
    fn masked(&self, scanned: &Scanned, document: u32) -> Option<Fingerprint> {
        let (_, mask) = self.namespace(scanned, document);
        let fingerprint = scanned.fingerprints.get(document)?;
        Some(Fingerprint::new(fingerprint.bits() ^ mask))
    }

    /// The number of the namespace of a document in the view, and its mask.
    fn namespace(&self, scanned: &Scanned, document: u32) -> (NamespaceNumber, u64) {
        let number = scanned.namespaces.get(document as usize).map_or(0, |&number| number as usize);
        let key = self.keys[number];
        let known = key.and_then(|key| self.view.namespaces().get(key.key));
        (
            known.map_or(NamespaceNumber::DEFAULT, |entry| entry.number),
            key.map_or(0, |key| key.mask),
        )
    }
}

/// Every document of a namespace; its fingerprints have the mask already.
fn of_namespace(namespace: NamespaceNumber) -> Visibility {
    Visibility { namespace, mask: 0, now_s: 0, since: Sequence::ZERO }
}

/// The pair, if its sketches do not refute it.
fn judged(
    scanned: &Scanned,
    criteria: GroupingCriteria,
    documents: [u32; 2],
) -> io::Result<Option<NearPair>> {
    let [one, other] = documents;
    let Some(distance) = scanned.distance(one, other) else { return Ok(None) };
    let Some(spill) = &scanned.spill else {
        return Ok(Some(NearPair { documents, distance, similarity: None }));
    };
    let (one, other) = (spill.get(one as usize)?, spill.get(other as usize)?);
    let compared = |evidence: &Evidence| Compared {
        sketches: evidence.sketch.iter().cloned().collect(),
        is_short: evidence.is_short,
    };
    let counts = distance.get() == 0
        || criteria
            .min_resemblance
            .is_none_or(|threshold| joins(&compared(&one), &compared(&other), distance, threshold));
    let both = one.sketch.zip(other.sketch);
    let similarity = both.map(|(one, other)| one.resemblance(&other).similarity());
    Ok(counts.then_some(NearPair { documents, distance, similarity }))
}

/// Makes the judge of a thread.
type MakeJudge<'f, 'a> = &'f (dyn Fn() -> SpillJudge<'a> + Sync);

/// Runs the piece with a number.
type RunPiece<'f, 'a> = &'f (dyn Fn(usize, &mut SpillJudge<'a>) -> io::Result<()> + Sync);

/// Runs all pieces of a search on some threads, of which this is one.
fn run<'a>(
    pieces: usize,
    threads: usize,
    (judge, piece): (MakeJudge<'_, 'a>, RunPiece<'_, 'a>),
    watch: &(dyn Fn(u64) -> bool + Sync),
) -> io::Result<()> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let is_over = AtomicBool::new(false);
    let work = || {
        let mut judge = judge();
        while !is_over.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= pieces {
                return;
            }
            if let Err(error) = piece(number, &mut judge) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                is_over.store(true, Ordering::Relaxed);
            }
            if !watch(number as u64 + 1) {
                is_over.store(true, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

impl Index {
    /// Indexes all documents, ten million in about ten seconds. `watch` receives how many are in
    /// it, and says whether to go on. If not, the index is not complete.
    pub fn of(scanned: &Scanned, distance: Distance, watch: &dyn Fn(u64) -> bool) -> Self {
        let mut view = View::new(shape(distance));
        // The number of a namespace is as good as its name here, and never too long.
        let key = |number: usize| {
            let name = Namespace::new(number.to_string()).expect("digits are a name");
            (number > 0).then(|| NamespaceKey::of(&name, &SECRET))
        };
        let keys: Vec<Option<NamespaceKey>> = (0..scanned.all_namespaces.len()).map(key).collect();
        let mut documents = Vec::new();
        for document in 0..scanned.len() as u32 {
            if (document as usize).is_multiple_of(DELTA_EVENTS) {
                settle(&mut view, Load::Writing);
                if !watch(document.into()) {
                    break;
                }
            }
            let Some(fingerprint) = scanned.fingerprints.get(document) else {
                if documents.is_empty() {
                    documents.extend(0..document);
                }
                continue;
            };
            let namespace = scanned.namespaces.get(document as usize);
            let key = keys[namespace.map_or(0, |&number| number as usize)];
            view.put(fingerprint, Put { namespace: key, ..Put::default() });
            if !documents.is_empty() || view.sequence().get() != u64::from(document) + 1 {
                documents.push(document);
            }
        }
        view.rotate();
        settle(&mut view, Load::Idle);
        Self { view, documents, keys }
    }

    fn document(&self, change: Sequence) -> u32 {
        let at = change.get() - 1;
        self.documents.get(at as usize).copied().unwrap_or(at as u32)
    }
}

fn settle(view: &mut View, load: Load) {
    while let Some(work) = view.next_flush().or_else(|| view.next_merge(load)) {
        view.complete(work);
    }
}

/// Decides which pairs join, by their sketches, for one thread.
struct SpillJudge<'a> {
    index: &'a Index,
    scanned: &'a Scanned,
    /// `None` joins every pair.
    threshold: Option<MinResemblance>,
    kept: HashMap<(Fingerprint, NamespaceNumber), Arc<Compared>>,
}

impl<'a> SpillJudge<'a> {
    fn new(index: &'a Index, scanned: &'a Scanned, criteria: GroupingCriteria) -> Self {
        let threshold = criteria.min_resemblance.filter(|_| scanned.spill.is_some());
        Self { index, scanned, threshold, kept: HashMap::new() }
    }

    /// Whether the sketches of two documents agree. Reads them only if their samples do not refute
    /// the pair.
    fn confirms(&self, pair: [u32; 2]) -> io::Result<bool> {
        let (Some(threshold), Some(spill)) = (self.threshold, &self.scanned.spill) else {
            return Ok(false);
        };
        let [Some(one), Some(other)] = pair.map(|of| self.scanned.sample(of as usize)) else {
            return Ok(false);
        };
        if !one.may_reach(other, threshold) {
            return Ok(false);
        }
        let [one, other] = pair.map(|of| spill.get(of as usize));
        let (one, other) = (one?.sketch, other?.sketch);
        let found = Verification::between(one.as_ref(), other.as_ref(), Some(threshold));
        Ok(found.is_confirmed())
    }

    fn compared(
        &mut self,
        masked: Fingerprint,
        namespace: NamespaceNumber,
    ) -> io::Result<Arc<Compared>> {
        if let Some(kept) = self.kept.get(&(masked, namespace)) {
            return Ok(Arc::clone(kept));
        }
        if self.kept.len() >= KEPT {
            self.kept.clear();
        }
        let mut compared = Compared::default();
        let postings = self.index.view.documents_of(masked, of_namespace(namespace));
        let documents = postings.map(|posting| self.index.document(posting.sequence) as usize);
        let mut samples = HashSet::new();
        let of_each_sample = documents.filter(|&document| {
            self.scanned.sample(document).is_some_and(|sample| samples.insert(sample))
        });
        for document in of_each_sample.take(SKETCHES_COMPARED_MAX) {
            let Some(spill) = &self.scanned.spill else { break };
            let evidence = spill.get(document)?;
            let Some(sketch) = evidence.sketch else { continue };
            let is_first = compared.sketches.is_empty();
            compared.is_short = evidence.is_short && (is_first || compared.is_short);
            compared.sketches.push(sketch);
        }
        let compared = Arc::new(compared);
        self.kept.insert((masked, namespace), Arc::clone(&compared));
        Ok(compared)
    }
}

impl Judge for SpillJudge<'_> {
    type Error = io::Error;

    fn joins(&mut self, pair: &Pair) -> io::Result<bool> {
        let Some(threshold) = self.threshold else { return Ok(true) };
        let [one, other] = pair.masked;
        let one = self.compared(one, pair.namespace)?;
        let other = self.compared(other, pair.namespace)?;
        Ok(joins(&one, &other, pair.distance, threshold))
    }
}

impl LikelyJudge for SpillJudge<'_> {
    type Error = io::Error;

    fn margins(&mut self, document: Sequence) -> io::Result<Option<Margins>> {
        let document = self.index.document(document) as usize;
        if self.scanned.sample(document).is_none() {
            return Ok(None);
        }
        let evidence = self.scanned.spill.as_ref().map(|spill| spill.get(document)).transpose()?;
        Ok(evidence.and_then(|evidence| evidence.margins))
    }

    fn joins_likely(
        &mut self,
        document: Sequence,
        likely: Likely,
        namespace: NamespaceNumber,
    ) -> io::Result<bool> {
        let index = self.index;
        let document = index.document(document);
        for posting in index.view.documents_of(likely.fingerprint, of_namespace(namespace)) {
            let other = index.document(posting.sequence);
            if self.confirms([document, other])? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against sets that are collected by label, and sorted as a whole.
        #[test]
        fn groups_are_the_documents_of_a_label_largest_first(
            labels in prop::collection::vec(prop_oneof![0..40_u32, Just(ALONE)], 40..80),
        ) {
            let mut expected: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for (document, &label) in (0..).zip(&labels) {
                if label != ALONE {
                    expected.entry(label).or_default().push(document);
                }
            }
            let mut expected: Vec<Vec<u32>> =
                expected.into_values().filter(|group| group.len() > 1).collect();
            expected.sort_by_key(|group| (Reverse(group.len()), group[0]));
            let groups = DuplicateGroups::of(&labels);
            prop_assert_eq!(groups.len(), expected.len());
            prop_assert_eq!(groups.documents(), expected.concat());
            prop_assert_eq!(groups.iter().map(<[u32]>::to_vec).collect::<Vec<_>>(), expected);
        }
    }
}
