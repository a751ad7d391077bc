//! The home of a head: the line in which an entry is looked for first.

use crate::plan::fold::Head;
use crate::tables::geometry::Geometry;

/// The lines of a range: the first line in the lower half, the number of lines in the upper half.
pub(crate) type LinesOfRange = u64;

/// The directory of a table as a function from heads to home lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Homes<'a> {
    directory: &'a [LinesOfRange],
    range_bits: u32,
    /// The bits of a head that determine its home.
    mask: Head,
}

impl<'a> Homes<'a> {
    #[inline]
    pub(crate) fn of(geometry: &Geometry, directory: &'a [LinesOfRange]) -> Self {
        let whole = if geometry.whole_cells { 32 - geometry.cell_bits } else { 0 };
        Self { directory, range_bits: geometry.range_bits, mask: u32::MAX << whole }
    }

    /// The home of a head: as far into the lines of its range as the head is into the heads of the
    /// range.
    #[inline]
    pub(crate) fn home(self, head: Head) -> u32 {
        let range = self.directory[head.wrapping_shr(self.range_bits.wrapping_neg()) as usize];
        let within = (head & self.mask).wrapping_shl(self.range_bits);
        let line = u64::from(within).wrapping_mul(range >> 32) >> 32;
        (range as u32).wrapping_add(line as u32)
    }

    /// A head whose home is the line, approximately the first one.
    pub(crate) fn first_head(self, line: u32) -> Head {
        let after = self.directory.partition_point(|range| *range as u32 <= line);
        self.first_head_in(after - 1, line)
    }

    #[inline]
    pub(crate) fn first_head_in(self, range: usize, line: u32) -> Head {
        let lines = self.directory[range];
        let heads = u64::from(line - lines as u32) << (32 - self.range_bits);
        ((range as u64) << (32 - self.range_bits)).wrapping_add(heads / (lines >> 32)) as u32
    }
}
