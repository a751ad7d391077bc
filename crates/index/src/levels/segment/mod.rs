//! A segment: an immutable level of the index.
//!
//! Its distinct fingerprints are sorted, in one of two forms depending on their count
//! ([`crate::levels::sorted`]). The *number* of a fingerprint is its position there; the
//! posting with the same number is its oldest document. The few fingerprints with more documents
//! have a group of later postings. A *document number* is the number of the fingerprint or, for a
//! later posting, the count of numbers plus the posting's index: the id index refers to these. A
//! small segment has all tables of its plan; those of a large one except the first are secondary
//! tables, see [`crate::view`].

mod build;
mod removals;
mod split;

pub use build::SegmentBuilder;
pub use removals::Removal;

use nearprint_fingerprint::Sample;
use removals::Removals;

use crate::document::Sequence;
use crate::id_key::IdKey;
use crate::labels::tables::{LabelTables, LabelTarget};
use crate::levels::ids::IdTable;
use crate::levels::posting::{Common, Posting, Postings};
use crate::levels::sorted::Sorted;
use crate::namespaces::NamespaceNumber;
use crate::permutation::Permuted;
use crate::tables::table::Number;

/// The largest number of later documents of a fingerprint whose samples are looked at in advance.
const SAMPLES_MAX: usize = 64;

/// An immutable level of the index.
#[derive(Debug)]
pub struct Segment {
    sorted: Sorted,
    oldest: Postings,
    /// By number.
    groups: Vec<NamespaceGroup>,
    later: Postings,
    ids: IdTable,
    labels: LabelTables,
    removals: Removals,
    /// By key.
    resets: Vec<ResetEntry>,
}

/// The later postings of a fingerprint with several documents: they end where the next group
/// starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NamespaceGroup {
    pub(crate) number: Number,
    pub(crate) start: u32,
    /// The number of its listed postings, including the oldest.
    pub(crate) listed: u32,
    /// Whether all of them are of one namespace and none expires.
    pub(crate) is_uniform: bool,
}

/// Every document of a fingerprint older than `sequence` is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResetEntry {
    /// The fingerprint.
    pub value: Permuted,
    /// The change that forgot it.
    pub sequence: Sequence,
}

/// The effect of one level on the documents of one fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostingTally {
    /// The reset that removed all older documents.
    pub reset: Option<Sequence>,
    /// Documents put minus documents removed, since the reset if there is one.
    pub documents: i64,
    /// The same difference for listed documents.
    pub listed: i64,
    /// The namespace of the documents put; [`NamespaceNumber::MIXED`] if there are several, or if
    /// some of the documents expire.
    pub namespace: NamespaceNumber,
}

impl Default for PostingTally {
    fn default() -> Self {
        Self { reset: None, documents: 0, listed: 0, namespace: NamespaceNumber::NONE }
    }
}

impl PostingTally {
    /// Combines it with the tally of a newer level.
    #[must_use]
    pub fn then(self, newer: Self) -> Self {
        match newer.reset {
            Some(_) => newer,
            None => Self {
                reset: self.reset,
                documents: self.documents + newer.documents,
                listed: self.listed + newer.listed,
                namespace: self.namespace.and(newer.namespace),
            },
        }
    }
}

/// Memory of a segment by part, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bytes {
    /// All tables of a small segment, the first table of a large one.
    pub tables: u64,
    pub postings: u64,
    pub ids: u64,
    /// Labels of texts.
    pub labels: u64,
    /// Removals and resets.
    pub removals: u64,
}

impl Bytes {
    pub fn total(self) -> u64 {
        self.tables + self.postings + self.ids + self.labels + self.removals
    }
}

