//! A look-up: which lines to visit, in all tables, then what is near in them.
//!
//! Its cost is cache misses, so all lines of a query are known, and under way, before the first is
//! read; in a batch the lines of the next queries are on their way while those of the last are
//! compared. The deltas are asked last.

use crate::fingerprint::Distance;
use crate::index::delta::DeltaAt;
use crate::index::permutation::Permuted;
use crate::index::table::{Table, Visits};

/// How many queries' lines are loaded together: enough to keep the memory busy, few enough that
/// they stay in the first cache until they are read.
const QUERIES_AHEAD: usize = 4;

/// What a look-up visits.
#[derive(Debug)]
pub struct Visitor<'a> {
    /// Tables, and how far to search each.
    pub tables: Vec<(&'a Table, u32)>,
    /// Deltas that are not empty.
    pub deltas: Vec<DeltaAt<'a>>,
    /// The largest distance of a hit.
    pub distance: Distance,
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
    visits: Visits,
    /// For each query and table, where its visits end.
    ends: Vec<usize>,
}

impl Lookup {
    /// Calls `found` with the place of each query and every fingerprint near it; it may come more
    /// than once, and may be one whose documents are gone.
    pub fn run(
        &mut self,
        visitor: &Visitor<'_>,
        queries: &[Permuted],
        found: &mut impl FnMut(usize, Permuted),
    ) {
        let groups = || queries.chunks(QUERIES_AHEAD).enumerate();
        let mut following = groups().map(|(_, queries)| queries);
        self.next.locate(visitor, following.next().unwrap_or_default());
        for (i, queries) in groups() {
            std::mem::swap(&mut self.now, &mut self.next);
            self.next.locate(visitor, following.next().unwrap_or_default());
            self.now
                .compare(visitor, queries, &mut |at, value| found(i * QUERIES_AHEAD + at, value));
        }
        for delta in &visitor.deltas {
            for (at, &query) in queries.iter().enumerate() {
                delta.near(query, visitor.distance, &mut |value| found(at, value));
            }
        }
    }
}

impl Group {
    fn locate(&mut self, visitor: &Visitor<'_>, queries: &[Permuted]) {
        self.visits.clear();
        self.ends.clear();
        for &query in queries {
            for &(table, radius) in &visitor.tables {
                table.locate(query, radius, &mut self.visits);
                self.ends.push(self.visits.len());
            }
        }
    }

    fn compare(
        &self,
        visitor: &Visitor<'_>,
        queries: &[Permuted],
        found: &mut impl FnMut(usize, Permuted),
    ) {
        let distance = u32::from(visitor.distance.get());
        let (mut from, mut ends) = (0, self.ends.iter());
        for (at, &query) in queries.iter().enumerate() {
            for ((table, _), &end) in visitor.tables.iter().zip(ends.by_ref()) {
                let visits = self.visits.part(from, end);
                table.compare(query, distance, visits, &mut |value| found(at, value));
                from = end;
            }
        }
    }
}
