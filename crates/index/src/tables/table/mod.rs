//! One table: all fingerprints of some segments, sorted by a key, in lines of one cache line each.
//!
//! A probe costs one cache line, and with a probability of a tenth to a quarter the next one. The
//! directory is small enough for the second-level cache, and the lines of all probes of a look-up
//! are known before any is read, so that their misses overlap. [`crate::tables::geometry`]
//! defines where a key belongs, [`crate::tables::line`] what a line contains.
//!
//! [`build`] builds a table, [`entries`] iterates over it, [`split`] splits it into partitions for
//! a merge.
//!
//! Memory: about 7 to 10 bytes an entry. Immutable; built by one pass over sorted keys.

pub(crate) mod build;
pub(crate) mod entries;
pub(crate) mod split;

use std::ops::RangeInclusive;

use crate::kernel::scan::{self, LineMatches, Pattern, SCAN_MAX};
use crate::kernel::{self, Simd};
use crate::memory::array::Array;
use crate::permutation::Permuted;
use crate::plan::fold;
use crate::plan::fold::Head;
use crate::plan::{Key, TablePlan, head, low};
use crate::tables::geometry;
use crate::tables::geometry::Geometry;
use crate::tables::line::{Line, SPAN_MAX};
use crate::tables::line_of_key::{Homes, LinesOfRange};
use crate::tables::partition::Partition;

/// An immutable sorted table.
#[derive(Debug)]
pub struct Table {
    plan: TablePlan,
    /// The index of the table in its plan.
    role: usize,
    /// The partition of its keys, unless it is a whole table.
    partition: Option<Partition>,
    geometry: Geometry,
    /// The flips that lead from a head to the cells near it, the nearest first; not for folded
    /// heads.
    flips: Box<[Head]>,
    directory: Array<LinesOfRange>,
    lines: Array<Line>,
    /// By home.
    extras: Vec<Extra>,
    extra_lines: Array<Line>,
    count: u64,
}

/// A run of extra lines: entries of one home that did not fit into the lines after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extra {
    pub(crate) home: u32,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// The position of an entry: its line times the slots of a line, plus its slot. Extra lines are
/// numbered after all others. Not every number has an entry.
pub(crate) type Number = u32;

impl Table {
    /// The number of cells that a look-up visits, those of other partitions included.
    pub fn cell_count(&self, radius: u32) -> usize {
        self.cells(0, radius).1.len()
    }

    /// The first step of a look-up: appends the lines to visit and prefetches them. No prefetch
    /// depends on an earlier load, so that the cache misses overlap.
    ///
    /// Unless heads are folded, the lines of the cells with the same number of flips are a run, and
    /// their number comes before them.
    pub fn locate(&self, query: Permuted, radius: u32, visits: &mut Vec<u32>) {
        let (cell, flips) = self.cells(query, radius);
        if self.plan.folded {
            return self.locate_cells((cell, flips), visits);
        }
        for run in runs(flips) {
            let start = visits.len();
            visits.push(0);
            self.locate_cells((cell, run), visits);
            visits[start] = (visits.len() - start - 1) as u32;
        }
    }

    #[inline]
    fn locate_cells(&self, (cell, flips): (Head, &[Head]), visits: &mut Vec<u32>) {
        let (homes, lines) = (self.homes(), &*self.lines);
        if let Some(partition) = self.partition {
            self.locate_in(partition, (cell, flips), visits);
        } else if self.geometry.whole_cells {
            visits.extend(flips.iter().map(|flips| {
                let line = homes.home(cell ^ flips);
                kernel::prefetch(lines, line);
                // One in four to eight continues there; waiting for it would cost more than
                // prefetching it.
                kernel::prefetch(lines, line + 1);
                line
            }));
        } else {
            for cell in flips.iter().map(|flips| cell ^ flips) {
                let homes = self.lines_of(cell);
                visits.extend(homes.clone().inspect(|&line| kernel::prefetch(lines, line)));
                kernel::prefetch(lines, homes.end() + 1);
            }
        }
    }

