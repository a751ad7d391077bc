//! A table in quarters: what a merge takes and makes one after the other, so that what it is done with goes.
//!
//! The quarters are those of all keys: whose first two bits are the same. A quarter is a table of its own,
//! with the same geometry and a directory whose other ranges have no lines. It shares the memory of the
//! whole's lines, which goes back to the system when neither is there any more ([`crate::index::memory::pages`]); built as
//! a quarter, it shares that of the whole which all of them become. What does not fit into its line stays in its
//! quarter, behind the table if need be.

use std::ops::Range;

use crate::index::memory::array::Array;
use crate::index::tables::homes::LinesOfRange;
use crate::index::tables::line::SPAN_MAX;
use crate::index::tables::partition::{PARTITIONS, Partition, Starts};
use crate::index::tables::table::{Extra, Number, Table};

/// Where the lines, and those behind the table, of each quarter start.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    slots: u32,
    /// All lines, those behind the last homes included.
    lines: Starts,
    extra_lines: Starts,
}

impl Places {
    fn numbers(&self, partition: usize) -> u32 {
        (self.lines[partition + 1] - self.lines[partition]) * self.slots
    }

    /// The runs of a whole table's numbers that are a quarter's, and where in it each begins.
    pub fn runs(&self, partition: usize) -> [(Range<Number>, Number); 2] {
        let run = |starts: &Starts, behind: u32| {
            (behind + starts[partition]) * self.slots..(behind + starts[partition + 1]) * self.slots
        };
        let own = run(&self.lines, 0);
        let extra = run(&self.extra_lines, self.lines[PARTITIONS]);
        [(own, 0), (extra, self.numbers(partition))]
    }

    /// The quarter of a whole table's number, and the number in there.
    pub fn in_partition(&self, number: Number) -> (usize, Number) {
        let after = self.lines[PARTITIONS] * self.slots;
        let (starts, of) = match number.checked_sub(after) {
            None => (&self.lines, number),
            Some(extra) => (&self.extra_lines, extra),
        };
        let partition = starts[1..].partition_point(|start| start * self.slots <= of);
        let within = of - starts[partition] * self.slots;
        (partition, within + if number < after { 0 } else { self.numbers(partition) })
    }

    /// The number in the whole table of one in a quarter.
    pub fn in_whole(&self, partition: usize, number: Number) -> Number {
        match number.checked_sub(self.numbers(partition)) {
            None => self.lines[partition] * self.slots + number,
            Some(extra) => {
                (self.lines[PARTITIONS] + self.extra_lines[partition]) * self.slots + extra
            }
        }
    }
}

impl Table {
    /// Its quarters, which share its lines, and where in them its entries lie. `None` where it is one, is too small
    /// to have them, or has an entry that was moved on into the next one (as earlier versions made them).
    pub fn split(&self) -> Option<([Self; PARTITIONS], Places)> {
        let starts = self.partition_starts()?;
        let leaves = |end: u32| {
            let last = end.saturating_sub(SPAN_MAX)..end;
            last.into_iter().any(|line| line + self.lines[line as usize].span() >= end)
        };
        if starts[1..PARTITIONS].iter().any(|&end| leaves(end)) {
            return None;
        }
        let places = self.places(&starts);
        let partitions = Partition::ALL.map(|partition| {
            let lines = partition.lines(&starts);
            let (start, own) =
                (lines.start as u32, |extra: &Extra| lines.contains(&(extra.home as usize)));
            let extra_from = places.extra_lines[partition.index()];
            let extra_lines =
                extra_from as usize..places.extra_lines[partition.index() + 1] as usize;
            let extras = self.extras.iter().filter(|extra| own(extra)).map(|extra| Extra {
                home: extra.home - start,
                first: extra.first - extra_from,
                count: extra.count,
            });
            let mut table = Self::empty(self.plan, self.role, self.geometry);
            table.partition = Some(partition);
            table.directory = self.directory_in(table.partition, &starts);
            table.extras = extras.collect();
            table.extra_lines = Array::copied(&self.extra_lines[extra_lines]);
            table.lines = self.lines.share(lines);
            let all = table.lines.iter().chain(table.extra_lines.iter());
            table.count = all.map(|line| u64::from(line.count())).sum();
            table
        });
        Some((partitions, places))
    }

    /// The table whose quarters these are, and where their entries lie in it. Its lines are theirs where
    /// they were built for it.
    pub fn joined(partitions: [&Self; PARTITIONS]) -> (Self, Places) {
        let [first, ..] = partitions;
        let mut table = Self::empty(first.plan, first.role, first.geometry);
        let (mut lines, mut extra_lines) = ([0; PARTITIONS + 1], [0; PARTITIONS + 1]);
        let mut directory = Array::zeros(first.directory.len());
        let mut extra = Vec::new();
        for (at, partition) in partitions.into_iter().enumerate() {
            for (to, &range) in directory.iter_mut().zip(partition.directory.iter()) {
                if range >> 32 > 0 {
                    *to = range + u64::from(lines[at]);
                }
            }
            table.extras.extend(partition.extras.iter().map(|extra| Extra {
                home: extra.home + lines[at],
                first: extra.first + extra_lines[at],
                count: extra.count,
            }));
            extra.extend_from_slice(&partition.extra_lines);
            table.count += partition.count;
            lines[at + 1] = lines[at] + partition.lines.len() as u32;
            extra_lines[at + 1] = extra_lines[at] + partition.extra_lines.len() as u32;
        }
        table.directory = directory;
        table.extra_lines = Array::copied(&extra);
        table.lines = Array::joined(&partitions.map(|partition| &partition.lines));
        let places = Places { slots: table.geometry.layout.slots, lines, extra_lines };
        (table, places)
    }

    /// Where the lines of each quarter start; `None` where there are none.
    pub(crate) fn partition_starts(&self) -> Option<Starts> {
        let ranges = self.directory.len() / PARTITIONS;
        if self.partition.is_some() || ranges == 0 {
            return None;
        }
        let start = |partition: usize| self.directory[partition * ranges] as u32;
        Some([0, start(1), start(2), start(3), self.homes_end()])
    }

    /// The directory of a quarter.
    pub(crate) fn directory_in(
        &self,
        partition: Option<Partition>,
        starts: &Starts,
    ) -> Array<LinesOfRange> {
        let mut directory = Array::copied(&self.directory);
        let Some(partition) = partition else { return directory };
        let (start, end) = (starts[partition.index()], starts[partition.index() + 1]);
        for at in 0..directory.len() {
            directory[at] = if partition.has_range(at, &self.directory) {
                self.directory[at] - u64::from(start)
            } else if self.directory[at] as u32 >= end {
                u64::from(end - start)
            } else {
                0
            };
        }
        directory
    }

    fn places(&self, starts: &Starts) -> Places {
        let mut lines = *starts;
        lines[PARTITIONS] += SPAN_MAX;
        let extra_lines = starts.map(|start| {
            let before = self.extras.partition_point(|extra| extra.home < start);
            self.extras.get(before).map_or(self.extra_lines.len() as u32, |extra| extra.first)
        });
        Places { slots: self.geometry.layout.slots, lines, extra_lines }
    }
}
