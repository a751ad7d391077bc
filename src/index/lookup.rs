//! A look-up: which lines to visit, in all tables, then what is near in them.
//!
//! Its cost is cache misses, so all lines of a query are known, and under way, before the first is
//! read; in a batch the lines of the next queries are on their way while those of the last are
//! compared. The deltas are asked last.

use crate::fingerprint::Distance;
use crate::index::permutation::Permuted;
use crate::index::plan::Radii;
use crate::index::table::Table;
use crate::index::view::View;

/// How many queries' lines are loaded together: enough to keep the memory busy, few enough that
/// they stay in the first cache until they are read.
const QUERIES_AHEAD: usize = 4;

/// How far a look-up searches in which tables.
#[derive(Debug, Clone, Copy)]
pub struct Reach {
    /// For each role.
    radii: Radii,
    /// The largest distance of a hit.
    pub distance: Distance,
}

impl Reach {
    /// That of a look-up in a view.
    pub fn of(view: &View, distance: Distance) -> Self {
        Self { radii: *view.plan().radii(distance), distance }
    }

    /// The tables to visit, and how far to search each.
    fn tables(self, view: &View) -> impl Iterator<Item = (&Table, u32)> {
        let firsts = view.segments().iter().map(|segment| segment.table());
        let others = view.others().iter().map(|other| &*other.table);
        firsts.chain(others).filter_map(move |table| Some((table, self.radii[table.role()]?)))
    }
}

/// The buffers of look-ups.
#[derive(Debug, Default)]
pub struct Lookup {
    next: Group,
    now: Group,
}

/// The lines of a few queries.
#[derive(Debug, Default)]
struct Group {
    visits: Vec<u32>,
    /// For each query and table, where its visits end.
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
        self.next.locate(view, reach, following.next().unwrap_or_default());
        for (i, queries) in queries.chunks(QUERIES_AHEAD).enumerate() {
            std::mem::swap(&mut self.now, &mut self.next);
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

impl Group {
    fn locate(&mut self, view: &View, reach: Reach, queries: &[Permuted]) {
        self.visits.clear();
        self.ends.clear();
        for &query in queries {
            for (table, radius) in reach.tables(view) {
                table.locate(query, radius, &mut self.visits);
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
            for ((table, radius), &end) in reach.tables(view).zip(ends.by_ref()) {
                let visits = &self.visits[from..end];
                table.compare((query, radius), distance, visits, &mut |value| found(at, value));
                from = end;
            }
        }
    }
}
