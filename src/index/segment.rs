//! A segment: an immutable level of the index, as sorted tables.
//!
//! All tables hold the same distinct fingerprints. The order of the first table numbers them: the
//! *rank* of a fingerprint. Per rank there is the oldest posting (6 bytes); the few fingerprints
//! with more documents have a group of later postings aside. A *document number* is a rank, or,
//! for a later posting, the number of ranks plus its place: the id index points to these.

use crate::document::Sequence;
use crate::fingerprint::Distance;
use crate::index::array::Filling;
use crate::index::ids::{IdKey, IdTable};
use crate::index::permutation::Permuted;
use crate::index::plan::{Plan, TablePlan};
use crate::index::posting::{PackedPosting, Posting, Postings};
use crate::index::table::{Bucket, Table};

/// An immutable level of the index.
#[derive(Debug)]
pub struct Segment {
    plan: Plan,
    tables: Vec<Table>,
    oldest: Postings,
    groups: Vec<Group>,
    later: Postings,
    ids: IdTable,
    removals: Vec<Removal>,
    resets: Vec<Reset>,
}

/// The later postings of a fingerprint with several documents; they end where the next group
/// starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) rank: u32,
    pub(crate) start: u32,
    /// How many of all its postings, the oldest included, have an id.
    pub(crate) with_id: u32,
}

/// A document of an older level is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Removal {
    /// Its fingerprint.
    pub value: Permuted,
    /// The document.
    pub posting: Posting,
}

/// Every document of a fingerprint older than `sequence` is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reset {
    /// The fingerprint.
    pub value: Permuted,
    /// The change that forgot it.
    pub sequence: Sequence,
}

/// What one level says about the documents of one fingerprint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// It forgot all that was older.
    pub reset: Option<Sequence>,
    /// Documents put less documents removed, since the reset if there is one.
    pub documents: i64,
    /// The same of documents with an id.
    pub with_id: i64,
}

impl Tally {
    /// Adds what a newer level says.
    #[must_use]
    pub fn then(self, newer: Self) -> Self {
        match newer.reset {
            Some(_) => newer,
            None => Self {
                reset: self.reset,
                documents: self.documents + newer.documents,
                with_id: self.with_id + newer.with_id,
            },
        }
    }
}

/// Memory of a segment by part, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bytes {
    /// Tables.
    pub tables: u64,
    /// Postings.
    pub postings: u64,
    /// The id index.
    pub ids: u64,
    /// Removals and resets.
    pub removals: u64,
}

impl Bytes {
    /// All parts together.
    pub fn total(self) -> u64 {
        self.tables + self.postings + self.ids + self.removals
    }
}

impl Segment {
    /// Finds, for each of a few queries, every fingerprint within `distance`, each once: `found`
    /// gets the query's place and the fingerprint.
    ///
    /// In three steps over all queries and tables (find the buckets, load them, compare), since a
    /// look-up costs cache misses and these overlap within a step.
    pub fn near(
        &self,
        queries: &[Permuted],
        distance: Distance,
        buckets: &mut Vec<Bucket>,
        found: &mut impl FnMut(usize, Permuted),
    ) {
        let visits: Vec<Visit<'_>> = self.visits(distance);
        buckets.clear();
        for &query in queries {
            for visit in &visits {
                visit.table.buckets(query, visit.radius, buckets);
            }
        }
        let mut loaded = 0;
        let mut next = buckets.iter();
        for _ in queries {
            for visit in &visits {
                loaded ^= visit.table.load(next.by_ref().take(visit.probes));
            }
        }
        std::hint::black_box(loaded);
        let mut next = buckets.iter();
        for (place, &query) in queries.iter().enumerate() {
            for (i, visit) in visits.iter().enumerate() {
                for &bucket in next.by_ref().take(visit.probes) {
                    visit.table.compare(bucket, query, u32::from(distance.get()), &mut |value| {
                        if !visits[..i].iter().any(|earlier| earlier.meets(query, value)) {
                            found(place, value);
                        }
                    });
                }
            }
        }
    }

    /// What it says about the documents of a fingerprint.
    pub fn tally(&self, value: Permuted) -> Tally {
        let mut tally = Tally::default();
        if let Some(rank) = self.tables[0].rank(value) {
            let group = self.group(rank);
            tally.documents = 1 + group.map_or(0, |group| self.later_of(group).len() as i64);
            tally.with_id = group.map_or_else(
                || i64::from(self.oldest.get(rank as usize).has_id),
                |group| i64::from(self.groups[group].with_id),
            );
        }
        for removal in self.removals_of(value) {
            tally.documents -= 1;
            tally.with_id -= i64::from(removal.posting.has_id);
        }
        tally.reset = self.reset_of(value);
        tally
    }

