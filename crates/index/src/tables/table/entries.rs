//! Iterating over a table.

use crate::plan::Key;
use crate::plan::fold::Head;
use crate::tables::line::Line;
use crate::tables::table::{Number, Table};

impl Table {
    /// All entries, ascending by key, with their numbers.
    pub fn entries(&self) -> TableEntries<'_> {
        TableEntries::new(self)
    }
}

/// The entries of a table, ascending by key.
#[derive(Debug)]
pub struct TableEntries<'a> {
    table: &'a Table,
    range: usize,
    /// The next line, the next slot in it, and a head near its entries.
    line: u32,
    slot: u32,
    near: Head,
    /// The next run of extra lines; the next line and slot in it once it has begun.
    extra: usize,
    extra_at: Option<(u32, u32)>,
}

impl<'a> TableEntries<'a> {
    fn new(table: &'a Table) -> Self {
        let range = table.directory.iter().position(|range| range >> 32 > 0).unwrap_or(0);
        let near = table.homes().first_head_in(range, 0);
        Self { table, range, line: 0, slot: 0, near, extra: 0, extra_at: None }
    }

    /// The next entry of a run of extra lines that precedes the next home in the lines.
    fn next_extra(&mut self, next_home: Option<u32>) -> Option<(Key, Number)> {
        let Table { geometry, extras, extra_lines, lines, .. } = self.table;
        let extra = extras.get(self.extra)?;
        if next_home.is_some_and(|home| home <= extra.home) {
            return None;
        }
        let near = self.table.homes().first_head(extra.home);
        let (at, slot) = self.extra_at.unwrap_or((extra.first, 0));
        let line = &extra_lines[at as usize];
        let head = line.head(geometry.layout, slot, near);
        let key = u64::from(head) << 32 | u64::from(line.low(slot));
        self.extra_at =
            if slot + 1 < line.count() { Some((at, slot + 1)) } else { Some((at + 1, 0)) };
        if self.extra_at == Some((extra.first + extra.count, 0)) {
            (self.extra, self.extra_at) = (self.extra + 1, None);
        }
        Some((key, (lines.len() as u32 + at) * geometry.layout.slots + slot))
    }

    /// Calls `each` with the next entries, to the end of their line unless extra lines come first;
    /// returns whether there were any.
    pub fn next_few(&mut self, mut each: impl FnMut((Key, Number))) -> bool {
        let Some(item) = self.next() else { return false };
        each(item);
        let Table { geometry, extras, lines, .. } = self.table;
        let is_due = extras.get(self.extra).is_some_and(|extra| extra.home < self.line);
        let Some(line) = lines.get(self.line as usize).filter(|_| !is_due) else { return true };
        let (first, heads) =
            (self.line * geometry.layout.slots, line.heads(geometry.layout, self.near));
        for slot in self.slot..line.count() {
            let key = u64::from(heads[slot as usize]) << 32 | u64::from(line.low(slot));
            each((key, first + slot));
        }
        self.slot = line.count();
        true
    }
}

impl Iterator for TableEntries<'_> {
    type Item = (Key, Number);

    #[inline]
    fn next(&mut self) -> Option<(Key, Number)> {
        let layout = self.table.geometry.layout;
        let lines = &*self.table.lines;
        while self.slot == lines.get(self.line as usize).map_or(0, Line::count) {
            if self.line as usize + 1 >= lines.len() {
                return self.next_extra(None);
            }
            (self.line, self.slot) = (self.line + 1, 0);
            let range = self.table.directory[self.range];
            if self.line >= (range as u32).wrapping_add((range >> 32) as u32)
                && self.range + 1 < self.table.directory.len()
            {
                self.range += 1;
            }
            self.near = self.table.homes().first_head_in(self.range, self.line);
        }
        let line = &lines[self.line as usize];
        let head = line.head(layout, self.slot, self.near);
        // An entry lies in its home or after it, so that few homes have to be known.
        if self.table.extras.get(self.extra).is_some_and(|extra| extra.home < self.line) {
            let home = self.table.homes().home(head);
            if let Some(extra) = self.next_extra(Some(home)) {
                return Some(extra);
            }
        }
        let number = self.line * layout.slots + self.slot;
        self.slot += 1;
        Some((u64::from(head) << 32 | u64::from(line.low(self.slot - 1)), number))
    }

    /// A line at a time.
    fn fold<B, F: FnMut(B, Self::Item) -> B>(mut self, init: B, mut each: F) -> B {
        let mut folded = Some(init);
        while self.next_few(|item| folded = folded.take().map(|folded| each(folded, item))) {}
        folded.expect("it is always put back")
    }
}
