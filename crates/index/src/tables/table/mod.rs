//! One table: all fingerprints of some segments, sorted by a key, without slack.
//!
//! The low halves of the keys lie in one plane, 16 to a cache line; what their cells do not imply
//! of the heads lies in another, packed, and is read only where a low half is near. A look-up
//! visits a few cells ([`crate::tables::geometry`]). It takes two cache misses to each: one for the
//! group of the cell in the directory ([`crate::tables::cells`]), one for its entries, which now
//! and then lie in two lines. The misses of all cells overlap.
//!
//! The *number* of an entry is its place in the planes. The entries of each partition begin at a
//! multiple of 64, so that partitions are cut and joined without copying ([`split`]).
//!
//! [`build`] builds a table, [`entries`] iterates over it.
//!
//! Memory: 5 to 6 bytes an entry, a quarter to half a byte if the planes are in a file. Immutable;
//! built by one pass over sorted keys.

pub(crate) mod build;
pub(crate) mod entries;
pub(crate) mod split;

use std::ops::Range;

use bytemuck::Zeroable as _;

use crate::kernel::scan::{self, Candidate, CellRun, LANES, Line, ScanQuery};
use crate::kernel::{self, Simd};
use crate::memory::array::Array;
use crate::memory::column::PackedColumn;
use crate::memory::file::FileArray;
use crate::memory::placed::PlacedArray;
use crate::permutation::Permuted;
use crate::plan::fold;
use crate::plan::fold::Head;
use crate::plan::{Key, TablePlan, head, low};
use crate::tables::cells::{self, CellGroup, CrowdedGroup, GROUP_BITS};
use crate::tables::geometry;
use crate::tables::geometry::Geometry;
use crate::tables::partition::{PARTITIONS, Partition};

/// The place of an entry. Not every place has an entry.
pub(crate) type Number = u32;

/// The entries of each partition begin at a multiple of this.
const PLACES: u32 = 64;

/// Log2 of the numbers between two of a table's samples.
const SAMPLE_BITS: u32 = 10;

/// Lines of a cell that are prefetched: a crowd is read in order anyway.
const PREFETCHED_MAX: u32 = 32;

/// Runs that are scanned together.
const RUNS_AT_A_TIME: usize = 32;

/// The most entries that are scanned together: far more than cells have unless they are crowded.
const ENTRIES_AT_A_TIME: u32 = 1 << 12;

/// An immutable sorted table.
#[derive(Debug)]
pub struct Table {
    plan: TablePlan,
    /// The index of the table in its plan.
    role: usize,
    /// The partition of its keys, unless it is a whole table, and the index of its first group in
    /// the whole table.
    partition: Option<Partition>,
    first_group: u32,
    geometry: Geometry,
    /// The flips that lead from a cell to the cells near it, the nearest first; of folded heads,
    /// for each syndrome.
    flips: Box<[Box<[Head]>]>,
    /// The directory. Its numbers are those of the whole table.
    groups: Array<CellGroup>,
    /// By group.
    crowded: Vec<CrowdedGroup>,
    /// The low halves of the keys.
    lines: PlacedArray<Line>,
    /// What the cells do not imply of their heads.
    rests: PackedColumn,
    /// The number in the whole table of the first place.
    first: u32,
    /// For one place in `1 << SAMPLE_BITS`, the last group that begins at it or before.
    samples: Box<[u32]>,
    count: u64,
}

impl Table {
    /// The number of cells that a look-up visits, those of other partitions included.
    pub fn cell_count(&self, radius: u32) -> usize {
        self.cells(0, radius).1.len()
    }

    /// The first step of a look-up: prefetches where the cells are described.
    pub fn prefetch(&self, query: Permuted, radius: u32) {
        let groups = &*self.groups;
        let (cell, flips) = self.cells(query, radius);
        for cell in flips.iter().map(|flips| cell ^ flips).filter(|&cell| self.has(cell)) {
            kernel::prefetch(groups, self.group_of(cell));
        }
    }