impl Segment {
    /// Its effect on the documents of a fingerprint.
    pub fn tally(&self, value: Permuted) -> PostingTally {
        let mut tally = PostingTally::default();
        if let Some(number) = self.sorted.find(value) {
            let oldest = self.oldest.get(number as usize);
            (tally.documents, tally.listed) = (1, i64::from(oldest.is_listed));
            tally.namespace = oldest.group_namespace();
            if let Some(at) = self.group(number) {
                let group = self.groups[at];
                tally.documents += self.later_of(at).len() as i64;
                tally.listed = i64::from(group.listed);
                if !group.is_uniform {
                    tally.namespace = NamespaceNumber::MIXED;
                }
            }
        }
        for removal in self.removals_of(value) {
            tally.documents -= 1;
            tally.listed -= i64::from(removal.posting.is_listed);
        }
        tally.reset = self.reset_of(value);
        tally
    }

    /// The documents put under a fingerprint minus those removed, since the reset if there is one.
    pub(crate) fn count(&self, value: Permuted) -> PostingTally {
        let put = self.sorted.find(value).map_or(0, |number| {
            1 + self.group(number).map_or(0, |group| self.later_of(group).len() as i64)
        });
        let documents = put - self.removals_of(value).len() as i64;
        PostingTally { reset: self.reset_of(value), documents, ..PostingTally::default() }
    }

