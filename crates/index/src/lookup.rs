//! A look-up: first the lines to visit in all tables, then the fingerprints near the query in them.
//!
//! Its cost is cache misses, so the addresses of all lines of a query are computed and prefetched
//! before the first line is read. Each of the four steps prefetches what the next one reads:
//! *prefetch* (directories of segments, heads of the chains of deltas), *locate* (lines, buckets,
//! nodes), *scan* (what is left of the heads of near entries in tables), *compare*. In a batch, the
//! next queries are located, and the ones after them prefetched, before the current ones are
//! scanned and compared.

use std::cell::RefCell;
use std::sync::Arc;

use nearprint_fingerprint::Distance;
use smallvec::SmallVec;

use crate::buckets::Buckets;
use crate::kernel::scan::{Candidate, CellRun};
use crate::levels::delta::{Delta, DeltaAt};
use crate::levels::segment::Segment;
use crate::levels::sorted::Sorted;
use crate::permutation::Permuted;
use crate::plan::{Plan, Radii};
use crate::tables::secondary::SecondaryTable;
use crate::tables::table::Table;

/// Queries whose lines are in flight together: enough to keep the memory busy, few enough that the
/// lines stay in the first-level cache until they are read.
const QUERIES_AHEAD: usize = 4;

/// The same where lines are in files, of which the disk reads many at a time.
const QUERIES_AHEAD_IN_FILES: usize = 64;

/// Initial capacity for visits: a look-up at distance 3 in a few segments.
const VISITS: usize = 256;

/// The largest number of fingerprints that a look-up gives, the nearest ones: the documents of each
/// cost a few cache misses, all of them about five milliseconds.
pub(crate) const NEAR_MAX: usize = 1 << 14;

/// Fingerprints that a look-up collects before it drops repeated ones, and all but the nearest.
pub(crate) const COLLECTED_MAX: usize = 4 * NEAR_MAX;

/// Fingerprints for which a thread keeps its buffer between look-ups. After a match with a giant
/// group the buffer is freed.
pub(crate) const VALUES_KEPT: usize = 1_024;

thread_local! {
    /// The buffers of a single look-up, one set a thread: allocating them took a fifth of the
    /// look-up.
    pub static BUFFERS: RefCell<(Lookup, Vec<Permuted>)> = RefCell::default();
}

/// The levels of a view: all that a look-up visits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Levels<'a> {
    /// Oldest first.
    pub segments: &'a [Arc<Segment>],
    /// The secondary tables, by role, oldest first.
    pub secondary_tables: &'a [SecondaryTable],
    /// Oldest first; the last one is appended to.
    pub deltas: &'a [Arc<Delta>],
    /// The number of events of the last delta that the view sees.
    pub live_length: u32,
}

impl<'a> Levels<'a> {
    /// All deltas as the view sees them, oldest first.
    #[inline]
    pub(crate) fn deltas(self) -> impl DoubleEndedIterator<Item = DeltaAt<'a>> {
        let last = self.deltas.len() - 1;
        self.deltas
            .iter()
            .enumerate()
            .map(move |(i, delta)| delta.at(if i == last { self.live_length } else { u32::MAX }))
    }
}

/// The radius of a look-up in each table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SearchRadius {
    /// For each role of a table of large segments.
    large: Radii,
    /// The largest distance of a hit.
    pub distance: Distance,
}