    /// The second step: calls `found` with every fingerprint within `distance` of the query in the
    /// cells that were located. One whose line was located several times may be found more than
    /// once.
    ///
    /// A fingerprint differs from the query in the flips of its cell, so its low half may differ in
    /// fewer bits than the distance. At distance 12 that leaves one candidate in 200 entries
    /// instead of one in nine, each of which has to be verified.
    pub fn compare(
        &self,
        (query, radius): (Permuted, u32),
        distance: u32,
        visits: &[u32],
        found: &mut impl FnMut(Permuted),
    ) {
        let pattern = Pattern {
            low: low(query.rotate_left(self.plan.first_bit)),
            distance,
            slots: self.geometry.layout.slots,
        };
        let simd = Simd::best();
        let probe =
            Probe { query, radius, distance, flips: &[], visits, cells: None, pattern, simd };
        if self.plan.folded {
            return self.compare_lines(&probe, found);
        }
        let mut rest = visits;
        for (ones, flips) in (0..).zip(runs(self.cells(query, radius).1)) {
            let Some((&count, behind)) = rest.split_first() else { break };
            let (visits, behind) = behind.split_at(count as usize);
            let Some(left) = distance.checked_sub(ones) else { break };
            let pattern = Pattern { distance: left, ..pattern };
            self.compare_lines(&Probe { flips, visits, pattern, ..probe }, found);
            rest = behind;
        }
    }

    #[inline]
    fn compare_lines(&self, probe: &Probe<'_>, found: &mut impl FnMut(Permuted)) {
        let Probe { visits, pattern, .. } = *probe;
        let lines = &*self.lines;
        let mut scanned = LineMatches::default();
        for first in (0..visits.len()).step_by(SCAN_MAX) {
            let at = &visits[first..visits.len().min(first + SCAN_MAX)];
            scan::scan(probe.simd, lines, at, pattern, &mut scanned);
            for i in ones(scanned.near) {
                let near = (&lines[at[i] as usize], scanned.lanes[i]);
                self.verify(probe, near, first + i, found);
            }
            if scanned.more != 0 {
                self.go_on(probe, first, scanned.more, found);
            }
        }
    }

    /// Prefetches the line where [`Self::find`] begins.
    pub fn prefetch_value(&self, value: Permuted) {
        kernel::prefetch(&self.lines, self.homes().home(head(self.plan.key(value))));
    }

    /// The number of a fingerprint's entry, if the table has it.
    pub fn find(&self, value: Permuted) -> Option<Number> {
        let key = self.plan.key(value);
        if self.partition.is_some_and(|partition| partition != Partition::of(head(key))) {
            return None;
        }
        let home = self.homes().home(head(key));
        let lines = &*self.lines;
        let here = self.find_in((lines, home), key);
        let line = &lines[home as usize];
        if here.is_some() || !line.has_more() {
            return Some(home * self.geometry.layout.slots + here?);
        }
        self.find_further(key, home)
    }

    #[cold]
    fn find_further(&self, key: Key, home: u32) -> Option<Number> {
        let (lines, slots) = (&*self.lines, self.geometry.layout.slots);
        let line = &lines[home as usize];
        let following = (home + 1..=home + line.span())
            .find_map(|at| Some(at * slots + self.find_in((lines, at), key)?));
        following.or_else(|| {
            let extra = line.extra().then(|| self.extra_of(home)).flatten()?;
            let after = lines.len() as u32;
            (extra.first..extra.first + extra.count).find_map(|at| {
                Some((after + at) * slots + self.find_in((&self.extra_lines, at), key)?)
            })
        })
    }

    /// The slot of an entry in a line.
    fn find_in(&self, (lines, at): (&[Line], u32), key: Key) -> Option<u32> {
        let layout = self.geometry.layout;
        let pattern = Pattern { low: low(key), distance: 0, slots: layout.slots };
        let mut scanned = LineMatches::default();
        scan::scan(Simd::best(), lines, &[at], pattern, &mut scanned);
        let line = &lines[at as usize];
        let filled = (1_u32 << line.count()) - 1;
        ones(u32::from(scanned.lanes[0]) & filled)
            .map(|slot| slot as u32)
            .find(|&slot| line.head(layout, slot, head(key)) == head(key))
    }

