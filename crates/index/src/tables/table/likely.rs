//! The likely search in one table: the cells of expected flips of its key.

use smallvec::SmallVec;

use super::{Probe, Table};
use crate::kernel::scan::Pattern;
use crate::kernel::{self, Simd};
use crate::likely::{LIKELY_DISTANCE_MAX, LikelyRule};
use crate::permutation::Permuted;
use crate::plan::{head, low};
use crate::tables::fold::{self, Head};
use crate::tables::partition::Partition;

/// Lines that were visited, by their lower bits: most are new, which one bit tells.
#[derive(Default)]
struct Seen([u64; 16]);

impl Seen {
    #[inline]
    fn is_new(&mut self, line: u32, visits: &[u32]) -> bool {
        let (word, bit) = (&mut self.0[(line / 64 % 16) as usize], 1 << (line % 64));
        let may_be_known = *word & bit != 0;
        *word |= bit;
        !(may_be_known && visits.contains(&line))
    }
}

impl Table {
    /// Calls `found` with every fingerprint that the rule finds by the key of this table, and with
    /// some others within [`LIKELY_DISTANCE_MAX`]. One may be found more than once.
    pub(crate) fn near_likely(
        &self,
        query: Permuted,
        rule: &LikelyRule,
        found: &mut impl FnMut(Permuted),
    ) {
        let (mut visits, mut cells) = (Vec::with_capacity(256), Vec::with_capacity(256));
        let (homes, mut seen) = (self.homes(), Seen::default());
        let (expected, listed) = self.expected(query, rule);
        let mut listed_from = 0;
        for (at, cell) in expected.into_iter().enumerate() {
            if at == listed {
                listed_from = visits.len();
            }
            if self.partition.is_some_and(|partition| partition != Partition::of(cell)) {
                continue;
            }
            let first = homes.home(cell);
            let last = if self.geometry.whole_cells { first } else { *self.lines_of(cell).end() };
            for line in first..=last {
                // In a crowd, many cells lie in one line.
                if seen.is_new(line, &visits) {
                    kernel::prefetch(&self.lines, line);
                    visits.push(line);
                    cells.push(cell);
                }
            }
        }
        // A listed set has at least two bits, which are not in the low half.
        let parts = [(0..listed_from, 0), (listed_from..visits.len(), 2)];
        for (part, in_head) in parts {
            let pattern = Pattern {
                low: low(query.rotate_left(self.plan.first_bit)),
                distance: LIKELY_DISTANCE_MAX - in_head,
                slots: self.geometry.layout.slots,
            };
            let probe = Probe {
                query,
                radius: 0,
                distance: LIKELY_DISTANCE_MAX,
                flips: &[],
                visits: &visits[part.clone()],
                // Where cells span lines, the line tells which heads are near.
                cells: Some(&cells[part]).filter(|_| self.geometry.whole_cells),
                pattern,
                simd: Simd::best(),
            };
            self.compare_lines(&probe, found);
        }
    }

    /// The cells of the heads that differ from that of the query in no bit or in one, then those of
    /// heads that differ in a listed set; and where these begin. A cell may occur twice.
    fn expected(&self, query: Permuted, rule: &LikelyRule) -> (SmallVec<[Head; 160]>, usize) {
        let plan = self.plan;
        let rotated = head(query.rotate_left(plan.first_bit));
        let of_cell = u32::MAX << (32 - self.geometry.cell_bits);
        let cell = |flips: u32| {
            let flipped = rotated ^ flips;
            of_cell & if plan.folded { fold::fold(flipped) } else { flipped }
        };
        let mut cells: SmallVec<[Head; 160]> = SmallVec::new();
        let own = cell(0);
        if plan.folded {
            let near = fold::neighbours(fold::fold(rotated), 1);
            cells.extend(near.iter().map(|flips| own ^ flips));
        } else {
            cells.push(own);
            // A flip below the bits of a cell leads to the same cell.
            let singles = (0..self.geometry.cell_bits).map(|bit| own ^ 1 << (31 - bit));
            cells.extend(singles);
        }
        let listed = cells.len();
        cells.extend(rule.flips(self.role, plan.first_bit).map(cell));
        (cells, listed)
    }
}
