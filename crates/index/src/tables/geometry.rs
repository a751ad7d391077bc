//! The geometry of a table: for its size, how its lines are divided and where a key belongs.
//!
//! The heads are cut into equal *ranges* of about a thousand entries. A *directory* has, for each
//! range, its first line and its number of lines, which is proportional to its entries, so that a
//! skewed collection fills its lines as evenly as a random one. Within a range the line of a head,
//! its *home*, is interpolated. So finding a line costs one load from the directory (0.01 bytes an
//! entry, in the second-level cache) and a multiplication, and no search.
//!
//! Fingerprints of texts are skewed within such a range too, and the lines of its crowds would
//! overflow. A table whose entries are that skewed has ranges of about a hundred entries
//! ([`crate::tables::table::build`] decides). Its directory no longer fits the second-level
//! cache, which costs less than going on after full lines; random fingerprints would only lose.
//!
//! Lines are filled to a share of their slots. Entries that do not fit overflow into the next two
//! lines, and from there into extra lines. A line keeps only the bits of a head that its position
//! does not imply.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate decides nothing but the layout"
)]

use crate::plan::fold::{Head, SYNDROME_BITS};
use crate::plan::{TablePlan, masks_within};
use crate::tables::line::{LineLayout, SPAN_MAX};

/// The approximate number of entries of a range.
const RANGE_ENTRIES: u64 = 1_000;

/// The same in a table with skewed entries.
const FINE_RANGE_ENTRIES: u64 = 150;

/// Each partition of a table has ranges of its own.
const RANGES_MIN: u64 = 4;

/// A directory takes at most 128 MiB.
const RANGE_BITS_MAX: u32 = 24;

/// How full lines are made. Fuller lines take less memory, and more look-ups go on to the next
/// line.
const FILL: f64 = 0.70;

/// The fill of tables with at least [`LARGE`] entries, whose memory matters more.
const FILL_LARGE: f64 = 0.80;
const LARGE: u64 = 32_000_000;

/// The fill of large tables on thirds: a look-up visits several consecutive lines, fewer if they
/// are fuller.
const FILL_LARGE_THIRDS: f64 = 0.85;

/// A sparse range gets lines for at least this share of the average entries, so that no line covers
/// so many heads that it would have to keep all of their bits.
const SPARSEST: f64 = 0.5;

/// The cost of reading a line after its neighbour, relative to a line at a random address.
const NEXT_LINE_COST: f64 = 0.5;

/// The layout of a table of a certain size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Geometry {
    /// The layout of a line.
    pub layout: LineLayout,
    /// Log2 of the number of ranges: 1 to [`RANGE_BITS_MAX`].
    pub range_bits: u32,
    /// The number of upper bits of a head that a look-up flips: heads that agree in them form one
    /// cell.
    pub cell_bits: u32,
    /// No cell spans two homes.
    pub whole_cells: bool,
    fill: f64,
    heads_per_line_max: u64,
}

impl Geometry {
    /// The geometry of a table with about `count` entries.
    pub fn of(plan: TablePlan, count: u64) -> Self {
        let fill = match plan.key_bits {
            _ if count < LARGE => FILL,
            32 => FILL_LARGE,
            _ => FILL_LARGE_THIRDS,
        };
        let ranges = range_bits(count, RANGE_ENTRIES);
        let with = |layout: LineLayout| {
            let lines = lines(count, layout, fill);
            let cell_bits = cell_bits(plan, lines);
            Self {
                layout,
                // A cell lies in one range.
                range_bits: ranges.min(cell_bits).min(RANGE_BITS_MAX),
                cell_bits,
                whole_cells: 1 << cell_bits >= 4 * lines,
                fill,
                heads_per_line_max: (HEADS as f64 / lines as f64 / SPARSEST).ceil() as u64,
            }
        };
        // More slots mean fewer lines, and more bits of a head to keep.
        let layouts = (1..=15).rev().map(LineLayout::with_slots);
        layouts
            .map(with)
            .find(Self::distinguishes_heads)
            .expect("whole heads are always distinguished")
    }

    /// The geometry of a table of about `count` skewed entries: with finer ranges.
    #[must_use]
    pub fn fine(self, count: u64) -> Self {
        let ranges = range_bits(count, FINE_RANGE_ENTRIES);
        Self { range_bits: ranges.min(self.cell_bits).min(RANGE_BITS_MAX), ..self }
    }

