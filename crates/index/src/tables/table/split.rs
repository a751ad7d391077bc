//! Splitting a table into partitions, and joining partitions into a table, so that a merge can free
//! each partition of its inputs as soon as it is merged.
//!
//! A partition is a table of its own, with the same geometry and a directory whose other ranges
//! have no lines. It shares the memory of the whole table's lines; memory that neither needs any
//! more goes back to the system ([`crate::memory::pages`]). Partitions that are built for
//! one table share that table's memory. An entry that does not fit into its line stays in its
//! partition, in the extra lines if need be.

use std::ops::Range;

use crate::memory::array::Array;
use crate::tables::line::SPAN_MAX;
use crate::tables::line_of_key::LinesOfRange;
use crate::tables::partition::{PARTITIONS, Partition, Starts};
use crate::tables::table::{Extra, Number, Table};

/// Where the lines and extra lines of each partition start.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    slots: u32,
    /// All lines, including those after the last homes.
    lines: Starts,
    extra_lines: Starts,
}

impl Places {
    fn numbers(&self, partition: usize) -> u32 {
        (self.lines[partition + 1] - self.lines[partition]) * self.slots
    }

    /// The two runs of the whole table's numbers that belong to a partition, and the number in the
    /// partition at which each begins.
    pub fn runs(&self, partition: usize) -> [(Range<Number>, Number); 2] {
        let run = |starts: &Starts, behind: u32| {
            (behind + starts[partition]) * self.slots..(behind + starts[partition + 1]) * self.slots
        };
        let own = run(&self.lines, 0);
        let extra = run(&self.extra_lines, self.lines[PARTITIONS]);
        [(own, 0), (extra, self.numbers(partition))]
    }

    /// The partition of a number of the whole table, and the number in that partition.
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

    /// The number in the whole table of a number in a partition.
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
    /// Splits the table into partitions, which share its lines, and returns where its entries lie
    /// in them. `None` if the table is a partition itself, is too small, or has an entry that
    /// overflowed into the next partition (as earlier versions built them).
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

    /// Joins partitions into their table, and returns where their entries lie in it. The table
    /// shares their lines if they were built for one table.
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

    /// Where the lines of each partition start; `None` if the table has no partitions.
    pub(crate) fn partition_starts(&self) -> Option<Starts> {
        let ranges = self.directory.len() / PARTITIONS;
        if self.partition.is_some() || ranges == 0 {
            return None;
        }
        let start = |partition: usize| self.directory[partition * ranges] as u32;
        Some([0, start(1), start(2), start(3), self.homes_end()])
    }

    /// The directory of a partition.
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
