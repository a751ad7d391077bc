//! Iterating over a table.

use crate::plan::Key;
use crate::tables::cells::{CellEnds, GROUP_BITS, GROUP_CELLS};
use crate::tables::table::{Number, Table, key_of};

impl Table {
    /// All entries, ascending by key, with their numbers.
    pub fn entries(&self) -> TableEntries<'_> {
        TableEntries { table: self, group: 0, ends: [0; GROUP_CELLS], cell: GROUP_CELLS, next: 0 }
    }
}

/// The entries of a table, ascending by key.
#[derive(Debug)]
pub struct TableEntries<'a> {
    table: &'a Table,
    /// The groups that were begun, where the cells of the last one end, and its next cell.
    group: usize,
    ends: CellEnds,
    cell: usize,
    /// The number of the next entry.
    next: Number,
}

impl TableEntries<'_> {
    /// Goes on to the cell of the next entry; false at the end.
    #[inline]
    fn seek(&mut self) -> bool {
        loop {
            match self.ends.get(self.cell) {
                Some(&end) if self.next < end => return true,
                Some(_) => self.cell += 1,
                None => {
                    let Some(group) = self.table.groups.get(self.group) else { return false };
                    let (first, at) = (group.first() - self.table.first, self.group as u32);
                    let at = self.table.first_group + at;
                    self.ends = group.ends(at, &self.table.crowded).map(|end| first + end);
                    (self.group, self.cell, self.next) = (self.group + 1, 0, first);
                }
            }
        }
    }

    /// The next entry, in the cell that was sought.
    #[inline]
    fn take(&mut self) -> (Key, Number) {
        let (table, number) = (self.table, self.next);
        let group = table.first_group + (self.group - 1) as u32;
        let cell = (group << GROUP_BITS | self.cell as u32) << table.geometry.rest_bits();
        let rest = table.rests.get(number as usize) as u32;
        self.next += 1;
        (key_of(cell | rest, table.low(number)), number)
    }

    /// Calls `each` with the next entries, to the end of their cell; returns whether there were
    /// any.
    #[inline]
    pub fn next_few(&mut self, mut each: impl FnMut((Key, Number))) -> bool {
        if !self.seek() {
            return false;
        }
        while self.next < self.ends[self.cell] {
            each(self.take());
        }
        true
    }
}

impl Iterator for TableEntries<'_> {
    type Item = (Key, Number);

    #[inline]
    fn next(&mut self) -> Option<(Key, Number)> {
        self.seek().then(|| self.take())
    }

    /// A cell at a time.
    fn fold<B, F: FnMut(B, Self::Item) -> B>(mut self, init: B, mut each: F) -> B {
        let mut folded = Some(init);
        while self.next_few(|item| folded = folded.take().map(|folded| each(folded, item))) {}
        folded.expect("it is always put back")
    }
}