    /// The second step: appends a [`CellRun`] for each cell near the query, those with the fewest
    /// flips first, and prefetches its lines.
    pub(crate) fn locate(&self, query: Permuted, radius: u32, runs: &mut Vec<CellRun>) {
        // What the loop needs is taken from the table once.
        let (groups, lines, crowded) = (&*self.groups, self.lines.in_memory(), &*self.crowded);
        let before = runs.len();
        let Self { geometry, partition, first_group, first: base, .. } = *self;
        let (cell, flips) = self.cells(query, radius);
        runs.extend(flips.iter().map(|flips| {
            let cell = cell ^ flips;
            if partition.is_some_and(|partition| partition != Partition::of(cell)) {
                return CellRun { cell, first: 0, end: 0 };
            }
            let at = cells::group_of(cell, geometry.cell_bits);
            let group = &groups[at.wrapping_sub(first_group) as usize];
            let index = cell.wrapping_shr(geometry.rest_bits());
            let (first, end) = group.entries(index, at, crowded);
            let (first, end) = (first.wrapping_sub(base), end.wrapping_sub(base));
            let (line, last_line) = (first / LANES as u32, end.wrapping_sub(1) / LANES as u32);
            // Often the same: a branch on that would be mispredicted.
            kernel::prefetch(lines, line);
            kernel::prefetch(lines, last_line);
            if end.wrapping_sub(first) > 2 * LANES as u32 {
                let more = last_line.min(line.wrapping_add(PREFETCHED_MAX));
                (line + 1..more).for_each(|line| kernel::prefetch(lines, line));
            }
            CellRun { cell, first, end }
        }));
        if let Some(file) = self.lines.file() {
            runs[before..].iter().for_each(|run| file.will_need(lines_of(run)));
        }
    }

    /// The third step: appends the entries of the located cells whose low halves are near, and
    /// prefetches what is left of their heads. Returns how many runs it has scanned: after a crowd
    /// the rest is left to [`Self::compare`], so that no query collects more than some thousands.
    pub(crate) fn scan(
        &self,
        query: Permuted,
        distance: u32,
        runs: &[CellRun],
        candidates: &mut Vec<Candidate>,
    ) -> usize {
        let (before, mut scanned) = (candidates.len(), 0);
        // The first run is that of the query's own cell.
        let cell = runs.first().map_or(0, |run| run.cell);
        for few in runs.chunks(RUNS_AT_A_TIME) {
            let entries: u32 = few.iter().map(|run| run.end.wrapping_sub(run.first)).sum();
            if entries.max((candidates.len() - before) as u32) > ENTRIES_AT_A_TIME {
                break;
            }
            self.scan_runs((query, distance, cell), few, candidates);
            scanned += few.len();
        }
        for candidate in &candidates[before..] {
            self.rests.prefetch(candidate.entry as usize);
        }
        scanned
    }

    /// The last step: calls `found` with every fingerprint within `distance` of the query among the
    /// candidates, and in the runs that were not scanned, each once.
    pub(crate) fn compare(
        &self,
        (query, distance): (Permuted, u32),
        (candidates, rest): (&[Candidate], &[CellRun]),
        found: &mut impl FnMut(Permuted),
    ) {
        self.verify((query, distance), candidates, found);
        let mut near = Vec::new();
        for run in rest {
            let cell = self.cell(head(self.plan.key(query)));
            let mut first = run.first;
            while first < run.end {
                let end = run.end.min(first.saturating_add(ENTRIES_AT_A_TIME));
                near.clear();
                let some = [CellRun { first, end, ..*run }];
                self.scan_runs((query, distance, cell), &some, &mut near);
                self.verify((query, distance), &near, found);
                first = end;
            }
        }
    }

    /// Appends the entries of some runs whose low halves are near. `cell` is that of the query.
    ///
    /// A fingerprint differs from the query in the flips of its cell, or in at least one bit if
    /// heads are folded, so its low half may differ in fewer bits than the distance. At distance 12
    /// that leaves one candidate in 200 entries instead of one in nine, each of which has to be
    /// verified; at distance 3, among ten million like text, 24 a look-up instead of 36.
    #[inline]
    fn scan_runs(
        &self,
        (query, distance, cell): (Permuted, u32, Head),
        runs: &[CellRun],
        candidates: &mut Vec<Candidate>,
    ) {
        let low = low(query.rotate_left(self.plan.first_bit));
        if self.plan.folded {
            let distance_elsewhere = distance.saturating_sub(1);
            let asked = ScanQuery { low, cell, distance, distance_elsewhere };
            return self.scan_lines(runs, asked, candidates);
        }
        let flips = |run: &CellRun| (run.cell ^ cell).count_ones();
        for runs in runs.chunk_by(|a, b| flips(a) == flips(b)) {
            let Some(left) = distance.checked_sub(flips(&runs[0])) else { break };
            let asked = ScanQuery { low, cell, distance: left, distance_elsewhere: left };
            self.scan_lines(runs, asked, candidates);
        }
    }

