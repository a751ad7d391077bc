//! Partitions: the eighths of the key space, which a large merge processes one after the other.

use crate::plan::fold::Head;

/// Log2 of the number of partitions.
pub(crate) const PARTITION_BITS: u32 = 3;

pub(crate) const PARTITIONS: usize = 1 << PARTITION_BITS;

/// One eighth of the key space: the keys whose heads begin with the same three bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partition(u8);

impl Partition {
    /// All partitions, in the order of their keys.
    pub(crate) const ALL: [Self; PARTITIONS] =
        [Self(0), Self(1), Self(2), Self(3), Self(4), Self(5), Self(6), Self(7)];

    pub(crate) fn of(head: Head) -> Self {
        Self((head >> (32 - PARTITION_BITS)) as u8)
    }

    /// Its index among all partitions.
    #[inline]
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The partition with the next larger keys.
    pub(crate) fn next(self) -> Option<Self> {
        Self::ALL.get(self.index() + 1).copied()
    }
}

/// Where the numbers of each partition begin in a whole table, and where those of the last one end.
/// Numbers in a partition begin with 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places(pub(crate) [u32; PARTITIONS + 1]);

impl Places {
    /// The numbers of the whole table that belong to a partition.
    pub(crate) fn range(&self, partition: usize) -> std::ops::Range<u32> {
        self.0[partition]..self.0[partition + 1]
    }

    /// The partition of a number of the whole table, and the number in that partition.
    pub(crate) fn in_partition(&self, number: u32) -> (usize, u32) {
        let partition = self.0[1..PARTITIONS].partition_point(|&start| start <= number);
        (partition, number - self.0[partition])
    }

    /// The number in the whole table of a number in a partition.
    pub(crate) fn in_whole(&self, partition: usize, number: u32) -> u32 {
        self.0[partition] + number
    }
}
