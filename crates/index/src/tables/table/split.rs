//! Splitting a table into partitions, and joining partitions into a table, so that a merge can free
//! each partition of its inputs as soon as it is merged.
//!
//! A partition is a table of its own, with the same geometry, that has an eighth of the groups and
//! their entries. It shares the memory of the whole table; memory that neither needs any more goes
//! back to the system ([`crate::memory::pages`]). Partitions that are built for one table lie
//! behind each other in memory, so that they are joined without copying.

use crate::kernel::scan::LANES;
use crate::memory::array::Array;
use crate::memory::column::PackedColumn;
use crate::memory::placed::PlacedArray;
use crate::tables::cells::CellGroup;
use crate::tables::partition::{PARTITIONS, Partition, Places};
use crate::tables::table::Table;

impl Table {
    /// Splits the table into partitions, and returns where their entries lie in it. `None` if it is
    /// a partition itself.
    pub fn split(&self) -> Option<([Self; PARTITIONS], Places)> {
        if self.partition.is_some() {
            return None;
        }
        let per_partition = self.groups.len() / PARTITIONS;
        let mut places = Places([0; PARTITIONS + 1]);
        for (at, place) in places.0.iter_mut().enumerate() {
            let group = self.groups.get(at * per_partition);
            *place = group.map_or(self.numbers() as u32, CellGroup::first);
        }
        let partitions = Partition::ALL.map(|partition| {
            let (at, range) = (partition.index(), places.range(partition.index()));
            let of = (self.plan, self.role, self.geometry);
            let mut table = Self::empty(of, Some(partition));
            table.first = range.start;
            table.groups = self.groups.share(at * per_partition..(at + 1) * per_partition);
            table.lines =
                self.lines.share(range.start as usize / LANES..range.end as usize / LANES);
            table.rests = self.rests.part(&range);
            let groups = table.first_group..table.first_group + per_partition as u32;
            let crowded = self.crowded.iter().filter(|crowded| groups.contains(&crowded.group));
            table.crowded = crowded.copied().collect();
            let ends = table.groups.iter().zip(groups);
            table.count = ends.map(|(group, at)| u64::from(group.count(at, &table.crowded))).sum();
            table.sample();
            table
        });
        Some((partitions, places))
    }

    /// Joins partitions into their table, and returns where their entries lie in it. The table
    /// shares their memory if they were built for one table.
    pub fn joined(partitions: [&Self; PARTITIONS]) -> (Self, Places) {
        let [first, ..] = partitions;
        let mut table = Self::empty((first.plan, first.role, first.geometry), None);
        table.groups = Array::joined(&partitions.map(|partition| &partition.groups));
        table.lines = PlacedArray::joined(&partitions.map(|partition| &partition.lines));
        table.rests = PackedColumn::joined(&partitions.map(|partition| &partition.rests));
        table.crowded =
            partitions.iter().flat_map(|partition| &partition.crowded).copied().collect();
        table.count = partitions.iter().map(|partition| partition.count).sum();
        table.sample();
        let mut places = Places([table.numbers() as u32; PARTITIONS + 1]);
        for (place, partition) in places.0.iter_mut().zip(partitions) {
            *place = partition.first;
        }
        (table, places)
    }
}