    /// Whether the kept bits distinguish a head from all others that a probe can meet.
    ///
    /// A head is reconstructed from its distance to the head of the query, or to the head at the
    /// start of a line. That distance is at most a cell and the lines over which an entry may
    /// overflow.
    fn distinguishes_heads(&self) -> bool {
        let cell = if self.whole_cells { HEADS >> self.cell_bits } else { 0 };
        let far = (u64::from(SPAN_MAX) + 2) * self.heads_per_line_max + cell;
        self.layout.kept_bits == 32 || far < 1 << (self.layout.kept_bits - 1)
    }

    /// The geometry of a table in an image; `None` if it is not possible.
    pub fn stored(slots: u8, range_bits: u8, cell_bits: u8, whole_cells: bool) -> Option<Self> {
        let (range_bits, cell_bits) = (u32::from(range_bits), u32::from(cell_bits));
        let possible = (1..=15).contains(&slots)
            && (1..=RANGE_BITS_MAX.min(cell_bits)).contains(&range_bits)
            && cell_bits <= 32;
        let layout = LineLayout::with_slots(u32::from(slots).clamp(1, 15));
        let (fill, heads_per_line_max) = (FILL, HEADS);
        let stored = Self { layout, range_bits, cell_bits, whole_cells, fill, heads_per_line_max };
        possible.then_some(stored)
    }

    /// The number of lines of a range with this many entries.
    pub fn lines_of_range(&self, entries: u32) -> u32 {
        let for_entries = f64::from(entries) / (f64::from(self.layout.slots) * self.fill);
        let for_heads = (HEADS >> self.range_bits).div_ceil(self.heads_per_line_max);
        (for_entries.ceil() as u32).max(for_heads as u32).max(1)
    }

    /// Expected bytes of a table with `count` entries, for a collection without skew.
    pub fn bytes(&self, count: u64) -> f64 {
        64.0 * self.lines(count) + 8.0 * self.ranges()
    }

    /// Expected lines of a table with `count` entries, for a collection without skew.
    pub fn lines(&self, count: u64) -> f64 {
        // The lines of each range are rounded up.
        lines(count, self.layout, self.fill) as f64 + 0.5 * self.ranges()
    }

    /// Expected slots of a table with `count` entries, filled or not.
    pub fn slots(&self, count: u64) -> f64 {
        self.lines(count) * f64::from(self.layout.slots)
    }

    fn ranges(&self) -> f64 {
        (1_u64 << self.range_bits) as f64
    }
}

/// The number of different heads.
const HEADS: u64 = 1 << 32;

/// Log2 of the number of ranges of about `entries` entries each.
fn range_bits(count: u64, entries: u64) -> u32 {
    (count / entries).max(RANGES_MIN).next_power_of_two().ilog2()
}

fn lines(count: u64, layout: LineLayout, fill: f64) -> u64 {
    ((count as f64 / (f64::from(layout.slots) * fill)).ceil() as u64).max(1)
}

/// The number of bits to flip in a look-up: with fewer bits, cells are larger and fewer.
fn cell_bits(plan: TablePlan, lines: u64) -> u32 {
    if plan.folded {
        return 32 - SYNDROME_BITS;
    }
    if plan.radius == 0 {
        return plan.key_bits;
    }
    let cost = |bits: u32| {
        let lines_per_cell = lines as f64 / (1_u64 << bits) as f64;
        probes(bits, plan.radius) as f64 * (1.0 + NEXT_LINE_COST * lines_per_cell)
    };
    (plan.radius + 1..=plan.key_bits)
        .min_by(|&a, &b| cost(a).total_cmp(&cost(b)))
        .unwrap_or(plan.key_bits)
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
        [0, 1, 100, 32_768, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 3_000_000_000];

    #[test]
    fn kept_bits_tell_all_heads_that_a_probe_can_meet() {
        for plan in (0..=12).map(|d| Plan::of(Distance::new(d).unwrap())) {
            for (table, count) in plan.tables().iter().flat_map(|t| COUNTS.map(|c| (*t, c))) {
                let geometry = Geometry::of(table, count);
                let LineLayout { slots, kept_bits } = geometry.layout;
                assert!(slots * (32 + kept_bits) + 16 <= 512 && (1..=15).contains(&slots));
                assert!(geometry.distinguishes_heads(), "{plan} {geometry:?}");
            }
        }
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
            (3, 1_000_000, 10.5),
            (3, 10_000_000, 9.5),
            (3, 100_000_000, 7.5),
            (6, 100_000_000, 7.2),
        ];
        for (distance, count, most) in limits {
            let plan = Plan::of(Distance::new(distance).unwrap());
            let bytes = Geometry::of(plan.tables()[0], count).bytes(count) / count as f64;
            assert!(bytes <= most, "{bytes} bytes an entry at {count}, {plan}");
        }
    }
}