    #[inline]
    fn scan_lines(&self, runs: &[CellRun], asked: ScanQuery, candidates: &mut Vec<Candidate>) {
        match self.lines.file() {
            None => scan::scan(Simd::best(), self.lines.in_memory(), runs, asked, candidates),
            Some(file) => scan_file(file, runs, asked, candidates),
        }
    }

    /// Compares the whole fingerprints of candidates.
    fn verify(
        &self,
        (query, distance): (Permuted, u32),
        candidates: &[Candidate],
        found: &mut impl FnMut(Permuted),
    ) {
        let mut verified = |value: Permuted| {
            if (value ^ query).count_ones() <= distance {
                found(value);
            }
        };
        if self.file_bytes() > 0 {
            let values = candidates.iter().map(|near| self.value_at(near.cell, near.entry));
            return values.for_each(verified);
        }
        let (lines, rest) = (self.lines.in_memory(), self.rests.get_in_memory());
        for &Candidate { cell, entry } in candidates {
            let low = lines[entry as usize / LANES].0[entry as usize % LANES];
            verified(self.value_of(cell, rest(entry as usize), low));
        }
    }

    /// Prefetches where [`Self::find`] begins.
    pub fn prefetch_value(&self, value: Permuted) {
        let head = head(self.plan.key(value));
        if self.has(head) {
            kernel::prefetch(&self.groups, self.group_of(self.cell(head)));
        }
    }

    /// Prefetches what the prefetched data leads to.
    pub fn locate_value(&self, value: Permuted) {
        let head = head(self.plan.key(value));
        if self.has(head) {
            let first = self.entries_of(self.cell(head)).start;
            self.lines.prefetch(first as usize / LANES);
            self.rests.prefetch(first as usize);
        }
    }

    /// The number of a fingerprint's entry, if the table has it.
    pub fn find(&self, value: Permuted) -> Option<Number> {
        let key = self.plan.key(value);
        if !self.has(head(key)) {
            return None;
        }
        let mut entries = self.entries_of(self.cell(head(key)));
        // A crowd is halved until it is as short as other cells; there a search would cost more.
        while entries.len() > LANES {
            let middle = entries.start.midpoint(entries.end);
            if self.rest_of_key(middle) <= self.rest_in(key) {
                entries.start = middle;
            } else {
                entries.end = middle;
            }
        }
        entries.find(|&number| {
            self.low(number) == low(key) && self.rest_of_key(number) == self.rest_in(key)
        })
    }

    /// The fingerprint with a number that [`Self::find`] or [`Self::entries`] gave.
    pub fn value(&self, number: Number) -> Permuted {
        let at = (number >> SAMPLE_BITS) as usize;
        let last = self.samples.get(at + 1).map_or(self.groups.len() - 1, |&last| last as usize);
        let from = self.samples[at] as usize;
        let groups = &self.groups[from..=last];
        let number_in_whole = self.first + number;
        let after = groups.partition_point(|group| group.first() <= number_in_whole);
        let group = from + after - 1;
        let in_group = number_in_whole - self.groups[group].first();
        let ends = self.groups[group].ends(self.first_group + group as u32, &self.crowded);
        let cell = ends.partition_point(|&end| end <= in_group) as u32;
        let cell = (self.first_group + group as u32) << GROUP_BITS | cell;
        let cell = cell << self.geometry.rest_bits();
        self.value_at(cell, number)
    }

    /// The index of the table in its plan.
    pub fn role(&self) -> usize {
        self.role
    }

    pub fn plan(&self) -> TablePlan {
        self.plan
    }

    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The number of entries.
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether the table has no entries.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// One more than the largest number that an entry can have.
    pub fn numbers(&self) -> usize {
        self.lines.len() * LANES
    }

