//! Building a table: counted first, then filled by one pass over ascending keys.
//!
//! The counts also decide how fine the ranges of the table are. Within a range, entries are placed
//! as if they were spread evenly. If their counts in fine ranges vary no more than those of random
//! entries, they are, and the few ranges of the plain geometry will do.
#![expect(clippy::cast_precision_loss, reason = "the variance is only compared with a threshold")]

use std::borrow::Cow;

use crate::memory::array::Array;
use crate::plan::{Key, TablePlan, head, low};
use crate::tables::geometry::Geometry;
use crate::tables::line::{Line, SLOTS_MAX, SPAN_MAX};
use crate::tables::line_of_key::LinesOfRange;
use crate::tables::partition::{PARTITIONS, Partition};
use crate::tables::table::{Extra, Number, Table};

impl Table {
    /// Builds the table of distinct keys, ascending.
    pub fn build(plan: TablePlan, role: usize, keys: &[Key]) -> Self {
        let mut counts = EntryCounts::new(plan, keys.len() as u64);
        for &key in keys {
            counts.add(key);
        }
        let mut builder = TableBuilder::new(role, &counts);
        for &key in keys {
            builder.push(key);
        }
        builder.finish()
    }
}

/// Entries are skewed if the variance of their counts in fine ranges is this many times the mean.
/// For random entries the two are equal.
const SKEWED: f64 = 3.0;

/// The number of entries of each range of a table to be built.
#[derive(Debug)]
pub struct EntryCounts {
    plan: TablePlan,
    expected: u64,
    /// That of entries without skew.
    plain: Geometry,
    /// That of skewed ones, whose ranges are counted.
    fine: Geometry,
    ranges: Vec<u32>,
}

impl EntryCounts {
    /// No entries yet, with about `count` expected.
    pub fn new(plan: TablePlan, count: u64) -> Self {
        let plain = Geometry::of(plan, count);
        let fine = plain.fine(count);
        Self { plan, expected: count, plain, fine, ranges: vec![0; 1 << fine.range_bits] }
    }

    pub fn plan(&self) -> TablePlan {
        self.plan
    }

    /// The expected number of entries.
    pub fn expected(&self) -> u64 {
        self.expected
    }

    /// Counts the entries of a table with the same plan, a line at a time. The entries of a line
    /// that spans ranges all count for its first range: a range whose count is off by a few entries
    /// is filled a little differently, which changes nothing else.
    pub fn add_lines(&mut self, table: &Table) {
        for (head, entries) in table.lines_by_head() {
            self.ranges[(head >> (32 - self.fine.range_bits)) as usize] += entries;
        }
    }

    /// The geometry of the table, its directory, and the number of its lines.
    fn directory(&self) -> (Geometry, Array<LinesOfRange>, u64) {
        let (geometry, ranges) = if self.is_skewed() {
            (self.fine, Cow::Borrowed(&self.ranges))
        } else {
            (self.plain, Cow::Owned(self.plain_ranges().map(|fine| fine.iter().sum()).collect()))
        };
        let mut directory = Array::zeros(ranges.len());
        let mut next = 0_u64;
        for (range, &entries) in directory.iter_mut().zip(&*ranges) {
            let lines = u64::from(geometry.lines_of_range(entries));
            *range = next | lines << 32;
            next += lines;
        }
        (geometry, directory, next)
    }

    /// The counts in each range of the plain geometry.
    fn plain_ranges(&self) -> impl Iterator<Item = &[u32]> {
        self.ranges.chunks(1 << (self.fine.range_bits - self.plain.range_bits))
    }

    fn is_skewed(&self) -> bool {
        let (mut squares, mut entries) = (0.0, 0.0);
        for counts in self.plain_ranges() {
            let all: f64 = counts.iter().map(|&count| f64::from(count)).sum();
            let mean = all / counts.len() as f64;
            squares += counts.iter().map(|&count| (f64::from(count) - mean).powi(2)).sum::<f64>();
            entries += all;
        }
        squares > SKEWED * entries
    }

    pub fn add(&mut self, key: Key) {
        self.ranges[(key >> (64 - self.fine.range_bits)) as usize] += 1;
    }
}

/// Takes the keys of a new table in ascending order.
#[derive(Debug)]
pub struct TableBuilder {
    table: Table,
    /// Where the lines of each partition end, since an entry that overflows stays in its partition;
    /// for the last one including the lines after the last home.
    ends: [u32; PARTITIONS],
    /// The line that is being filled, its keys and their count.
    line: u32,
    open: [Key; SLOTS_MAX],
    count: u32,
    /// The home of the last entry.
    home: u32,
    extra_lines: Vec<Line>,
}