    /// The postings of a fingerprint, oldest first, those removed by newer levels included.
    pub fn postings(&self, value: Permuted) -> impl Iterator<Item = Posting> + '_ {
        self.tables[0].rank(value).into_iter().flat_map(|rank| self.postings_at(rank))
    }

    /// The removals of a fingerprint's documents, by sequence of the document.
    pub fn removals_of(&self, value: Permuted) -> &[Removal] {
        let start = self.removals.partition_point(|removal| removal.value < value);
        let count = self.removals[start..].partition_point(|removal| removal.value == value);
        &self.removals[start..start + count]
    }

    /// The newest document that this level put under an id.
    pub fn find_id(&self, key: IdKey) -> Option<(Permuted, Posting)> {
        self.ids.get(key).map(|number| self.document(number))
    }

    /// How many distinct fingerprints it has.
    pub fn fingerprints(&self) -> usize {
        self.oldest.len()
    }

    /// How many documents it has.
    pub fn documents(&self) -> usize {
        self.oldest.len() + self.later.len()
    }

    /// How many removals and resets it carries.
    pub fn hiding(&self) -> usize {
        self.removals.len() + self.resets.len()
    }

    /// Its table plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Its memory.
    pub fn bytes(&self) -> Bytes {
        Bytes {
            tables: self.tables.iter().map(|table| table.bytes() as u64).sum(),
            postings: (self.oldest.bytes()
                + self.later.bytes()
                + self.groups.capacity() * size_of::<Group>()) as u64,
            ids: self.ids.bytes() as u64,
            removals: (self.removals.capacity() * size_of::<Removal>()
                + self.resets.capacity() * size_of::<Reset>()) as u64,
        }
    }

    /// The fingerprint of a rank.
    pub(crate) fn value(&self, rank: u32) -> Permuted {
        self.tables[0].entries()[rank as usize]
    }

    /// The postings of a rank, oldest first.
    pub(crate) fn postings_at(&self, rank: u32) -> impl Iterator<Item = Posting> + '_ {
        let later = self.group(rank).map_or(0..0, |group| self.later_of(group));
        std::iter::once(self.oldest.get(rank as usize)).chain(later.map(|i| self.later.get(i)))
    }

    pub(crate) fn reset_of(&self, value: Permuted) -> Option<Sequence> {
        let at = self.resets.binary_search_by_key(&value, |reset| reset.value).ok()?;
        Some(self.resets[at].sequence)
    }

    /// The document with a number.
    pub(crate) fn document(&self, number: u32) -> (Permuted, Posting) {
        let ranks = self.oldest.len();
        match (number as usize).checked_sub(ranks) {
            None => (self.value(number), self.oldest.get(number as usize)),
            Some(later) => {
                let group = self.groups.partition_point(|group| group.start as usize <= later) - 1;
                (self.value(self.groups[group].rank), self.later.get(later))
            }
        }
    }

    pub(crate) fn ids(&self) -> &IdTable {
        &self.ids
    }

    pub(crate) fn removals(&self) -> &[Removal] {
        &self.removals
    }

    pub(crate) fn resets(&self) -> &[Reset] {
        &self.resets
    }

    /// The parts that an image keeps: all but what is built from them.
    pub(crate) fn parts(&self) -> (&[u64], &Postings, &[Group], &Postings) {
        (self.tables[0].entries(), &self.oldest, &self.groups, &self.later)
    }

    fn visits(&self, distance: Distance) -> Vec<Visit<'_>> {
        let tables = self.tables.iter().zip(self.plan.radii(distance));
        let visited = tables.filter_map(|(table, radius)| Some((table, radius?)));
        visited
            .map(|(table, radius)| Visit { table, radius, probes: table.probes(radius) })
            .collect()
    }

    fn group(&self, rank: u32) -> Option<usize> {
        self.groups.binary_search_by_key(&rank, |group| group.rank).ok()
    }

    fn later_of(&self, group: usize) -> std::ops::Range<usize> {
        let end = self.groups.get(group + 1).map_or(self.later.len(), |next| next.start as usize);
        self.groups[group].start as usize..end
    }

    fn number_of(&self, value: Permuted, sequence: Sequence) -> Option<u32> {
        let rank = self.tables[0].rank(value)?;
        if self.oldest.get(rank as usize).sequence == sequence {
            return Some(rank);
        }
        // Later postings ascend by sequence.
        let range = self.later_of(self.group(rank)?);
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low.midpoint(high);
            if self.later.get(middle).sequence < sequence {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low < range.end && self.later.get(low).sequence == sequence)
            .then(|| (self.oldest.len() + low) as u32)
    }
}

/// A table in a look-up.
struct Visit<'a> {
    table: &'a Table,
    radius: u32,
    probes: usize,
}