    /// Whether its entries are in temporary files.
    pub fn is_temporary(&self) -> bool {
        self.lines.is_temporary()
    }

    /// The bytes in files.
    pub fn file_bytes(&self) -> u64 {
        self.lines.file_bytes() + self.rests.file_bytes()
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.flips.iter().map(|flips| size_of_val(&**flips)).sum::<usize>()
            + self.groups.bytes()
            + self.crowded.capacity() * size_of::<CrowdedGroup>()
            + self.lines.bytes()
            + self.rests.bytes()
            + size_of_val(&*self.samples)
    }

    /// The index of its partition; `None` if it is a whole table.
    pub(crate) fn partition(&self) -> Option<usize> {
        self.partition.map(Partition::index)
    }

    /// The parts that an image stores.
    pub(crate) fn parts(
        &self,
    ) -> (&[CellGroup], &[CrowdedGroup], &PlacedArray<Line>, &PackedColumn) {
        (&self.groups, &self.crowded, &self.lines, &self.rests)
    }

    /// Assembles a table from the parts of an image; `None` if they are inconsistent.
    pub(crate) fn from_parts(
        (plan, role, geometry, partition): (TablePlan, usize, Geometry, Option<usize>),
        (groups, crowded): (Array<CellGroup>, Vec<CrowdedGroup>),
        (lines, rests): (PlacedArray<Line>, PlacedArray<u64>),
    ) -> Option<Self> {
        let partition = match partition {
            Some(index) => Some(*Partition::ALL.get(index)?),
            None => None,
        };
        let rests = PackedColumn::of_words(geometry.rest_bits(), rests);
        let table = Self::empty((plan, role, geometry), partition);
        let first = groups.first()?.first();
        let mut table = Self { groups, crowded, lines, rests, first, ..table };
        table.count = table.checked_count()?;
        table.sample();
        Some(table)
    }

    fn empty(
        (plan, role, geometry): (TablePlan, usize, Geometry),
        partition: Option<Partition>,
    ) -> Self {
        let flips = if plan.folded {
            fold::flips(geometry.cell_bits, plan.radius)
        } else {
            Box::new([geometry::flips(geometry.cell_bits, plan.radius)])
        };
        Self {
            plan,
            role,
            partition,
            first_group: partition.map_or(0, |partition| {
                (partition.index() * (geometry.groups() / PARTITIONS)) as u32
            }),
            geometry,
            flips,
            groups: Array::default(),
            crowded: Vec::new(),
            lines: PlacedArray::default(),
            rests: PackedColumn::new(geometry.rest_bits(), 0),
            first: 0,
            samples: Box::default(),
            count: 0,
        }
    }

    /// The number of entries; `None` unless every reference from one part to another is right.
    fn checked_count(&self) -> Option<u64> {
        let per_partition = self.geometry.groups() / PARTITIONS;
        let groups = self.partition.map_or(self.geometry.groups(), |_| per_partition);
        let (mut count, mut crowded) = (0, self.crowded.iter());
        let mut next = if self.partition.is_some() { self.first } else { 0 };
        if self.groups.len() != groups || !next.is_multiple_of(PLACES) {
            return None;
        }
        for (group, at) in self.groups.iter().zip(self.first_group..) {
            if (at as usize).is_multiple_of(per_partition) {
                next = next.checked_next_multiple_of(PLACES)?;
            }
            let ends = group.ends(at, &self.crowded);
            let [.., last] = ends;
            let is_here = !group.is_crowded() || crowded.next()?.group == at;
            if group.first() != next || !ends.is_sorted() || !is_here {
                return None;
            }
            count += u64::from(last);
            next = next.checked_add(last)?;
        }
        let places = next.checked_next_multiple_of(PLACES)? - self.first;
        let bits = u64::from(places) * u64::from(self.geometry.rest_bits());
        let has_all =
            self.numbers() == places as usize && self.rests.words() as u64 >= bits.div_ceil(64);
        (has_all && crowded.next().is_none()).then_some(count)
    }

