//! A look-up: which lines to visit, in all tables, then what is near in them.
//!
//! Its cost is cache misses, so all lines of a query are known, and under way, before the first is
//! read; in a batch the lines of the next queries are on their way while those of the last are
//! compared. The deltas are asked last.

use crate::fingerprint::Distance;
use crate::index::buckets::Buckets;
use crate::index::permutation::Permuted;
use crate::index::plan::{Plans, Radii};
use crate::index::sorted::Sorted;
use crate::index::table::Table;
use crate::index::view::View;

/// How many queries' lines are loaded together: enough to keep the memory busy, few enough that
/// they stay in the first cache until they are read.
const QUERIES_AHEAD: usize = 4;

/// Room for the visits of a look-up at distance 3 in a few segments, taken at once.
const VISITS: usize = 256;

/// How far a look-up searches in which tables.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    /// For each role of small segments.
    small: Radii,
    /// For each role of large ones.
    large: Radii,
    /// The largest distance of a hit.
    pub distance: Distance,
}

/// Tables that a look-up visits.
enum Visited<'a> {
    /// All of a small segment.
    Buckets(&'a Buckets, &'a Radii),
    /// One of large segments.
    Table(&'a Table, u32),
}

impl Reach {
    /// That of a look-up in a view.
    pub fn of(view: &View, distance: Distance) -> Self {
        let Plans { small, large, .. } = &**view.plans();
        Self { small: *small.radii(distance), large: *large.radii(distance), distance }
    }

    /// The tables to visit, and how far to search each.
    fn tables<'a>(&'a self, view: &'a View) -> impl Iterator<Item = Visited<'a>> {
        let large = |table| Some(Visited::Table(table, self.large[Table::role(table)]?));
        let segments = view.segments().iter().filter_map(move |segment| match segment.sorted() {
            Sorted::Small(buckets) => Some(Visited::Buckets(buckets, &self.small)),
            Sorted::Large(table) => large(table),
        });
        segments.chain(view.others().iter().filter_map(move |other| large(&other.table)))
    }
}

impl Visited<'_> {
    fn locate(&self, query: Permuted, visits: &mut Vec<u32>) {
        match *self {
            Self::Buckets(buckets, radii) => buckets.locate(query, radii, visits),
            Self::Table(table, radius) => table.locate(query, radius, visits),
        }
    }

    fn compare(
        &self,
        query: Permuted,
        distance: u32,
        visits: &[u32],
        found: &mut impl FnMut(Permuted),
    ) {
        match *self {
            Self::Buckets(buckets, radii) => {
                buckets.compare((query, radii), distance, visits, found);
            }
            Self::Table(table, radius) => table.compare((query, radius), distance, visits, found),
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
        view: &View,
        reach: Reach,
        queries: &[Permuted],
        found: &mut impl FnMut(usize, Permuted),
    ) {
        let mut following = queries.chunks(QUERIES_AHEAD);
        let mut expected = queries.chunks(QUERIES_AHEAD).skip(1);
        self.next.locate(view, reach, following.next().unwrap_or_default());
        expect(view, expected.next().unwrap_or_default());
        for (i, queries) in queries.chunks(QUERIES_AHEAD).enumerate() {
            std::mem::swap(&mut self.now, &mut self.next);
            expect(view, expected.next().unwrap_or_default());
            self.next.locate(view, reach, following.next().unwrap_or_default());
            let first = i * QUERIES_AHEAD;
            self.now.compare(view, reach, queries, &mut |at, value| found(first + at, value));
        }
        for delta in view.deltas().filter(|delta| delta.length() > 0) {
            for (at, &query) in queries.iter().enumerate() {
                delta.near(query, reach.distance, &mut |value| found(at, value));
            }
        }
    }
}

/// Has the directories of small segments loaded where the look-ups of some queries will begin.
fn expect(view: &View, queries: &[Permuted]) {
    for segment in view.segments().iter() {
        if let Sorted::Small(buckets) = segment.sorted() {
            for &query in queries {
                buckets.expect_buckets(query);
            }
        }
    }
}

impl Default for Group {
    fn default() -> Self {
        Self { visits: Vec::with_capacity(VISITS), ends: Vec::with_capacity(VISITS) }
    }
}

impl Group {
    fn locate(&mut self, view: &View, reach: Reach, queries: &[Permuted]) {
        self.visits.clear();
        self.ends.clear();
        for &query in queries {
            for table in reach.tables(view) {
                table.locate(query, &mut self.visits);
                self.ends.push(self.visits.len());
            }
        }
    }

    fn compare(
        &self,
        view: &View,
        reach: Reach,
        queries: &[Permuted],
        found: &mut impl FnMut(usize, Permuted),
    ) {
        let distance = u32::from(reach.distance.get());
        let (mut from, mut ends) = (0, self.ends.iter());
        for (at, &query) in queries.iter().enumerate() {
            for (table, &end) in reach.tables(view).zip(ends.by_ref()) {
                let visits = &self.visits[from..end];
                table.compare(query, distance, visits, &mut |value| found(at, value));
                from = end;
            }
        }
    }
}
