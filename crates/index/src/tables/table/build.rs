//! Building a table by one pass over ascending keys.

use crate::kernel::scan::{LANES, Line};
use crate::memory::array::Array;
use crate::memory::column::PackedColumn;
use crate::memory::placed::{PlacedArray, Placement};
use crate::plan::{Key, TablePlan, head, low};
use crate::tables::cells::{self, CellEnds, CellGroup, CrowdedGroup, GROUP_CELLS};
use crate::tables::geometry::Geometry;
use crate::tables::partition::{PARTITIONS, Partition};
use crate::tables::table::{Number, PLACES, Table};

impl Table {
    /// Builds the table of distinct keys, ascending.
    pub fn build(plan: TablePlan, role: usize, keys: &[Key]) -> Self {
        let mut builder = TableBuilder::new(plan, role, keys.len() as u64);
        for &key in keys {
            builder.push(key);
        }
        builder.finish()
    }
}

/// Takes the keys of a new table, or of one partition of it, in ascending order.
#[derive(Debug)]
pub struct TableBuilder {
    table: Table,
    /// The group of the last entry, its index in the whole table, and its ends so far.
    group: u32,
    ends: CellEnds,
    /// The numbers in the whole table of the first entry of the group, and of the next entry.
    first: u32,
    next: u32,
    /// An upper bound of the numbers in the whole table.
    places: usize,
}

impl TableBuilder {
    /// A builder of a table with at most `count` entries in memory. Memory for entries that do not
    /// come is not taken.
    ///
    /// # Panics
    /// When so many entries have no numbers.
    pub fn new(plan: TablePlan, role: usize, count: u64) -> Self {
        Self::placed(&Placement::Memory, plan, role, count)
    }

    /// The same, with the entries elsewhere. The directory is in memory.
    ///
    /// # Panics
    /// As [`Self::new`].
    pub fn placed(placement: &Placement, plan: TablePlan, role: usize, count: u64) -> Self {
        Self::of(placement, (plan, role), count, None)
    }

    fn of(
        placement: &Placement,
        (plan, role): (TablePlan, usize),
        count: u64,
        partition: Option<Partition>,
    ) -> Self {
        let geometry = Geometry::of(plan, count);
        let mut table = Table::empty((plan, role, geometry), partition);
        let places = count + u64::from(PLACES) * PARTITIONS as u64;
        let places = u32::try_from(places.next_multiple_of(PLACES.into()));
        let places = places.expect("a segment has at most 2^32 places") as usize;
        table.groups = Array::zeros(geometry.groups());
        table.lines = PlacedArray::<Line>::zeros(placement, places / LANES);
        table.rests = PackedColumn::placed(placement, geometry.rest_bits(), places);
        Self { table, group: 0, ends: [0; GROUP_CELLS], first: 0, next: 0, places }
    }

    /// A builder of the first partition of such a table: [`Self::finish_partition`] gives those of
    /// the others.
    ///
    /// # Panics
    /// When so many entries have no numbers.
    pub fn of_first_partition(plan: TablePlan, role: usize, count: u64) -> Self {
        Self::of(&Placement::Memory, (plan, role), count, Some(Partition::ALL[0]))
    }

    pub fn plan(&self) -> TablePlan {
        self.table.plan
    }

    /// An upper bound of the numbers of all entries.
    pub fn numbers(&self) -> usize {
        self.places - self.table.first as usize
    }

    /// Adds the next larger key and returns its number.
    #[inline]
    pub fn push(&mut self, key: Key) -> Number {
        let (head, cell_bits) = (head(key), self.table.geometry.cell_bits);
        let group = cells::group_of(head, cell_bits);
        if group != self.group {
            self.close_groups_before(group);
        }
        let number = self.next - self.table.first;
        self.table.lines.slot(number as usize / LANES).0[number as usize % LANES] = low(key);
        let rest = head & !(u32::MAX << self.table.geometry.rest_bits());
        self.table.rests.set(number as usize, rest.into());
        self.next += 1;
        let cell = head >> self.table.geometry.rest_bits();
        self.ends[cell as usize % GROUP_CELLS] = self.next - self.first;
        number
    }

    /// The whole table.
    pub fn finish(mut self) -> Table {
        self.close_groups_before(self.table.geometry.groups() as u32);
        let places = self.places();
        self.table.rests.truncate(places);
        self.table.lines.finish(places / LANES);
        self.table.sample();
        self.table
    }

    /// The table of one partition, and a builder of the next one, which lies behind it in memory.
    pub fn finish_partition(mut self) -> (Table, Option<Self>) {
        let groups = (self.table.geometry.groups() / PARTITIONS) as u32;
        let partition = self.table.partition.expect("it builds a partition");
        self.close_groups_before(self.table.first_group + groups);
        let Some(next) = partition.next() else { return (self.finish(), None) };
        let (places, mut table) = (self.places(), self.table);
        let mut rest = Table::empty((table.plan, table.role, table.geometry), Some(next));
        rest.first = self.next;
        rest.groups = table.groups.split_off(groups as usize);
        rest.lines = table.lines.split_off(places / LANES);
        rest.rests = table.rests.split_off(places);
        table.sample();
        (table, Some(Self { table: rest, ..self }))
    }

    /// The places of what was pushed, and those that stay empty behind it.
    fn places(&self) -> usize {
        (self.next.next_multiple_of(PLACES) - self.table.first) as usize
    }

    fn close_groups_before(&mut self, group: u32) {
        let per_partition = (self.table.geometry.groups() / PARTITIONS) as u32;
        let end = self.table.first_group + self.table.groups.len() as u32;
        while self.group < group.min(end) {
            self.close_group();
            self.group += 1;
            if self.group.is_multiple_of(per_partition) {
                self.next = self.next.next_multiple_of(PLACES);
            }
            (self.first, self.ends) = (self.next, [0; GROUP_CELLS]);
        }
    }

    fn close_group(&mut self) {
        let mut last = 0;
        for end in &mut self.ends {
            last = last.max(*end);
            *end = last;
        }
        let (group, is_crowded) = CellGroup::of(self.first, &self.ends);
        if is_crowded {
            self.table.crowded.push(CrowdedGroup { group: self.group, ends: self.ends });
        }
        let at = self.group - self.table.first_group;
        self.table.groups[at as usize] = group;
        self.table.count += u64::from(last);
    }
}