/// One part of a level that a look-up visits.
enum Visited<'a> {
    /// All tables of a small segment.
    Buckets(&'a Buckets, Distance),
    /// One table of a large segment.
    Table(&'a Table, u32),
    /// The newest changes.
    Delta(DeltaAt<'a>, Distance),
}

impl SearchRadius {
    /// The reach of a look-up at a distance, where large segments have the tables of `plan`.
    pub(crate) fn of(plan: &Plan, distance: Distance) -> Self {
        Self { large: *plan.radii(distance), distance }
    }

    /// The number of cells and buckets that a look-up visits.
    pub(crate) fn cells(self, levels: Levels<'_>) -> usize {
        let mut all = AllVisited::new();
        self.gather(levels, &mut all);
        all.iter().map(Visited::cells).sum()
    }

    /// Collects the parts of all levels that a look-up visits, each with its radius.
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

/// The parts that a look-up visits, collected once for all queries of a batch. More than eight take
/// an allocation.
type AllVisited<'a> = SmallVec<[Visited<'a>; 8]>;

fn prefetch(all: &[Visited<'_>], queries: &[Permuted]) {
    for visited in all {
        for &query in queries {
            visited.prefetch(query);
        }
    }
}

impl Visited<'_> {
    fn is_in_file(&self) -> bool {
        match *self {
            Self::Table(table, _) => table.file_bytes() > 0,
            Self::Buckets(..) | Self::Delta(..) => false,
        }
    }

    fn cells(&self) -> usize {
        match *self {
            Self::Buckets(buckets, distance) => buckets.cells(distance),
            Self::Table(table, radius) => table.cell_count(radius),
            Self::Delta(delta, distance) => delta.cells(distance),
        }
    }

    fn prefetch(&self, query: Permuted) {
        match *self {
            Self::Buckets(buckets, distance) => buckets.prefetch(query, distance),
            Self::Table(table, radius) => table.prefetch(query, radius),
            Self::Delta(delta, distance) => delta.prefetch(query, distance),
        }
    }

    fn locate(&self, query: Permuted, (visits, runs): (&mut Vec<u32>, &mut Vec<CellRun>)) {
        match *self {
            Self::Buckets(buckets, distance) => buckets.locate(query, distance, visits),
            Self::Table(table, radius) => table.locate(query, radius, runs),
            Self::Delta(delta, distance) => delta.locate(query, distance),
        }
    }

    /// Scans runs of a table; how many of them.
    fn scan(
        &self,
        query: Permuted,
        within: u32,
        runs: &[CellRun],
        scanned: &mut Vec<Candidate>,
    ) -> usize {
        match *self {
            Self::Table(table, _) => table.scan(query, within, runs, scanned),
            Self::Buckets(..) | Self::Delta(..) => 0,
        }
    }

    fn compare(
        &self,
        (query, within): (Permuted, u32),
        Located { visits, scanned, rest }: Located<'_>,
        found: &mut impl FnMut(Permuted),
    ) {
        match *self {
            Self::Buckets(buckets, distance) => buckets.compare(query, distance, visits, found),
            Self::Table(table, _) => table.compare((query, within), (scanned, rest), found),
            Self::Delta(delta, distance) => delta.near(query, distance, found),
        }
    }
}

/// The buffers of a look-up.
#[derive(Debug, Default)]
pub struct Lookup {
    next: Group,
    now: Group,
}

/// The visits of a few queries.
#[derive(Debug)]
struct Group {
    /// In buckets.
    visits: Vec<u32>,
    /// In tables.
    runs: Vec<CellRun>,
    /// For each query and each [`Visited`], where its visits and runs end.
    ends: Vec<(usize, usize)>,
    /// The entries of the runs whose low halves are near.
    scanned: Vec<Candidate>,
    /// For each query and each [`Visited`], where those end, and of how many runs they are.
    scanned_ends: Vec<(usize, usize)>,
}

/// What a query visits in one [`Visited`].
struct Located<'a> {
    visits: &'a [u32],
    /// The candidates of the runs that were scanned, and the other runs.
    scanned: &'a [Candidate],
    rest: &'a [CellRun],
}

impl Lookup {
    /// Calls `found` with the index of a query and each fingerprint near it. The same fingerprint
    /// may be reported more than once, and its documents may have been removed.
    pub(crate) fn run(
        &mut self,
        levels: Levels<'_>,
        reach: SearchRadius,
        queries: &[Permuted],
        found: &mut impl FnMut(usize, Permuted),
    ) {
        let mut all = AllVisited::new();
        reach.gather(levels, &mut all);
        let all = &*all;
        let in_files = all.iter().any(Visited::is_in_file);
        let ahead = if in_files { QUERIES_AHEAD_IN_FILES } else { QUERIES_AHEAD };
        let mut expected = queries.chunks(ahead);
        let mut located = expected.clone();
        prefetch(all, expected.next().unwrap_or_default());
        self.next.locate(all, located.next().unwrap_or_default());
        prefetch(all, expected.next().unwrap_or_default());
        for (i, queries) in queries.chunks(ahead).enumerate() {
            std::mem::swap(&mut self.now, &mut self.next);
            self.next.locate(all, located.next().unwrap_or_default());
            prefetch(all, expected.next().unwrap_or_default());
            self.now.scan(all, reach.distance, queries);
            let first = i * ahead;
            let mut found = |at, value| found(first + at, value);
            self.now.compare(all, reach.distance, queries, &mut found);
        }
    }
}

impl Lookup {
    /// The same for one query, until `is_enough` says so after a part of the levels. Returns
    /// whether it came to the end.
    pub(crate) fn run_until(
        &mut self,
        levels: Levels<'_>,
        (reach, query): (SearchRadius, Permuted),
        found: &mut impl FnMut(Permuted),
        is_enough: impl Fn() -> bool,
    ) -> bool {
        let mut all = AllVisited::new();
        reach.gather(levels, &mut all);
        prefetch(&all, &[query]);
        self.now.locate(&all, &[query]);
        self.now.scan(&all, reach.distance, &[query]);
        let distance = u32::from(reach.distance.get());
        all.iter().zip(self.now.parts()).all(|(visited, parts)| {
            visited.compare((query, distance), parts, found);
            !is_enough()
        })
    }
}

impl Default for Group {
    fn default() -> Self {
        Self {
            visits: Vec::with_capacity(VISITS),
            runs: Vec::with_capacity(VISITS),
            ends: Vec::with_capacity(VISITS),
            scanned: Vec::with_capacity(VISITS),
            scanned_ends: Vec::with_capacity(VISITS),
        }
    }
}

impl Group {
    fn locate(&mut self, all: &[Visited<'_>], queries: &[Permuted]) {
        self.visits.clear();
        self.runs.clear();
        self.ends.clear();
        for &query in queries {
            for visited in all {
                visited.locate(query, (&mut self.visits, &mut self.runs));
                self.ends.push((self.visits.len(), self.runs.len()));
            }
        }
    }

    fn scan(&mut self, all: &[Visited<'_>], distance: Distance, queries: &[Permuted]) {
        self.scanned.clear();
        self.scanned_ends.clear();
        let distance = u32::from(distance.get());
        let (mut from, mut ends) = (0, self.ends.iter());
        for &query in queries {
            for (visited, &(_, end)) in all.iter().zip(ends.by_ref()) {
                let runs = &self.runs[from..end];
                let scanned = visited.scan(query, distance, runs, &mut self.scanned);
                self.scanned_ends.push((self.scanned.len(), scanned));
                from = end;
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
        let (distance, mut parts) = (u32::from(distance.get()), self.parts());
        for (at, &query) in queries.iter().enumerate() {
            for (visited, parts) in all.iter().zip(parts.by_ref()) {
                visited.compare((query, distance), parts, &mut |value| found(at, value));
            }
        }
    }

    /// For each query and each [`Visited`], what was located and scanned.
    fn parts(&self) -> impl Iterator<Item = Located<'_>> {
        let (mut from, mut runs_from, mut scanned_from) = (0, 0, 0);
        let ends = self.ends.iter().zip(&self.scanned_ends);
        ends.map(move |(&(end, runs_end), &(scanned_end, runs))| {
            let located = Located {
                visits: &self.visits[from..end],
                scanned: &self.scanned[scanned_from..scanned_end],
                rest: &self.runs[runs_from + runs..runs_end],
            };
            (from, runs_from, scanned_from) = (end, runs_end, scanned_end);
            located
        })
    }
}