    /// The fingerprint with a number that [`Self::find`] or [`Self::entries`] gave.
    pub fn value(&self, number: Number) -> Permuted {
        let slots = self.geometry.layout.slots;
        let (at, slot) = (number / slots, number % slots);
        let (line, near) = match at.checked_sub(self.lines.len() as u32) {
            None => (&self.lines[at as usize], self.homes().first_head(at)),
            Some(extra) => {
                let after = self.extras.partition_point(|other| other.first <= extra);
                let home = self.extras[after - 1].home;
                (&self.extra_lines[extra as usize], self.homes().first_head(home))
            }
        };
        let head = line.head(self.geometry.layout, slot, near);
        self.plan.value(u64::from(head) << 32 | u64::from(line.low(slot)))
    }

    /// For each line, including extra lines, a head near its entries and the number of its entries.
    pub(crate) fn lines_by_head(&self) -> impl Iterator<Item = (Head, u32)> + '_ {
        let homes = self.homes();
        let ranges = self.directory.iter().enumerate().flat_map(move |(range, &lines)| {
            let first = lines as u32;
            (first..first + (lines >> 32) as u32).map(move |line| (range, line))
        });
        let own = ranges.map(move |(range, line)| {
            (homes.first_head_in(range, line), self.lines[line as usize].count())
        });
        // The lines after the last range have the entries that overflowed from it.
        let after = self.homes_end() as usize;
        let last = self.lines[after..].iter().map(|line| (Head::MAX, line.count()));
        let extra = self.extras.iter().flat_map(move |extra| {
            let head = homes.first_head(extra.home);
            let lines = &self.extra_lines[extra.first as usize..][..extra.count as usize];
            lines.iter().map(move |line| (head, line.count()))
        });
        own.chain(last).chain(extra)
    }

    /// The index of the table in its plan.
    pub fn role(&self) -> usize {
        self.role
    }

    pub fn plan(&self) -> TablePlan {
        self.plan
    }

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
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
        (self.lines.len() + self.extra_lines.len()) * self.geometry.layout.slots as usize
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.flips)
            + self.directory.bytes()
            + self.lines.bytes()
            + self.extra_lines.bytes()
            + self.extras.capacity() * size_of::<Extra>()
    }

    /// The parts that an image stores.
    pub(crate) fn parts(&self) -> (&[u64], &[Line], &[Extra], &[Line]) {
        (&self.directory, &self.lines, &self.extras, &self.extra_lines)
    }

    /// Assembles a table from the parts of an image; `None` if they are inconsistent.
    pub(crate) fn from_parts(
        (plan, role, geometry, count): (TablePlan, usize, Geometry, u64),
        directory: Array<u64>,
        lines: Array<Line>,
        (extras, extra_lines): (Vec<Extra>, Array<Line>),
    ) -> Option<Self> {
        let table = Self::empty(plan, role, geometry);
        let mut table = Self { directory, lines, extras, extra_lines, count, ..table };
        table.partition = Partition::of_directory(&table.directory);
        table.is_sound().then_some(table)
    }

    fn empty(plan: TablePlan, role: usize, geometry: Geometry) -> Self {
        let flips = if plan.folded {
            Box::default()
        } else {
            geometry::flips(geometry.cell_bits, plan.radius)
        };
        Self {
            plan,
            role,
            partition: None,
            geometry,
            flips,
            directory: Array::default(),
            lines: Array::default(),
            extras: Vec::new(),
            extra_lines: Array::default(),
            count: 0,
        }
    }

    /// Whether every reference from one part to another stays in bounds.
    fn is_sound(&self) -> bool {
        let mut next = 0;
        let mut in_order = self.directory.len() == 1 << self.geometry.range_bits;
        for (at, &range) in self.directory.iter().enumerate() {
            let is_there =
                self.partition.is_none_or(|partition| partition.has_range(at, &self.directory));
            in_order &= range & 0xffff_ffff == next && (range >> 32 > 0) == is_there;
            next = (range & 0xffff_ffff) + (range >> 32);
        }
        let slots = self.geometry.layout.slots;
        let counted = self.lines.iter().chain(self.extra_lines.iter());
        let entries = counted.clone().map(|line| u64::from(line.count())).sum::<u64>();
        let mut next_extra = 0;
        let mut last_home = None;
        let extras_in_order = self.extras.iter().all(|extra| {
            let ordered = extra.first == next_extra && last_home < Some(extra.home);
            next_extra = extra.first.saturating_add(extra.count);
            last_home = Some(extra.home);
            ordered && extra.count > 0 && u64::from(extra.home) < next
        });
        in_order
            && next + u64::from(self.lines_behind()) == self.lines.len() as u64
            && self.is_numbered()
            && extras_in_order
            && next_extra as usize == self.extra_lines.len()
            && entries == self.count
            && counted.clone().all(|line| line.count() <= slots && line.span() <= SPAN_MAX)
            && self.lines[next as usize..].iter().all(|line| line.span() == 0)
    }

    /// Whether every entry has a number.
    fn is_numbered(&self) -> bool {
        u32::try_from(self.numbers()).is_ok()
    }

    /// The end of the lines that are a home.
    fn homes_end(&self) -> u32 {
        self.directory.last().map_or(0, |last| (*last as u32).wrapping_add((last >> 32) as u32))
    }

    /// The number of lines after the last home.
    fn lines_behind(&self) -> u32 {
        if self.partition.is_none_or(Partition::is_last) { SPAN_MAX } else { 0 }
    }

    fn homes(&self) -> Homes<'_> {
        Homes::of(&self.geometry, &self.directory)
    }

    fn extra_of(&self, home: u32) -> Option<Extra> {
        let at = self.extras.binary_search_by_key(&home, |extra| extra.home).ok()?;
        Some(self.extras[at])
    }

    /// The cell of a query, and the flips that lead to the cells near it.
    #[inline]
    fn cells(&self, query: Permuted, radius: u32) -> (Head, &[Head]) {
        let head = head(self.plan.key(query));
        let cell = head & (u32::MAX << (32 - self.geometry.cell_bits));
        if self.plan.folded {
            return (cell, fold::neighbours(head, radius));
        }
        let near = |flips: &Head| flips.count_ones() <= radius;
        (cell, &self.flips[..self.flips.partition_point(near)])
    }

    /// The homes of all heads of a cell.
    fn lines_of(&self, cell: Head) -> RangeInclusive<u32> {
        let rest = !(u32::MAX << (32 - self.geometry.cell_bits));
        self.homes().home(cell)..=self.homes().home(cell | rest)
    }

    /// A head near the entries of a visited line.
    #[cold]
    fn near(&self, probe: &Probe<'_>, visit: usize) -> Head {
        if let Some(cells) = probe.cells {
            return cells[visit];
        }
        if self.geometry.whole_cells {
            let (cell, near) = self.cells(probe.query, probe.radius);
            let flips = if self.plan.folded { near } else { probe.flips };
            let flips = match self.partition {
                None => flips.get(visit).copied(),
                Some(_) => self.visited(cell, flips).nth(visit),
            };
            cell ^ flips.unwrap_or_default()
        } else {
            self.homes().first_head(probe.visits[visit])
        }
    }

    /// The first step of a look-up in a partition: of the cells near the query it visits only its
    /// own.
    fn locate_in(
        &self,
        partition: Partition,
        (cell, flips): (Head, &[Head]),
        visits: &mut Vec<u32>,
    ) {
        debug_assert_eq!(self.partition, Some(partition), "a partition visits its own");
        for cell in self.visited(cell, flips).map(|flips| cell ^ flips) {
            let homes = self.lines_of(cell);
            visits.extend(homes.inspect(|&line| {
                kernel::prefetch::<Line>(&self.lines, line);
                kernel::prefetch::<Line>(&self.lines, line + 1);
            }));
        }
    }

    /// The flips that lead to a cell of this table.
    fn visited<'a>(&self, cell: Head, flips: &'a [Head]) -> impl Iterator<Item = Head> + 'a {
        let partition = self.partition;
        let own = move |head| partition.is_none_or(|partition| partition == Partition::of(head));
        flips.iter().copied().filter(move |flips| own(cell ^ flips))
    }

    /// Compares whole fingerprints where the low halves are near.
    fn verify(
        &self,
        probe: &Probe<'_>,
        (line, slots): (&Line, u16),
        visit: usize,
        found: &mut impl FnMut(Permuted),
    ) {
        let near = self.near(probe, visit);
        let filled = (1_u32 << line.count()) - 1;
        for slot in ones(u32::from(slots) & filled) {
            let head = line.head(self.geometry.layout, slot as u32, near);
            let value = self.plan.value(u64::from(head) << 32 | u64::from(line.low(slot as u32)));
            if (value ^ probe.query).count_ones() <= probe.distance {
                found(value);
            }
        }
    }

    /// Visits the entries that did not fit into some of the lines. `begun` is the visit of the
    /// first line.
    #[inline(never)]
    fn go_on(&self, probe: &Probe<'_>, begun: usize, more: u32, found: &mut impl FnMut(Permuted)) {
        let (mut at, mut visits) = ([0_u32; FOLLOWING_MAX], [0_u8; FOLLOWING_MAX]);
        let mut count = 0;
        for i in ones(more) {
            let visit = begun + i;
            let home = probe.visits[visit];
            let line = &self.lines[home as usize];
            // If the next visit is the next line, it covers the lines after that.
            if probe.visits.get(visit + 1) != Some(&(home + 1)) {
                for following in home + 1..=home + line.span() {
                    (at[count], visits[count]) = (following, i as u8);
                    count += 1;
                }
            }
            if line.extra() {
                self.visit_extra(probe, visit, found);
            }
        }
        let mut scanned = LineMatches::default();
        for first in (0..count).step_by(SCAN_MAX) {
            let at = &at[first..count.min(first + SCAN_MAX)];
            scan::scan(probe.simd, &self.lines, at, probe.pattern, &mut scanned);
            for i in ones(scanned.near) {
                let near = (&self.lines[at[i] as usize], scanned.lanes[i]);
                self.verify(probe, near, begun + usize::from(visits[first + i]), found);
            }
        }
    }

    #[cold]
    fn visit_extra(&self, probe: &Probe<'_>, visit: usize, found: &mut impl FnMut(Permuted)) {
        let Some(extra) = self.extra_of(probe.visits[visit]) else { return };
        let (end, mut scanned) = (extra.first + extra.count, LineMatches::default());
        for first in (extra.first..end).step_by(SCAN_MAX) {
            let at: [u32; SCAN_MAX] = std::array::from_fn(|i| first + i as u32);
            let at = &at[..SCAN_MAX.min((end - first) as usize)];
            scan::scan(probe.simd, &self.extra_lines, at, probe.pattern, &mut scanned);
            for i in ones(scanned.near) {
                let near = (&self.extra_lines[at[i] as usize], scanned.lanes[i]);
                self.verify(probe, near, visit, found);
            }
        }
    }
}

/// The largest number of lines that the lines of one scan lead to.
const FOLLOWING_MAX: usize = SPAN_MAX as usize * SCAN_MAX;

/// A look-up in one table, or in the cells of a run.
#[derive(Clone, Copy)]
struct Probe<'a> {
    query: Permuted,
    radius: u32,
    distance: u32,
    /// The flips that lead to the cells of the run.
    flips: &'a [Head],
    /// The lines of the cells.
    visits: &'a [u32],
    /// The cell of each line, if the flips do not tell.
    cells: Option<&'a [Head]>,
    pattern: Pattern,
    simd: Simd,
}

/// The runs of flips with as many ones: none, one, and so on.
fn runs(flips: &[Head]) -> impl Iterator<Item = &[Head]> {
    let mut rest = flips;
    std::iter::from_fn(move || {
        let ones = rest.first()?.count_ones();
        let (run, behind) = rest.split_at(rest.partition_point(|flip| flip.count_ones() == ones));
        rest = behind;
        Some(run)
    })
}

/// The positions of the ones.
fn ones(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let one = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(one)
    })
}

#[cfg(test)]
mod tests;