impl TableBuilder {
    pub fn new(role: usize, counts: &EntryCounts) -> Self {
        let (geometry, directory, homes) = counts.directory();
        let mut table = Table::empty(counts.plan, role, geometry);
        table.directory = directory;
        table.lines = Array::zeros(homes as usize + SPAN_MAX as usize);
        let end = table.lines.len() as u32;
        let ends = table
            .partition_starts()
            .map_or([end; PARTITIONS], |[_, one, two, three, _]| [one, two, three, end]);
        Self::of(table, ends)
    }

    /// Builders of its partitions, if it has partitions. Their tables can be joined without
    /// copying.
    pub fn partitions(role: usize, counts: &EntryCounts) -> Option<[Self; PARTITIONS]> {
        let (geometry, directory, _) = counts.directory();
        let mut whole = Table::empty(counts.plan, role, geometry);
        whole.directory = directory;
        let starts = whole.partition_starts()?;
        let lines = Partition::ALL.map(|partition| partition.lines(&starts).len());
        let lines: [Array<Line>; PARTITIONS] =
            Array::zeros_in_parts(&lines).try_into().expect("as many as were asked for");
        let mut partitions = Partition::ALL.into_iter();
        Some(lines.map(|lines| {
            let mut table = Table::empty(counts.plan, role, geometry);
            table.partition = partitions.next();
            table.directory = whole.directory_in(table.partition, &starts);
            let end = lines.len() as u32;
            table.lines = lines;
            Self::of(table, [end; PARTITIONS])
        }))
    }

    fn of(table: Table, ends: [u32; PARTITIONS]) -> Self {
        assert!(table.is_numbered(), "a segment has at most 2^32 slots");
        Self {
            table,
            ends,
            line: 0,
            open: [0; SLOTS_MAX],
            count: 0,
            home: 0,
            extra_lines: Vec::new(),
        }
    }

    pub fn plan(&self) -> TablePlan {
        self.table.plan
    }

    /// An upper bound of the numbers of all entries that are not in extra lines.
    pub fn numbers(&self) -> usize {
        self.table.numbers()
    }

    /// Adds the next larger key and returns its number.
    #[inline]
    pub fn push(&mut self, key: Key) -> Number {
        let slots = self.table.geometry.layout.slots;
        let home = self.table.homes().home(head(key));
        if home != self.home {
            self.close_homes_before(home);
        }
        if home > self.line {
            self.close_line(home);
        } else if self.count == slots {
            let end = self.ends.iter().find(|end| home < **end);
            if self.line == home + SPAN_MAX || Some(&(self.line + 1)) == end {
                return self.push_extra(key);
            }
            self.close_line(self.line + 1);
        }
        let number = self.line * slots + self.count;
        self.open[self.count as usize] = key;
        self.count += 1;
        number
    }

    pub fn finish(mut self) -> Table {
        self.close_homes_before(self.table.homes_end());
        self.close_line(self.line);
        self.table.extra_lines = Array::copied(&self.extra_lines);
        assert!(self.table.is_numbered(), "a segment has at most 2^32 slots");
        self.table
    }

    /// Closes the line that is being filled, and begins another.
    fn close_line(&mut self, next: u32) {
        let line = &mut self.table.lines[self.line as usize];
        line.fill(self.table.geometry.layout, &self.open, self.count);
        self.table.count += u64::from(self.count);
        (self.line, self.open, self.count) = (next, [0; SLOTS_MAX], 0);
    }

    /// Closes all homes before `home`: records in how many lines their entries continue.
    fn close_homes_before(&mut self, home: u32) {
        for closed in self.home..home.min(self.line) {
            self.table.lines[closed as usize].set_span(self.line - closed);
        }
        self.home = home;
    }

    #[cold]
    fn push_extra(&mut self, key: Key) -> Number {
        let layout = self.table.geometry.layout;
        self.table.count += 1;
        let next = self.extra_lines.len() as u32;
        let same_home = self.table.extras.last().is_some_and(|extra| extra.home == self.home);
        if !same_home {
            self.table.lines[self.home as usize].set_extra();
            self.table.extras.push(Extra { home: self.home, first: next, count: 0 });
        }
        let full = self.extra_lines.last().is_none_or(|line| line.count() == layout.slots);
        if !same_home || full {
            self.extra_lines.push(bytemuck::Zeroable::zeroed());
            self.table.extras.last_mut().expect("it was pushed").count += 1;
        }
        let at = self.extra_lines.len() - 1;
        let line = &mut self.extra_lines[at];
        let number = (self.table.lines.len() as u32 + at as u32) * layout.slots + line.count();
        line.push(layout, head(key), low(key));
        number
    }
}
