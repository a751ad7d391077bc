//! The groups of connected near-duplicates, from an index in memory.
//!
//! The index is a [`View`], the documents are its changes, and [`GroupingCriteria`] joins the
//! pairs: those of a service would be the same. Where an index of all documents does not fit,
//! [`divided`] searches one part of them after the other.

pub mod divided;

use std::io;

use nearprint_fingerprint::{Distance, Fingerprint, Sketch, Threshold, Verification};
use nearprint_index::compaction::policy::Load;
use nearprint_index::document::{Namespace, Sequence};
pub use nearprint_index::groups::GroupingCriteria;
use nearprint_index::groups::{
    DELTA_EVENTS, DividedSearch, Division, Evidence, EvidenceSource, Groups, settle, shape,
};
use nearprint_index::lookup::Lookup;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::namespaces::NamespaceNumber;
use nearprint_index::view::{Put, Shape, SimilarTo, View};
use nearprint_index::visibility::Visibility;

use crate::dedup::scan::Scanned;
use crate::dedup::spill::Spill;

/// The secret of namespaces. Nobody sees the answers of one process, so it needs none.
const SECRET: [u8; 16] = *b"nearprint dedup ";
/// The distance of two near-duplicates, unless the command line says otherwise.
pub const DISTANCE_DEFAULT: Distance = Distance::new(3).expect("at most 64");

/// Whether searches go beyond the distance.
fn is_likely(criteria: GroupingCriteria, scanned: &Scanned) -> bool {
    criteria.is_likely && criteria.threshold.is_some() && scanned.spill.is_some()
}