impl Visit<'_> {
    fn meets(&self, query: Permuted, value: Permuted) -> bool {
        meets(self.table.plan(), Some(self.radius), query, value)
    }
}

/// Whether `value` lies in a bucket that a look-up of `query` visits in the table.
pub(crate) fn meets(
    plan: TablePlan,
    radius: Option<u32>,
    query: Permuted,
    value: Permuted,
) -> bool {
    radius.is_some_and(|radius| ((query ^ value) & plan.mask()).count_ones() <= radius)
}

/// Fingerprints in the order of the first table, oldest postings, groups, later postings.
pub(crate) type Parts = (Filling<u64>, Filling<PackedPosting>, Vec<Group>, Vec<PackedPosting>);

/// Takes the rows of a new segment in ascending order of fingerprint.
#[derive(Debug, Default)]
pub struct Builder {
    values: Filling<Permuted>,
    oldest: Filling<PackedPosting>,
    groups: Vec<Group>,
    later: Vec<PackedPosting>,
    removals: Vec<Removal>,
    resets: Vec<Reset>,
}

impl Builder {
    /// A builder with room for `fingerprints`.
    pub fn with_capacity(fingerprints: usize) -> Self {
        Self {
            values: Filling::with_capacity(fingerprints),
            oldest: Filling::with_capacity(fingerprints),
            ..Self::default()
        }
    }

    /// Adds what the level says about the next larger fingerprint.
    pub fn push(&mut self, value: Permuted, row: &Row) {
        debug_assert!(self.values.last().is_none_or(|&last| last < value), "values ascend");
        if let Some((&oldest, later)) = row.postings.split_first() {
            if !later.is_empty() {
                let with_id = row.postings.iter().filter(|posting| posting.has_id).count() as u32;
                let (rank, start) = (self.values.len() as u32, self.later.len() as u32);
                self.groups.push(Group { rank, start, with_id });
                self.later.extend(later.iter().map(|posting| posting.pack()));
            }
            self.values.push(value);
            self.oldest.push(oldest.pack());
        }
        self.removals.extend(row.removals.iter().map(|&posting| Removal { value, posting }));
        self.resets.extend(row.reset.map(|sequence| Reset { value, sequence }));
    }

    /// Builds the tables. `ids` are sorted by key, no key twice; those whose document is not among
    /// the rows are dropped.
    pub fn finish(
        self,
        distance_max: Distance,
        ids: impl IntoIterator<Item = (IdKey, Permuted, Sequence)>,
    ) -> Segment {
        let plan = Plan::choose(self.values.len() as u64, distance_max);
        let (first, others) = plan.tables().split_first().expect("a plan has a table");
        let mut tables: Vec<Table> =
            others.iter().map(|&table| Table::build(table, &self.values)).collect();
        tables.insert(0, Table::build_first(*first, self.values.finish()));
        let mut segment = Segment {
            plan,
            tables,
            oldest: Postings::from_packed(self.oldest.finish()),
            groups: self.groups,
            later: Postings::pack(&self.later),
            ids: IdTable::default(),
            removals: self.removals,
            resets: self.resets,
        };
        let numbered: Vec<(IdKey, u32)> = ids
            .into_iter()
            .filter_map(|(key, value, sequence)| Some((key, segment.number_of(value, sequence)?)))
            .collect();
        segment.ids = IdTable::from_sorted(numbered.into_iter());
        segment
    }

    /// Puts back the parts of an image (see [`crate::index::image`]).
    pub(crate) fn from_parts(
        (values, oldest, groups, later): Parts,
        removals: Vec<Removal>,
        resets: Vec<Reset>,
    ) -> Self {
        Self { values, oldest, groups, later, removals, resets }
    }
}

/// What a level says about one fingerprint: the result of its changes in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// Documents put and not removed, oldest first.
    pub postings: Vec<Posting>,
    /// Documents of older levels that were removed, by sequence.
    pub removals: Vec<Posting>,
    /// Everything older was forgotten.
    pub reset: Option<Sequence>,
}

impl Row {
    /// Forgets what it said.
    pub fn clear(&mut self) {
        self.postings.clear();
        self.removals.clear();
        self.reset = None;
    }

    /// A document was put.
    pub fn put(&mut self, posting: Posting) {
        self.postings.push(posting);
    }

    /// A document was removed: one of these, or one of an older level.
    pub fn remove(&mut self, posting: Posting) {
        if let Ok(at) = self.postings.binary_search_by_key(&posting.sequence, |p| p.sequence) {
            self.postings.remove(at);
        } else {
            let at = self.removals.partition_point(|p| p.sequence < posting.sequence);
            self.removals.insert(at, posting);
        }
    }

    /// The fingerprint was forgotten with all its documents.
    pub fn reset(&mut self, sequence: Sequence) {
        self.clear();
        self.reset = Some(sequence);
    }
}
