//! A look-up: which lines to visit, in all tables, then what is near in them.
//!
//! Its cost is cache misses, so all lines of a query are known, and under way, before the first is
//! read. Three steps, each of which loads what the next one reads: *expect* (directories of small
//! segments, heads of the chains of deltas), *locate* (lines, buckets, nodes), *compare*. In a batch
//! the next queries are located, and those behind them expected, before the last ones are compared.

use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::fingerprint::Distance;
use crate::index::buckets::Buckets;
use crate::index::levels::delta::{Delta, DeltaAt};
use crate::index::levels::segment::Segment;
use crate::index::levels::sorted::Sorted;
use crate::index::permutation::Permuted;
use crate::index::plan::{Plan, Radii};
use crate::index::tables::secondary::SecondaryTable;
use crate::index::tables::table::Table;

/// How many queries' lines are loaded together: enough to keep the memory busy, few enough that
/// they stay in the first cache until they are read.
const QUERIES_AHEAD: usize = 4;

/// Room for the visits of a look-up at distance 3 in a few segments, taken at once.
const VISITS: usize = 256;

/// For how many fingerprints a thread keeps room between look-ups; that of a giant group it gives back.
pub const VALUES_KEPT: usize = 1_024;

thread_local! {
    /// What a single look-up needs beside the view, made once a thread: to allocate it took a fifth of
    /// the look-up.
    pub static BUFFERS: RefCell<(Lookup, Vec<Permuted>)> = RefCell::default();
}

/// The levels of a view: all that a look-up visits.
#[derive(Debug, Clone, Copy)]
pub struct Levels<'a> {
    /// Oldest first.
    pub segments: &'a [Arc<Segment>],
    /// The tables of large segments that those do not have themselves.
    pub secondary_tables: &'a [SecondaryTable],
    /// Oldest first; the last one is appended to.
    pub deltas: &'a [Arc<Delta>],
    /// How many events of the last delta the view has.
    pub live_length: u32,
}

impl<'a> Levels<'a> {
    /// All deltas as the view sees them, oldest first.
    #[inline]
    pub fn deltas(self) -> impl DoubleEndedIterator<Item = DeltaAt<'a>> {
        let last = self.deltas.len() - 1;
        self.deltas
            .iter()
            .enumerate()
            .map(move |(i, delta)| delta.at(if i == last { self.live_length } else { u32::MAX }))
    }
}

/// How far a look-up searches in which tables.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    /// For each role of the tables of large segments.
    large: Radii,
    /// The largest distance of a hit.
    pub distance: Distance,
}

/// What a look-up visits.
enum Visited<'a> {
    /// All tables of a small segment.
    Buckets(&'a Buckets, Distance),
    /// A table of large segments.
    Table(&'a Table, u32),
    /// The newest changes.
    Delta(DeltaAt<'a>, Distance),
}

impl Reach {
    /// The reach of a look-up at a distance, where large segments have the tables of `plan`.
    pub fn of(plan: &Plan, distance: Distance) -> Self {
        Self { large: *plan.radii(distance), distance }
    }

    /// Gathers what to visit, and how far to search each.
    fn gather<'a>(self, levels: Levels<'a>, all: &mut AllVisited<'a>) {
        all.reserve(levels.segments.len() + levels.secondary_tables.len() + levels.deltas.len());
        let large = |table| Some(Visited::Table(table, self.large[Table::role(table)]?));
        for segment in levels.segments {
            match segment.sorted() {
                Sorted::Small(buckets) => all.push(Visited::Buckets(buckets, self.distance)),
                Sorted::Large(table) => all.extend(large(table)),
            }
        }
        for other in levels.secondary_tables {
            all.extend(large(&other.table));
        }
        for delta in levels.deltas().filter(|delta| delta.length() > 0) {
            all.push(Visited::Delta(delta, self.distance));
        }
    }
}

/// All that a look-up visits, gathered once for all queries that are answered together. More than these
/// take an allocation.
type AllVisited<'a> = SmallVec<[Visited<'a>; 8]>;