/// An error of the kind [`io::ErrorKind::Interrupted`] unless the search goes on.
fn going_on(goes_on: bool) -> io::Result<()> {
    if goes_on { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
}

/// The groups of at least two documents. The largest comes first; of the same size, the one with
/// the first document. 4 bytes of memory a document, and 16 a group.
pub type DuplicateGroups = Groups<u32>;

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
    /// done, and how many there are, and says whether to go on.
    ///
    /// # Errors
    /// The temporary file of sketches cannot be read, or [`io::ErrorKind::Interrupted`] if the
    /// search is not to go on.
    pub fn groups(
        &self,
        scanned: &Scanned,
        criteria: GroupingCriteria,
        watch: &(dyn Fn(u64, u64) -> bool + Sync),
    ) -> io::Result<DuplicateGroups> {
        let watch = |done, all| going_on(watch(done, all));
        let source = || SpilledEvidence { index: self, scanned };
        criteria.groups(&self.view, source, watch, |member| self.document(member.sequence))
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

    /// The pairs of similar texts beyond the distance, each with its first document first, sorted.
    /// 8 bytes each.
    fn likely_pairs(
        &self,
        scanned: &Scanned,
        criteria: GroupingCriteria,
    ) -> io::Result<Vec<[u32; 2]>> {
        let mut pairs = Vec::new();
        let (Some(spill), Some(threshold)) = (&scanned.spill, criteria.threshold) else {
            return Ok(pairs);
        };
        if !criteria.is_likely {
            return Ok(pairs);
        }
        for change in 1..=self.view.sequence().get() {
            let document = self.document(Sequence::new(change));
            let Some(masked) = self.masked(scanned, document) else { continue };
            let Some(sketch) = spill.get(document as usize)?.sketch else { continue };
            let (number, mask) = self.namespace(scanned, document);
            let visibility = Visibility { mask, ..of_namespace(number) };
            let text = (visibility.masked(masked), &sketch);
            let limits = (threshold, criteria.distance);
            for fingerprint in similar(&self.view, text, &visibility, limits) {
                for posting in self.view.documents_of(fingerprint, visibility) {
                    let other = self.document(posting.sequence);
                    let stored = spill.get(other as usize)?.sketch;
                    if stored.is_some_and(|stored| are_similar(&sketch, &stored, threshold)) {
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
        let key = self.keys[scanned.namespace(document) as usize];
        let known = key.and_then(|key| self.view.namespaces().get(key.key));
        (
            known.map_or(NamespaceNumber::DEFAULT, |entry| entry.number),
            key.map_or(0, |key| key.mask),
        )
    }
}

/// The fingerprints beyond a distance that may be similar to a text, nearest first.
pub(super) fn similar(
    view: &View,
    (fingerprint, sketch): (Fingerprint, &Sketch),
    visibility: &Visibility,
    (threshold, beyond): (Threshold, Distance),
) -> Vec<Fingerprint> {
    let text = SimilarTo { fingerprint, sketch, threshold: threshold.resemblance, beyond };
    let (near, _) = view.similar(text, visibility, &mut |_| true);
    near.into_iter().map(|near| near.fingerprint).collect()
}

/// Whether two texts that share a label agree.
pub(super) fn are_similar(one: &Sketch, other: &Sketch, threshold: Threshold) -> bool {
    let found = Verification::between(Some(one), Some(other), Some(threshold));
    one.shares_label(other) && found.is_confirmed()
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
    let pair = [&spill.get(one as usize)?, &spill.get(other as usize)?];
    let counts = counts(pair, distance, criteria.threshold);
    let [one, other] = pair;
    let similarity = similarity(one, other);
    Ok(counts.then_some(NearPair { documents, distance, similarity }))
}

/// Whether two documents at this distance are near-duplicates. Equal fingerprints always are.
pub(super) fn counts(
    [one, other]: [&Evidence; 2],
    distance: Distance,
    threshold: Option<Threshold>,
) -> bool {
    let found = Verification::between(one.sketch.as_ref(), other.sketch.as_ref(), threshold);
    let is_short = one.is_short && other.is_short;
    threshold.is_none() || distance.get() == 0 || found.counts(distance, is_short)
}

/// The similarity of two texts, 0 to 1, if both have sketches.
pub(super) fn similarity(one: &Evidence, other: &Evidence) -> Option<f64> {
    let (one, other) = one.sketch.as_ref().zip(other.sketch.as_ref())?;
    Some(one.resemblance(other).similarity())
}

impl Index {
    /// Indexes all documents, ten million fingerprints in about ten seconds. `watch` receives how
    /// many are in it, and says whether to go on. If not, the index is not complete.
    ///
    /// # Errors
    /// The temporary file of sketches cannot be read.
    pub fn of(
        scanned: &Scanned,
        criteria: GroupingCriteria,
        watch: &dyn Fn(u64) -> bool,
    ) -> io::Result<Self> {
        let shape = shape(criteria.distance, is_likely(criteria, scanned));
        let has_sketches = criteria.threshold.is_some();
        Self::of_some(scanned, (shape, has_sketches), 0..scanned.len() as u32, watch)
    }

    /// Indexes some documents, in ascending order, with their sketches if these are compared.
    fn of_some(
        scanned: &Scanned,
        (shape, has_sketches): (Shape, bool),
        some: impl Iterator<Item = u32>,
        watch: &dyn Fn(u64) -> bool,
    ) -> io::Result<Self> {
        let mut view = View::new(shape);
        // The number of a namespace is as good as its name here, and never too long.
        let key = |number: usize| {
            let name = Namespace::new(number.to_string()).expect("digits are a name");
            (number > 0).then(|| NamespaceKey::of(&name, &SECRET))
        };
        let keys: Vec<Option<NamespaceKey>> = (0..scanned.all_namespaces.len()).map(key).collect();
        let mut documents = Vec::new();
        let spill = scanned.spill.as_ref().filter(|_| has_sketches);
        let mut sketches = spill.map(Spill::sketches);
        for (at, document) in some.enumerate() {
            if at.is_multiple_of(DELTA_EVENTS) {
                settle(&mut view, Load::Writing);
                if !watch(at as u64) {
                    break;
                }
            }
            let Some(fingerprint) = scanned.fingerprints.get(document) else { continue };
            let sketch = sketches.as_mut().map(|sketches| sketches.get(document)).transpose()?;
            let key = keys[scanned.namespace(document) as usize];
            let changes = view.sequence().get();
            if documents.is_empty() && changes != u64::from(document) {
                documents.extend(0..changes as u32);
                documents.push(document);
            } else if !documents.is_empty() {
                documents.push(document);
            }
            let sketch = sketch.flatten().map(Box::new);
            view.put(fingerprint, Put { namespace: key, sketch, ..Put::default() });
        }
        view.rotate();
        settle(&mut view, Load::Idle);
        Ok(Self { view, documents, keys })
    }

    /// Joins the groups of near-duplicates among the documents of a part. `watch` as for
    /// [`Self::groups`].
    ///
    /// # Errors
    /// As for [`Self::groups`].
    fn join_groups(
        &self,
        scanned: &Scanned,
        (division, search): (Division, &mut DividedSearch),
        watch: &(dyn Fn(u64, u64) -> bool + Sync),
    ) -> io::Result<()> {
        let source = || SpilledEvidence { index: self, scanned };
        let watch = |done, all| going_on(watch(done, all));
        search.search((division, &self.view), source, watch, |change| self.document(change))
    }

    fn document(&self, change: Sequence) -> u32 {
        let at = change.get() - 1;
        self.documents.get(at as usize).copied().unwrap_or(at as u32)
    }
}

/// The sketches in the temporary file.
struct SpilledEvidence<'a> {
    index: &'a Index,
    scanned: &'a Scanned,
}

impl EvidenceSource for SpilledEvidence<'_> {
    type Error = io::Error;

    fn evidence(&mut self, document: Sequence) -> io::Result<Evidence> {
        let document = self.index.document(document) as usize;
        match &self.scanned.spill {
            Some(spill) => spill.get(document),
            None => Ok(Evidence::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use std::sync::atomic::Ordering;

    use nearprint_text::Method;

    use super::*;
    use crate::dedup::scan::{Silent, Wishes};
    use crate::{Documents, ReadOptions};

    /// The texts of some lines, scanned.
    pub(super) fn scanned(lines: &str) -> Scanned {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lines");
        std::fs::write(&path, lines).unwrap();
        let wishes = Wishes {
            method: Method::default(),
            sketches: true,
            names: false,
            metadata: false,
            score: None,
            threads: 1,
            stops_at_errors: false,
            memory_max: u64::MAX,
            document_bytes: 0,
        };
        let mut documents = Documents::new(vec![path], ReadOptions::from(crate::Format::Lines));
        Scanned::of(&mut documents, &wishes, &mut Silent).unwrap()
    }

    /// How many sketches are read to group so many short texts that differ in their number alone.
    fn sketches_read(texts: usize) -> u64 {
        let line = |number| format!("short text number {number} of a page\n");
        let scanned = scanned(&(0..texts).map(line).collect::<String>());
        assert_eq!(scanned.len(), texts);
        let criteria = GroupingCriteria {
            distance: DISTANCE_DEFAULT,
            threshold: Threshold::of_similarity(0.83),
            is_likely: true,
            threads: 1,
        };
        let index = Index::of(&scanned, criteria, &|_| true).unwrap();
        index.groups(&scanned, criteria, &|_, _| true).unwrap();
        scanned.spill.as_ref().unwrap().asked.load(Ordering::Relaxed)
    }

    #[test]
    fn many_short_texts_that_are_alike_are_grouped_by_work_in_proportion() {
        for texts in [2_500, 10_000] {
            let read = sketches_read(texts);
            assert!(read <= 4 * texts as u64, "{read} sketches for {texts} texts");
        }
    }
}