    /// The postings of a fingerprint from a change on, oldest first, those removed by newer levels
    /// included. Those before it are not visited.
    pub(crate) fn postings_from(
        &self,
        value: Permuted,
        first: Sequence,
    ) -> impl DoubleEndedIterator<Item = Posting> + '_ {
        let number = self.sorted.find(value);
        let oldest = number.map(|number| self.oldest.get(number as usize));
        let later = number.and_then(|number| self.group(number)).map_or(0..0, |group| {
            let range = self.later_of(group);
            self.first_later(range.clone(), first)..range.end
        });
        let oldest = oldest.filter(|posting| posting.sequence >= first);
        oldest.into_iter().chain(later.map(|at| self.later.get(at)))
    }

    /// Prefetches the data where look-ups of a fingerprint's documents and removals begin.
    pub(crate) fn prefetch_value(&self, value: Permuted) {
        self.sorted.prefetch_value(value);
        self.removals.prefetch_value(value);
    }

    /// Prefetches the data that the prefetched one leads to.
    pub(crate) fn locate_value(&self, value: Permuted) {
        self.sorted.locate_value(value);
        self.removals.locate_value(value);
    }

    /// The removals of a fingerprint's documents, by sequence of the document.
    pub fn removals_of(&self, value: Permuted) -> &[Removal] {
        self.removals.of(value)
    }

    /// The newest document that this level put under an id.
    pub fn find_id(&self, key: IdKey) -> Option<(Permuted, Posting)> {
        self.ids.get(key).map(|number| self.document(number))
    }

    /// The number of distinct fingerprints.
    pub fn fingerprints(&self) -> usize {
        self.sorted.len()
    }

    pub fn documents(&self) -> usize {
        self.fingerprints() + self.later.len()
    }

    /// The number of removals and resets.
    pub fn tombstones(&self) -> usize {
        self.removals.all().len() + self.resets.len()
    }

    pub fn sorted(&self) -> &Sorted {
        &self.sorted
    }

    /// The parts that all of its postings share; `None` without postings.
    pub(crate) fn common(&self) -> Option<Common> {
        let oldest = (!self.sorted.is_empty()).then(|| self.oldest.common())?;
        Some(if self.later.is_empty() { oldest } else { oldest.and(self.later.common()) })
    }

    /// Whether it may have a document that was stored by a change or later.
    pub(crate) fn reaches(&self, first: Sequence) -> bool {
        first == Sequence::ZERO || self.common().is_some_and(|common| common.last >= first)
    }

    /// Memory in bytes, by part.
    pub fn bytes(&self) -> Bytes {
        Bytes {
            tables: self.sorted.bytes() as u64,
            postings: (self.oldest.bytes()
                + self.later.bytes()
                + self.groups.capacity() * size_of::<NamespaceGroup>())
                as u64,
            ids: self.ids.bytes() as u64,
            labels: self.labels.bytes() as u64,
            removals: (self.removals.bytes() + self.resets.capacity() * size_of::<ResetEntry>())
                as u64,
        }
    }

    /// The bytes in files.
    pub fn file_bytes(&self) -> u64 {
        self.sorted.file_bytes()
            + self.oldest.file_bytes()
            + self.later.file_bytes()
            + self.ids.file_bytes()
            + self.labels.file_bytes()
    }

    /// Whether its fingerprints are in temporary files.
    pub fn is_temporary(&self) -> bool {
        match &self.sorted {
            Sorted::Large(table) => table.is_temporary(),
            Sorted::Small(_) => false,
        }
    }

    /// Whether any part is in a file.
    pub fn is_in_files(&self) -> bool {
        self.file_bytes() > 0
    }

    /// The postings of a fingerprint's number, oldest first.
    pub(crate) fn postings_at(&self, number: Number) -> impl Iterator<Item = Posting> + '_ {
        let later = self.group(number).map_or(0..0, |group| self.later_of(group));
        std::iter::once(self.oldest.get(number as usize)).chain(later.map(|i| self.later.get(i)))
    }

    /// Prefetches what [`Self::may_have_sample`] reads.
    pub(crate) fn prefetch_sample(&self, number: Number) {
        self.oldest.prefetch_sample(number as usize);
    }

    /// Whether a document of a fingerprint's number may have a sample that is wanted: a quick test
    /// before [`Self::postings_at`], which says yes where there are too many to look at.
    pub(crate) fn may_have_sample(
        &self,
        number: Number,
        is_wanted: &impl Fn(Sample) -> bool,
    ) -> bool {
        is_wanted(self.oldest.sample(number as usize))
            || self.group(number).is_some_and(|group| {
                let later = self.later_of(group);
                later.len() > SAMPLES_MAX
                    || later.into_iter().any(|at| is_wanted(self.later.sample(at)))
            })
    }

    pub(crate) fn reset_of(&self, value: Permuted) -> Option<Sequence> {
        if self.resets.is_empty() {
            return None;
        }
        let order = self.sorted.order();
        let key = order.key(value);
        let at = self.resets.binary_search_by_key(&key, |reset| order.key(reset.value)).ok()?;
        Some(self.resets[at].sequence)
    }

    pub(crate) fn document(&self, number: u32) -> (Permuted, Posting) {
        match (number as usize).checked_sub(self.sorted.numbers()) {
            None => (self.sorted.value(number), self.oldest.get(number as usize)),
            Some(later) => {
                let group = self.groups.partition_point(|group| group.start as usize <= later) - 1;
                (self.sorted.value(self.groups[group].number), self.later.get(later))
            }
        }
    }

    pub(crate) fn ids(&self) -> &IdTable {
        &self.ids
    }

    pub(crate) fn labels(&self) -> &LabelTables {
        &self.labels
    }

    pub(crate) fn removals(&self) -> &[Removal] {
        self.removals.all()
    }

    pub(crate) fn resets(&self) -> &[ResetEntry] {
        &self.resets
    }

    /// The parts of an image other than the table, ids, removals and resets.
    pub(crate) fn postings_parts(&self) -> (&Postings, &[NamespaceGroup], &Postings) {
        (&self.oldest, &self.groups, &self.later)
    }

    /// The documents of a fingerprint's number, with their numbers, oldest first.
    pub(crate) fn documents_at(&self, number: Number) -> impl Iterator<Item = (u32, Posting)> + '_ {
        let later = self.group(number).map_or(0..0, |group| self.later_of(group));
        let later = later.map(|at| ((self.sorted.numbers() + at) as u32, self.later.get(at)));
        std::iter::once((number, self.oldest.get(number as usize))).chain(later)
    }

    /// The segment as rows of labels see it. Calls `of` with it.
    fn with_target<T>(&self, of: impl FnOnce(&LabelTarget<'_>) -> T) -> T {
        let value = |number| self.sorted.value(number);
        of(&LabelTarget { numbers: self.sorted.numbers(), value: &value })
    }

    /// The table of some ids, sorted by distinct keys, as far as it has their documents.
    fn numbered(&self, ids: impl IntoIterator<Item = (IdKey, Permuted, Sequence)>) -> IdTable {
        let numbered: Vec<(IdKey, u32)> = ids
            .into_iter()
            .filter_map(|(key, value, sequence)| Some((key, self.number_of(value, sequence)?)))
            .collect();
        IdTable::from_sorted(numbered.into_iter())
    }

    fn group(&self, number: Number) -> Option<usize> {
        self.groups.binary_search_by_key(&number, |group| group.number).ok()
    }

    fn later_of(&self, group: usize) -> std::ops::Range<usize> {
        let end = self.groups.get(group + 1).map_or(self.later.len(), |next| next.start as usize);
        self.groups[group].start as usize..end
    }

    /// The document that a change put under a fingerprint.
    pub(crate) fn put_by(&self, sequence: Sequence, value: Permuted) -> Option<Posting> {
        let Common { first, last, .. } = self.common()?;
        if sequence < first || last < sequence {
            return None;
        }
        self.number_of(value, sequence).map(|number| self.document(number).1)
    }

    fn number_of(&self, value: Permuted, sequence: Sequence) -> Option<u32> {
        let number = self.sorted.find(value)?;
        if self.oldest.get(number as usize).sequence == sequence {
            return Some(number);
        }
        let range = self.later_of(self.group(number)?);
        let at = self.first_later(range.clone(), sequence);
        (at < range.end && self.later.get(at).sequence == sequence)
            .then(|| (self.sorted.numbers() + at) as u32)
    }

    /// The first of the later postings of a group, which ascend by sequence, from a change on.
    fn first_later(&self, range: std::ops::Range<usize>, first: Sequence) -> usize {
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low.midpoint(high);
            if self.later.get(middle).sequence < first {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// The parts of an image; `None` where they do not fit each other. What is in files is not looked
/// at.
impl Segment {
    pub(crate) fn from_parts(
        sorted: Sorted,
        (oldest, groups, later): (Postings, Vec<NamespaceGroup>, Postings),
        (ids, labels): (IdTable, LabelTables),
        (removals, resets): (Vec<Removal>, Vec<ResetEntry>),
    ) -> Option<Self> {
        let order = sorted.order();
        let numbers = sorted.numbers();
        let in_order =
            |a: &NamespaceGroup, b: &NamespaceGroup| a.number < b.number && a.start < b.start;
        let within = |group: &NamespaceGroup| {
            (group.number as usize) < numbers && (group.start as usize) < later.len()
        };
        let sound = oldest.len() >= numbers
            && groups.iter().all(within)
            && groups.is_sorted_by(in_order)
            && groups.first().map_or(later.is_empty(), |group| group.start == 0)
            && (ids.is_in_file()
                || ids.iter().all(|(_, number)| (number as usize) < numbers + later.len()))
            && resets.is_sorted_by(|a, b| order.key(a.value) < order.key(b.value));
        let removals = Removals::of_sorted(order, removals)?;
        let segment = Self { sorted, oldest, groups, later, ids, labels, removals, resets };
        sound.then_some(segment)
    }
}

/// The combined effect of a level's changes to one fingerprint, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FingerprintRow {
    /// Documents put and not removed, oldest first.
    pub postings: Vec<Posting>,
    /// Documents of older levels that were removed, by sequence.
    pub removals: Vec<Posting>,
    /// The reset that removed everything older.
    pub reset: Option<Sequence>,
}

impl FingerprintRow {
    pub fn clear(&mut self) {
        self.postings.clear();
        self.removals.clear();
        self.reset = None;
    }

    pub fn put(&mut self, posting: Posting) {
        self.postings.push(posting);
    }

    /// Removes a document: one of the row, or one of an older level.
    pub fn remove(&mut self, posting: Posting) {
        if let Ok(at) = self.postings.binary_search_by_key(&posting.sequence, |p| p.sequence) {
            self.postings.remove(at);
        } else {
            let at = self.removals.partition_point(|p| p.sequence < posting.sequence);
            self.removals.insert(at, posting);
        }
    }

    /// Removes the fingerprint with all its documents.
    pub fn reset(&mut self, sequence: Sequence) {
        self.clear();
        self.reset = Some(sequence);
    }

    /// Drops removals and resets, since there are no older levels.
    pub fn forget_older(&mut self) {
        self.removals.clear();
        self.reset = None;
    }
}
