//! A quarter of all keys: what a merge takes and makes one after the other.

use std::ops::Range;

use crate::index::tables::fold::Head;
use crate::index::tables::homes::LinesOfRange;
use crate::index::tables::line::SPAN_MAX;

/// How many there are.
pub const PARTITIONS: usize = 4;

/// A quarter of all keys: the first two bits of their heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partition(u8);

/// Where each quarter's lines start, and where the last one's end; without the lines behind.
pub(crate) type Starts = [u32; PARTITIONS + 1];

impl Partition {
    /// All, in the order of their keys.
    pub const ALL: [Self; PARTITIONS] = [Self(0), Self(1), Self(2), Self(3)];

    /// That of a head.
    pub fn of(head: Head) -> Self {
        Self((head >> 30) as u8)
    }

    /// Its place among all.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Its lines; of the last one with those behind.
    pub(crate) fn lines(self, starts: &Starts) -> Range<usize> {
        let behind = if self.is_last() { SPAN_MAX } else { 0 };
        starts[self.index()] as usize..(starts[self.index() + 1] + behind) as usize
    }

    /// Whether its keys are the largest.
    pub(crate) fn is_last(self) -> bool {
        self.index() + 1 == PARTITIONS
    }

    /// The quarter whose ranges alone have lines, if others have none.
    pub(crate) fn of_directory(directory: &[LinesOfRange]) -> Option<Self> {
        let has_lines = |range: &LinesOfRange| range >> 32 > 0;
        if directory.len() < PARTITIONS || directory.iter().all(has_lines) {
            return None;
        }
        let first = directory.iter().position(has_lines)?;
        Some(Self((first * PARTITIONS / directory.len()) as u8))
    }

    /// Whether a range of a directory is one of its own.
    pub(crate) fn has_range(self, at: usize, directory: &[LinesOfRange]) -> bool {
        at * PARTITIONS / directory.len() == self.index()
    }
}