    /// Notes in which group every so many places lie.
    fn sample(&mut self) {
        let mut samples = vec![0; self.numbers().div_ceil(1 << SAMPLE_BITS)];
        let mut next = 0;
        for (group, at) in self.groups.iter().zip(0..) {
            // The samples before the group belong to the one before it.
            while next < samples.len()
                && ((next << SAMPLE_BITS) as u32) < group.first() - self.first
            {
                samples[next] = at - 1;
                next += 1;
            }
        }
        samples[next..].fill(self.groups.len().saturating_sub(1) as u32);
        self.samples = samples.into();
    }

    /// The cell of a head.
    #[inline]
    fn cell(&self, head: Head) -> Head {
        head & u32::MAX.wrapping_shl(self.geometry.rest_bits())
    }

    /// The cell of a query, and the flips that lead to the cells near it.
    #[inline]
    fn cells(&self, query: Permuted, radius: u32) -> (Head, &[Head]) {
        let head = head(self.plan.key(query));
        let flips = if self.plan.folded {
            let flips = &self.flips[fold::syndrome(head)];
            if radius == 0 { &flips[..1] } else { flips }
        } else {
            let near = |flips: &Head| flips.count_ones() <= radius;
            &self.flips[0][..self.flips[0].partition_point(near)]
        };
        (self.cell(head), flips)
    }

    /// Whether a head belongs here.
    #[inline]
    fn has(&self, head: Head) -> bool {
        self.partition.is_none_or(|partition| partition == Partition::of(head))
    }

    /// The index of the group of a cell of this table.
    #[inline]
    fn group_of(&self, cell: Head) -> u32 {
        cells::group_of(cell, self.geometry.cell_bits).wrapping_sub(self.first_group)
    }

    /// The numbers of the entries of a cell of this table.
    fn entries_of(&self, cell: Head) -> Range<Number> {
        let group = &self.groups[self.group_of(cell) as usize];
        let (index, at) =
            (cell >> self.geometry.rest_bits(), self.first_group + self.group_of(cell));
        let (first, end) = group.entries(index, at, &self.crowded);
        first - self.first..end - self.first
    }

    /// The fingerprint of an entry, of which its cell is known.
    #[inline]
    fn value_at(&self, cell: Head, number: Number) -> Permuted {
        self.value_of(cell, self.rests.get(number as usize), self.low(number))
    }

    /// The fingerprint with these parts of its key.
    #[inline]
    fn value_of(&self, cell: Head, rest: u64, low: u32) -> Permuted {
        self.plan.value(key_of(cell | rest as u32, low))
    }

    /// The low half of the key of an entry.
    #[inline]
    fn low(&self, number: Number) -> u32 {
        self.lines.get(number as usize / LANES).0[number as usize % LANES]
    }

    /// What the cell of an entry does not imply of its key. Keys of one cell are in its order.
    #[inline]
    fn rest_of_key(&self, number: Number) -> Key {
        self.rests.get(number as usize) << 32 | u64::from(self.low(number))
    }

    /// The same of a key.
    #[inline]
    fn rest_in(&self, key: Key) -> Key {
        key & !(u64::MAX.wrapping_shl(32 + self.geometry.rest_bits()))
    }
}

/// The lines of some entries.
fn lines_of(run: &CellRun) -> Range<usize> {
    let (first, end) = (run.first as usize, run.end as usize);
    if first == end { 0..0 } else { first / LANES..end.div_ceil(LANES) }
}

/// Scans runs of entries whose lines are in a file.
#[cold]
fn scan_file(
    file: &FileArray<Line>,
    runs: &[CellRun],
    asked: ScanQuery,
    candidates: &mut Vec<Candidate>,
) {
    let mut lines = Vec::new();
    for run in runs {
        let range = lines_of(run);
        let (first, before) = ((range.start * LANES) as u32, candidates.len());
        lines.resize(range.len(), Line::zeroed());
        file.read(range.start, &mut lines);
        let here = CellRun { cell: run.cell, first: run.first - first, end: run.end - first };
        if !lines.is_empty() {
            scan::scan(Simd::best(), &lines, &[here], asked, candidates);
        }
        candidates[before..].iter_mut().for_each(|candidate| candidate.entry += first);
    }
}

/// The key of an entry.
fn key_of(head: Head, low: u32) -> Key {
    u64::from(head) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests;
