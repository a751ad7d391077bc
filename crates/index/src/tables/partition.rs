//! Partitions: the four quarters of the key space, which a large merge processes one after the
//! other.

use std::ops::Range;

use crate::plan::fold::Head;
use crate::tables::line::SPAN_MAX;
use crate::tables::line_of_key::LinesOfRange;

pub(crate) const PARTITIONS: usize = 4;

/// One quarter of the key space: the keys whose heads begin with the same two bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partition(u8);

/// Where the lines of each partition start, and where those of the last one end, without the lines
/// after the last home.
pub(crate) type Starts = [u32; PARTITIONS + 1];

impl Partition {
    /// All partitions, in the order of their keys.
    pub(crate) const ALL: [Self; PARTITIONS] = [Self(0), Self(1), Self(2), Self(3)];

    pub(crate) fn of(head: Head) -> Self {
        Self((head >> 30) as u8)
    }

    /// Its index among all partitions.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Its lines; for the last partition with the lines after the last home.
    pub(crate) fn lines(self, starts: &Starts) -> Range<usize> {
        let behind = if self.is_last() { SPAN_MAX } else { 0 };
        starts[self.index()] as usize..(starts[self.index() + 1] + behind) as usize
    }

    /// Whether it has the largest keys.
    pub(crate) fn is_last(self) -> bool {
        self.index() + 1 == PARTITIONS
    }

    /// The partition to which all ranges with lines belong, unless every range has lines.
    pub(crate) fn of_directory(directory: &[LinesOfRange]) -> Option<Self> {
        let has_lines = |range: &LinesOfRange| range >> 32 > 0;
        if directory.len() < PARTITIONS || directory.iter().all(has_lines) {
            return None;
        }
        let first = directory.iter().position(has_lines)?;
        Some(Self((first * PARTITIONS / directory.len()) as u8))
    }

    /// Whether a range of a directory belongs to the partition.
    pub(crate) fn has_range(self, at: usize, directory: &[LinesOfRange]) -> bool {
        at * PARTITIONS / directory.len() == self.index()
    }
}
