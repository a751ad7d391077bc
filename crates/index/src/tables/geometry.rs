//! The geometry of a table: for its size, how many bits of a head name its cell.
//!
//! A *cell* has the entries whose heads agree in their upper bits. A look-up reads the cells near
//! its query whole, so they are made as small as their directory ([`crate::tables::cells`], two
//! bytes a cell) allows: four to eight entries. The bits of a head that its cell does not imply
//! are kept with each entry, so the larger a table, the fewer are kept.
#![expect(clippy::cast_precision_loss, reason = "an estimate decides nothing but the layout")]

use crate::kernel::scan::LANES;
use crate::plan::fold::{Head, SYNDROME_BITS};
use crate::plan::{TablePlan, masks_within};
use crate::tables::cells::{CellGroup, GROUP_BITS};
use crate::tables::partition::PARTITION_BITS;

/// The smallest number of entries of a cell, on average.
const CELL_ENTRIES: u64 = 4;

/// Every partition has whole groups of cells.
const CELL_BITS_MIN: u32 = PARTITION_BITS + GROUP_BITS;

/// A directory takes at most 2 GiB.
const CELL_BITS_MAX: u32 = 30;

/// The cost of reading a line after its neighbour, relative to a line at a random address.
const NEXT_LINE_COST: f64 = 0.5;

/// The layout of a table of a certain size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Heads that agree in so many upper bits form one cell: 8 to 30.
    pub cell_bits: u32,
}

impl Geometry {
    /// The geometry of a table with about `count` entries.
    pub fn of(plan: TablePlan, count: u64) -> Self {
        let filled = (count / CELL_ENTRIES).max(1).ilog2();
        let most = filled.min(CELL_BITS_MAX).min(plan.key_bits).max(CELL_BITS_MIN);
        let cell_bits = if plan.folded {
            most.min(32 - SYNDROME_BITS)
        } else if plan.radius == 0 {
            most
        } else {
            cheapest(plan, count, most)
        };
        Self { cell_bits }
    }

    /// The geometry of a table in an image; `None` if it is not possible.
    pub fn stored(plan: TablePlan, cell_bits: u64) -> Option<Self> {
        let folded = if plan.folded { 32 - SYNDROME_BITS } else { CELL_BITS_MAX };
        let cell_bits = u32::try_from(cell_bits).ok()?;
        (CELL_BITS_MIN..=folded).contains(&cell_bits).then_some(Self { cell_bits })
    }

    /// The bits of a head that its cell does not imply.
    #[inline]
    pub(crate) fn rest_bits(self) -> u32 {
        32_u32.wrapping_sub(self.cell_bits)
    }

    /// The number of groups of cells.
    pub(crate) fn groups(self) -> usize {
        1 << (self.cell_bits - GROUP_BITS)
    }

    /// Expected bytes of a table with `count` entries.
    pub fn bytes(self, count: u64) -> f64 {
        let entry_bits = f64::from(u32::BITS + self.rest_bits());
        self.directory_bytes() + count as f64 * entry_bits / 8.0
    }

    /// The bytes of its directory.
    pub fn directory_bytes(self) -> f64 {
        (self.groups() * size_of::<CellGroup>()) as f64
    }
}

/// The number of bits with which a look-up within a radius costs least: with fewer bits, cells are
/// larger and fewer.
fn cheapest(plan: TablePlan, count: u64, most: u32) -> u32 {
    let cost = |bits: u32| {
        let lines_per_cell = count as f64 / (LANES << bits) as f64;
        probes(bits, plan.radius) as f64 * (1.0 + NEXT_LINE_COST * lines_per_cell)
    };
    (CELL_BITS_MIN..=most).min_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or(most)
}

/// The number of cells of `bits` bits within a radius.
pub(crate) fn probes(bits: u32, radius: u32) -> u64 {
    let choose = |k: u32| (0..u64::from(k)).fold(1, |c, i| c * (u64::from(bits) - i) / (i + 1));
    (0..=radius.min(bits)).map(choose).sum()
}

/// The flips that lead from a head to every cell of `cell_bits` bits within a radius, the nearest
/// first.
pub(crate) fn flips(cell_bits: u32, radius: u32) -> Box<[Head]> {
    masks_within(cell_bits, radius).map(|mask| (mask as u32) << (32 - cell_bits)).collect()
}

#[cfg(test)]
mod tests {
    use nearprint_fingerprint::Distance;

    use super::*;
    use crate::plan::Plan;

    const COUNTS: [u64; 9] =
        [0, 1, 100, 32_768, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 4_000_000_000];

    #[test]
    fn every_geometry_can_be_stored_and_cells_lie_within_the_key() {
        for plan in (0..=12).map(|d| Plan::of(Distance::new(d).unwrap())) {
            for (&table, count) in plan.tables().iter().flat_map(|t| COUNTS.map(|c| (t, c))) {
                let geometry = Geometry::of(table, count);
                assert_eq!(Geometry::stored(table, geometry.cell_bits.into()), Some(geometry));
                let most = if table.folded { 27 } else { table.key_bits };
                assert!(geometry.cell_bits <= most, "{plan} {geometry:?}");
            }
        }
        let folded = Plan::of(Distance::new(3).unwrap()).tables()[0];
        assert_eq!(Geometry::stored(folded, 28), None, "a cell is at least a ball of the code");
        assert_eq!((Geometry::stored(folded, 7), Geometry::stored(folded, 1 << 32)), (None, None));
    }

    #[test]
    fn probes_are_counted_as_they_are_made() {
        for (bits, radius) in [(21, 2), (5, 0), (22, 1), (8, 3)] {
            assert_eq!(flips(bits, radius).len() as u64, probes(bits, radius));
        }
    }

    #[test]
    fn tables_take_the_memory_that_they_may() {
        let limits = [
            (3, 1_000_000, 6.3),
            (3, 10_000_000, 5.9),
            (3, 100_000_000, 5.5),
            (3, 1_000_000_000, 5.0),
            (6, 100_000_000, 5.8),
        ];
        for (distance, count, most) in limits {
            let plan = Plan::of(Distance::new(distance).unwrap());
            let bytes = Geometry::of(plan.tables()[0], count).bytes(count) / count as f64;
            assert!(bytes <= most, "{bytes} bytes an entry at {count}, {plan}");
        }
    }
}