fn prefetch(all: &[Visited<'_>], queries: &[Permuted]) {
    for visited in all {
        for &query in queries {
            visited.prefetch(query);
        }
    }
}

impl Visited<'_> {
    fn prefetch(&self, query: Permuted) {
        match *self {
            Self::Buckets(buckets, _) => buckets.prefetch(query),
            Self::Table(..) => {}
            Self::Delta(delta, distance) => delta.prefetch(query, distance),
        }
    }

    fn locate(&self, query: Permuted, visits: &mut Vec<u32>) {
        match *self {
            Self::Buckets(buckets, distance) => buckets.locate(query, distance, visits),
            Self::Table(table, radius) => table.locate(query, radius, visits),
            Self::Delta(delta, distance) => delta.locate(query, distance),
        }
    }

    fn compare(
        &self,
        query: Permuted,
        within: u32,
        visits: &[u32],
        found: &mut impl FnMut(Permuted),
    ) {
        match *self {
            Self::Buckets(buckets, distance) => buckets.compare(query, distance, visits, found),
            Self::Table(table, radius) => {
                table.compare((query, radius), within, visits, found);
            }
            Self::Delta(delta, distance) => delta.near(query, distance, found),
        }
    }
}

/// The buffers of look-ups.
#[derive(Debug, Default)]
pub struct Lookup {
    next: Group,
    now: Group,
}

/// The lines and buckets of a few queries.
#[derive(Debug)]
struct Group {
    visits: Vec<u32>,
    /// For each query and what is [`Visited`], where its visits end.
    ends: Vec<usize>,
}

impl Lookup {
    /// Calls `found` with the place of each query and every fingerprint near it; it may come more
    /// than once, and may be one whose documents are gone.
    pub fn run(
        &mut self,
        levels: Levels<'_>,
        reach: Reach,
        queries: &[Permuted],
        found: &mut impl FnMut(usize, Permuted),
    ) {
        let mut all = AllVisited::new();
        reach.gather(levels, &mut all);
        let all = &*all;
        let mut expected = queries.chunks(QUERIES_AHEAD);
        let mut located = expected.clone();
        prefetch(all, expected.next().unwrap_or_default());
        self.next.locate(all, located.next().unwrap_or_default());
        prefetch(all, expected.next().unwrap_or_default());
        for (i, queries) in queries.chunks(QUERIES_AHEAD).enumerate() {
            std::mem::swap(&mut self.now, &mut self.next);
            self.next.locate(all, located.next().unwrap_or_default());
            prefetch(all, expected.next().unwrap_or_default());
            let first = i * QUERIES_AHEAD;
            let mut found = |at, value| found(first + at, value);
            self.now.compare(all, reach.distance, queries, &mut found);
        }
    }
}

impl Default for Group {
    fn default() -> Self {
        Self { visits: Vec::with_capacity(VISITS), ends: Vec::with_capacity(VISITS) }
    }
}

impl Group {
    fn locate(&mut self, all: &[Visited<'_>], queries: &[Permuted]) {
        self.visits.clear();
        self.ends.clear();
        for &query in queries {
            for visited in all {
                visited.locate(query, &mut self.visits);
                self.ends.push(self.visits.len());
            }
        }
    }

    fn compare(
        &self,
        all: &[Visited<'_>],
        distance: Distance,
        queries: &[Permuted],
        found: &mut impl FnMut(usize, Permuted),
    ) {
        let distance = u32::from(distance.get());
        let (mut from, mut ends) = (0, self.ends.iter());
        for (at, &query) in queries.iter().enumerate() {
            for (visited, &end) in all.iter().zip(ends.by_ref()) {
                let visits = &self.visits[from..end];
                visited.compare(query, distance, visits, &mut |value| found(at, value));
                from = end;
            }
        }
    }
}
