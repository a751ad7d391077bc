//! Estimates of an index's cost: lines visited by a look-up, time and memory, for any plan and
//! size.
//!
//! The cost of a look-up is lines: lines at random addresses, which memory has to fetch, and lines
//! next to them, which arrive sooner. Their number follows from the geometry alone and is computed
//! here; the time for a line depends on the machine and is passed in ([`Costs`]). A line that is
//! too full sends its last entries to the next one. How often that happens is given by queueing
//! theory: customers (entries) arrive at random, and each line serves as many as it has slots.
//!
//! The estimates apply to random fingerprints. Those of texts are crowded, so a look-up reads more
//! lines and meets more candidates; [`crowding`] has a measured factor. The estimates are pure
//! functions, without clock or measurement. `nearprint plan` shows them, and `nearprint-bench
//! lookup` compares them with measured look-ups.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate decides nothing that is stored"
)]

use nearprint_fingerprint::{Distance, Sample};

use crate::buckets;
use crate::plan::{Plan, Plans, TablePlan};
use crate::tables::geometry;
use crate::tables::geometry::Geometry;
use crate::tables::line::SPAN_MAX;

/// The largest number of slots of a table, since entries are numbered by 32 bits.
pub const SLOTS_MAX: f64 = 4_294_967_296.0;

/// The time that a machine takes for the parts of a look-up, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// The cost of a line in memory of several sizes, ascending; at least one.
    pub lines: Vec<LineCost>,
    /// Locating a cell: flipping bits, one load from the directory, a multiplication.
    pub probe_ns: f64,
    /// The additional time for a cell that may span lines: both its ends are located, and the
    /// processor cannot predict how many lines lie between them.
    pub cut_probe_ns: f64,
    /// The additional time for a bucket: its place is loaded, and its number of lines is
    /// unpredictable.
    pub bucket_ns: f64,
    /// Comparing a line, in addition to reading it.
    pub compare_line_ns: f64,
    /// Continuing from a line to the one with the rest of its entries, in addition to reading that.
    pub go_on_ns: f64,
    /// Comparing a whole fingerprint whose lower half is near.
    pub verify_ns: f64,
    /// The fixed part of a look-up in a batch.
    pub fixed_ns: f64,
    /// The additional time of a single look-up.
    pub alone_ns: f64,
}

/// The cost of a line of 64 bytes in memory of a certain size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LineCost {
    /// The size of all tables.
    pub bytes: f64,
    /// A line at a random place, prefetched with many others and then read, as look-ups do.
    pub random_ns: f64,
    /// The line after one that was just loaded.
    pub next_ns: f64,
    /// A line at a random place, when nothing else is under way.
    pub dependent_ns: f64,
}

impl Default for Costs {
    /// Those of one core of an AMD EPYC (Zen 4), tables on 2 MiB pages.
    fn default() -> Self {
        let line = |mib: f64, random_ns, next_ns, dependent_ns| LineCost {
            bytes: mib * f64::from(1 << 20),
            random_ns,
            next_ns,
            dependent_ns,
        };
        Self::with_lines(vec![
            line(4.0, 4.1, 0.5, 16.0),
            line(24.0, 4.5, 1.1, 80.0),
            line(64.0, 4.8, 1.5, 120.0),
            line(218.0, 5.7, 1.5, 150.0),
            line(1_024.0, 6.6, 2.4, 220.0),
        ])
    }
}

impl Costs {
    /// Lines as they were measured, the rest as on a core of an AMD EPYC (Zen 4).
    ///
    /// # Panics
    /// When there is no line.
    pub fn with_lines(mut lines: Vec<LineCost>) -> Self {
        assert!(!lines.is_empty(), "a line costs something");
        lines.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
        Self {
            lines,
            probe_ns: 0.8,
            cut_probe_ns: 6.0,
            bucket_ns: 8.0,
            compare_line_ns: 0.8,
            go_on_ns: 5.0,
            verify_ns: 60.0,
            fixed_ns: 60.0,
            alone_ns: 40.0,
        }
    }

    /// The cost of a line in memory of a size: interpolated between two known sizes by the
    /// logarithm of the size, and extrapolated from the last two above the largest.
    pub fn line(&self, bytes: f64) -> LineCost {
        let (first, last) = (self.lines[0], self.lines[self.lines.len() - 1]);
        if bytes <= first.bytes || self.lines.len() == 1 {
            return if bytes <= first.bytes { first } else { last };
        }
        let after = self.lines.partition_point(|line| line.bytes < bytes);
        let after = after.clamp(1, self.lines.len() - 1);
        let (a, b) = (self.lines[after - 1], self.lines[after]);
        let share = (bytes / a.bytes).log2() / (b.bytes / a.bytes).log2();
        // A measured cost may fall by chance, but no larger memory is cheaper.
        let between = |a: f64, b: f64| (a + share * (b - a)).max(a.min(b));
        LineCost {
            bytes,
            random_ns: between(a.random_ns, b.random_ns),
            next_ns: between(a.next_ns, b.next_ns),
            dependent_ns: between(a.dependent_ns, b.dependent_ns),
        }
    }
}

/// The cost of an index with some plan and size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Cells that a look-up visits, in all tables.
    pub cells: f64,
    /// Lines of these cells, which are located and prefetched.
    pub located_lines: f64,
    /// Further lines of cells whose entries did not fit.
    pub following_lines: f64,
    /// Memory of all tables for a fingerprint.
    pub table_bytes: f64,
    /// Memory of the postings for a fingerprint.
    pub posting_bytes: f64,
    /// The additional memory for a fingerprint whose document has a sketch.
    pub sample_bytes: f64,
    /// The additional memory for a fingerprint while everything is merged into one segment: the
    /// first table with its postings, or another table.
    pub merging_bytes: f64,
    /// The number of slots in the largest table: more than [`SLOTS_MAX`] do not fit.
    pub slots: f64,
    /// A look-up that waits for the one before.
    pub single_ns: f64,
    /// A look-up in a batch.
    pub batch_ns: f64,
}

impl Estimate {
    /// The estimate for look-ups of a distance in `count` fingerprints, in one segment, of
    /// documents without ids.
    pub fn of(plan: &Plan, count: u64, distance: Distance, costs: &Costs) -> Self {
        if plan.in_buckets() {
            return Self::in_buckets(plan, count, distance, costs);
        }
        let mut visits = Visits::default();
        let (mut bytes, mut largest, mut slots) = (0.0, 0.0_f64, 0.0_f64);
        for (&table, &radius) in plan.tables().iter().zip(plan.radii(distance)) {
            let geometry = Geometry::of(table, count);
            bytes += geometry.bytes(count);
            largest = largest.max(geometry.bytes(count));
            slots = slots.max(geometry.slots(count));
            if let Some(radius) = radius {
                visits.add(Visits::of(table, (radius, distance), count));
            }
        }
        let posting_bytes = posting_bytes(plan, count);
        let per_fingerprint = 1.0 / count.max(1) as f64;
        let line = costs.line(bytes);
        let batch_ns = visits.ns(costs, line);
        Self {
            cells: visits.cells,
            located_lines: visits.located,
            following_lines: visits.following,
            table_bytes: bytes * per_fingerprint,
            posting_bytes: posting_bytes * per_fingerprint,
            sample_bytes: places(plan, count) * SAMPLE_BYTES * per_fingerprint,
            merging_bytes: (largest + posting_bytes) * per_fingerprint,
            slots,
            single_ns: batch_ns + costs.alone_ns + line.dependent_ns,
            batch_ns,
        }
    }

    /// The estimate of a plan in buckets: each bucket costs an entry of the directory and its
    /// lines.
    fn in_buckets(plan: &Plan, count: u64, distance: Distance, costs: &Costs) -> Self {
        let mut visits = Visits::default();
        for (&table, radius) in plan.tables().iter().zip(plan.radii(distance)) {
            if let &Some(radius) = radius {
                visits.add(Visits::of_buckets(table, (radius, distance), count));
            }
        }
        let bytes = buckets::bytes(plan.tables().len(), count) as f64;
        let posting_bytes = count as f64 * posting_bits(count) / 8.0;
        let per_fingerprint = 1.0 / count.max(1) as f64;
        let line = costs.line(bytes);
        let batch_ns = visits.ns(costs, line) + visits.cells * costs.bucket_ns;
        Self {
            cells: visits.cells,
            located_lines: visits.located,
            following_lines: 0.0,
            table_bytes: bytes * per_fingerprint,
            posting_bytes: posting_bytes * per_fingerprint,
            sample_bytes: SAMPLE_BYTES,
            merging_bytes: (bytes + posting_bytes) * per_fingerprint,
            slots: count as f64,
            single_ns: batch_ns + costs.alone_ns + line.dependent_ns,
            batch_ns,
        }
    }

    /// Memory of tables and postings for a fingerprint.
    pub fn bytes(&self) -> f64 {
        self.table_bytes + self.posting_bytes
    }

    /// All lines that a look-up visits.
    pub fn lines(&self) -> f64 {
        self.located_lines + self.following_lines
    }

    /// Whether a segment can hold this many fingerprints.
    pub fn fits_a_segment(&self) -> bool {
        self.slots < SLOTS_MAX
    }
}

/// Memory of the postings: one for each place, with as many bits as the largest sequence has,
/// counted from the first.
fn posting_bytes(plan: &Plan, count: u64) -> f64 {
    places(plan, count) * posting_bits(count) / 8.0
}

/// The places for postings: one for each slot of the first table.
fn places(plan: &Plan, count: u64) -> f64 {
    plan.tables().first().map_or(0.0, |&table| Geometry::of(table, count).slots(count))
}

/// Memory of the sample of a sketch in a place.
const SAMPLE_BYTES: f64 = size_of::<Sample>() as f64;

fn posting_bits(count: u64) -> f64 {
    f64::from(u64::BITS - count.saturating_sub(1).leading_zeros())
}

/// The average numbers of what a look-up visits in a table, or in several.
#[derive(Debug, Clone, Copy, Default)]
struct Visits {
    cells: f64,
    /// Those of the cells that borders of lines may cut.
    cut_cells: f64,
    located: f64,
    following: f64,
    /// Entries whose lower half is near by chance.
    candidates: f64,
}

impl Visits {
    fn of(table: TablePlan, (radius, distance): (u32, Distance), count: u64) -> Self {
        let geometry = Geometry::of(table, count);
        let cells = geometry.cells_visited(table, radius);
        let located = cells * geometry.lines_a_cell(count);
        let following = cells * Filling::of(&geometry, count).following();
        let entries = (located + following) * count as f64 / geometry.lines(count);
        Self {
            cells,
            cut_cells: if geometry.whole_cells { 0.0 } else { cells },
            located,
            following,
            candidates: entries
                * if table.folded {
                    half_is_near(u32::from(distance.get()))
                } else {
                    half_is_near_in_cells(geometry.cell_bits, radius, distance)
                },
        }
    }

    fn of_buckets(table: TablePlan, (radius, distance): (u32, Distance), count: u64) -> Self {
        let cells = geometry::probes(table.key_bits, radius) as f64;
        let entries = count as f64 / (1_u64 << table.key_bits) as f64;
        // One line if there is an entry, and one more wherever another one crosses a border. An
        // entry has a word and a half; half a word more are those whose number is odd.
        let some = 1.0 - (-entries).exp();
        let words = 1.5 * entries + 0.25 * (1.0 - (-2.0 * entries).exp());
        let lines = some + (words - some) / f64::from(buckets::WORDS_A_LINE);
        Self {
            cells,
            located: cells * lines,
            candidates: cells * entries * half_is_near_in_cells(table.key_bits, radius, distance),
            ..Self::default()
        }
    }

    fn add(&mut self, other: Self) {
        self.cells += other.cells;
        self.cut_cells += other.cut_cells;
        self.located += other.located;
        self.following += other.following;
        self.candidates += other.candidates;
    }

    /// The first line of each cell lies anywhere, all others after another one; one more than
    /// belong to the cell is loaded, since some go on there.
    fn ns(self, costs: &Costs, line: LineCost) -> f64 {
        costs.fixed_ns
            + self.cells * (costs.probe_ns + line.random_ns + line.next_ns)
            + self.cut_cells * costs.cut_probe_ns
            + (self.located - self.cells).max(0.0) * line.next_ns
            + self.following * costs.go_on_ns
            + (self.located + self.following) * costs.compare_line_ns
            + self.candidates * costs.verify_ns
    }
}

/// The probability that 32 random bits differ from others in at most `distance`.
fn half_is_near(distance: u32) -> f64 {
    geometry::probes(32, distance) as f64 / (1_u64 << 32) as f64
}

/// The same on average over all cells of `bits` bits within a radius: the flips that lead to a cell
/// count already.
fn half_is_near_in_cells(bits: u32, radius: u32, distance: Distance) -> f64 {
    let within = |ones: u32| geometry::probes(bits, ones) as f64;
    let distance = u32::from(distance.get());
    let flipped = (1..=radius.min(distance))
        .map(|ones| (within(ones) - within(ones - 1)) * half_is_near(distance - ones));
    (half_is_near(distance) + flipped.sum::<f64>()) / within(radius)
}

/// How the lines of a table fill up.
struct Filling {
    slots: usize,
    /// With which probability a line gets 0, 1, .. entries.
    arrivals: Vec<f64>,
    /// The same of a line that is visited: where lines have different numbers of cells, that one is
    /// rather one with more.
    arrivals_visited: Vec<f64>,
}

impl Filling {
    fn of(geometry: &Geometry, count: u64) -> Self {
        let load = count as f64 / geometry.lines(count);
        let slots = geometry.layout.slots as usize;
        let most = (load + 8.0 * load.sqrt()).ceil() as usize + 8;
        if !geometry.whole_cells {
            let arrivals = poisson(load, most);
            return Self { slots, arrivals_visited: arrivals.clone(), arrivals };
        }
        let cells = (1_u64 << geometry.cell_bits) as f64 / geometry.lines(count);
        let (fewer, share) = (cells.floor(), cells.fract());
        let with = |cells_of_line: f64| poisson(load * cells_of_line / cells, most);
        let mixed = |share: f64| {
            let both = with(fewer).into_iter().zip(with(fewer + 1.0));
            both.map(|(a, b)| a * (1.0 - share) + b * share).collect()
        };
        Self {
            slots,
            arrivals: mixed(share),
            arrivals_visited: mixed(share * (fewer + 1.0) / cells),
        }
    }

    /// How many lines after its own a cell goes on in.
    fn following(&self) -> f64 {
        let waiting = self.waiting();
        let mut following = 0.0;
        for (there, p) in waiting.iter().enumerate() {
            for (more, q) in self.arrivals_visited.iter().enumerate() {
                let lines = (there + more).div_ceil(self.slots).saturating_sub(1);
                following += p * q * lines.min(SPAN_MAX as usize) as f64;
            }
        }
        following
    }

    /// With which probability 0, 1, .. entries of earlier lines lie in a line or wait after it.
    /// Those that would wait for longer than the following lines go to extra lines.
    fn waiting(&self) -> Vec<f64> {
        let most = SPAN_MAX as usize * self.slots;
        let mut waiting = vec![0.0; most + 1];
        waiting[0] = 1.0;
        for _ in 0..SETTLED_AFTER {
            let mut next = vec![0.0; most + 1];
            for (there, p) in waiting.iter().enumerate() {
                for (more, q) in self.arrivals.iter().enumerate() {
                    next[(there + more).saturating_sub(self.slots).min(most)] += p * q;
                }
            }
            waiting = next;
        }
        waiting
    }
}

/// After this many lines the state of the first line no longer matters.
const SETTLED_AFTER: usize = 40;

/// The probabilities of 0 to `most` events where `mean` are expected.
fn poisson(mean: f64, most: usize) -> Vec<f64> {
    let next = |p: &(f64, f64)| Some((p.0 * mean / p.1, p.1 + 1.0));
    std::iter::successors(Some(((-mean).exp(), 1.0)), next).take(most + 1).map(|p| p.0).collect()
}

/// How many times as long a look-up at distance 3 takes with the fingerprints of texts as with
/// random ones, in the tables that nearprint builds.
///
/// Measured with the text model, whose texts are of many kinds and without near-copies, among one,
/// three and ten million. Families of near-copies cost more.
pub fn crowding(plan: &Plan) -> f64 {
    if plan.in_buckets() { 1.6 } else { 5.4 }
}

/// The plans to compare for a distance: those of small and of large segments first, then equal
/// blocks in more and more tables. Two blocks are what [`crate::plan::fold`] improves.
pub fn alternatives(distance: Distance) -> Vec<Plan> {
    let Plans { small, large, .. } = Plans::of(distance);
    let mut plans = vec![small, large];
    for blocks in 1..=u32::from(distance.get()) + 1 {
        let plan = Plan::equal_blocks(blocks, 64, distance);
        if !plans.contains(&plan) {
            plans.push(plan);
        }
    }
    plans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buckets::Buckets;
    use crate::tables::table::Table;

    fn distance(bits: u8) -> Distance {
        Distance::new(bits).unwrap()
    }

    fn numbers(count: u64) -> Vec<u64> {
        // SplitMix64.
        let mix = |z: u64| {
            let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        };
        (1..=count).map(|i| mix(i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
    }

    fn tables(plan: &Plan, values: &[u64]) -> Vec<Table> {
        let build = |(role, table): (usize, &TablePlan)| {
            let mut keys: Vec<u64> = values.iter().map(|&value| table.key(value)).collect();
            keys.sort_unstable();
            Table::build(*table, role, &keys)
        };
        plan.tables().iter().enumerate().map(build).collect()
    }

    /// Lines located and following, on average over some queries.
    fn visited(tables: &[Table], plan: &Plan, queries: &[u64]) -> (f64, f64) {
        let (mut located, mut following) = (0, 0);
        for (table, radius) in tables.iter().zip(plan.radii(plan.distance_max())) {
            let lines = table.parts().1;
            for &query in queries {
                let mut visits = Vec::new();
                table.locate(query, radius.unwrap(), &mut visits);
                // The lines of a run come after their number.
                let mut run = 0;
                while !table.plan().folded && run < visits.len() {
                    run += visits.remove(run) as usize;
                }
                located += visits.len();
                let is_last = |i: usize| visits.get(i + 1) != Some(&(visits[i] + 1));
                let last = (0..visits.len()).filter(|&i| is_last(i));
                following += last.map(|i| lines[visits[i] as usize].span()).sum::<u32>();
            }
        }
        let asked = queries.len() as f64;
        (located as f64 / asked, f64::from(following) / asked)
    }

    /// Lines of the buckets that are visited, on average over some queries.
    fn visited_in_buckets(buckets: &Buckets, distance: Distance, queries: &[u64]) -> f64 {
        let mut visits = Vec::new();
        for &query in queries {
            buckets.locate(query, distance, &mut visits);
        }
        let a_line = buckets::WORDS_A_LINE;
        let lines = visits.chunks(2).map(|visit| match (visit[0], visit[1]) {
            (start, end) if start == end => 0,
            (start, end) => (end - 1) / a_line - start / a_line + 1,
        });
        f64::from(lines.sum::<u32>()) / queries.len() as f64
    }

    fn assert_near(what: &str, estimated: f64, real: f64, within: f64) {
        let ratio = estimated / real;
        assert!(
            (ratio - 1.0).abs() <= within,
            "{what}: estimated {estimated:.2}, really {real:.2}"
        );
    }

    #[test]
    fn lines_and_bytes_are_those_of_real_tables() {
        for count in [100_000, 1_000_000] {
            let mut values = numbers(count + 2_000);
            values[..count as usize].sort_unstable();
            let (values, queries) = values.split_at(count as usize);
            for bits in [0, 2, 3, 5, 8] {
                for plan in alternatives(distance(bits)) {
                    if plan.tables().iter().any(|table| table.radius > 3) {
                        continue; // Millions of cells, which nobody builds.
                    }
                    let estimate = Estimate::of(&plan, count, distance(bits), &Costs::default());
                    let what = |part: &str| format!("{part} of {plan} at {count}");
                    if plan.in_buckets() {
                        let buckets = Buckets::build(plan.distance_max(), values);
                        let located = visited_in_buckets(&buckets, distance(bits), &queries[..200]);
                        assert_near(&what("lines"), estimate.lines(), located, 0.15);
                        let bytes = buckets.bytes() as f64 / count as f64;
                        assert_near(&what("bytes"), estimate.table_bytes, bytes, 0.10);
                        continue;
                    }
                    let tables = tables(&plan, values);
                    let (located, following) = visited(&tables, &plan, &queries[..200]);
                    let lines = located + following;
                    assert_near(&what("located lines"), estimate.located_lines, located, 0.15);
                    assert_near(&what("lines"), estimate.lines(), lines, 0.15);
                    let bytes = tables.iter().map(Table::bytes).sum::<usize>() as f64;
                    let bytes = bytes / count as f64;
                    assert_near(&what("bytes"), estimate.table_bytes, bytes, 0.10);
                }
            }
        }
    }

    #[test]
    fn costs_grow_with_the_count_and_with_the_distance() {
        let costs = Costs::default();
        let at =
            |count, bits| Estimate::of(&Plan::of(distance(bits)), count, distance(bits), &costs);
        let counts = [100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
        for bits in 0..=12 {
            for pair in counts.windows(2) {
                let (less, more) = (at(pair[0], bits), at(pair[1], bits));
                assert!(
                    less.single_ns < more.single_ns,
                    "{bits} bits, {pair:?}: {less:?} {more:?}"
                );
                assert!(less.bytes() * pair[0] as f64 <= more.bytes() * pair[1] as f64);
            }
        }
        for count in counts {
            for bits in 0..12 {
                let (less, more) = (at(count, bits), at(count, bits + 1));
                assert!(less.batch_ns < more.batch_ns, "{bits} bits of {count}");
            }
        }
    }

    #[test]
    fn bare_fingerprints_take_at_most_20_bytes_each_and_sketches_8_for_each_place() {
        let at = |count| {
            let plan = Plans::of(distance(3)).for_count(count).clone();
            Estimate::of(&plan, count, distance(3), &Costs::default())
        };
        assert!(at(100_000_000).bytes() <= 20.0);
        assert_near("a place for each", at(1_000_000).sample_bytes, 8.0, 1e-9);
        assert_near("a fill of 0.8", at(100_000_000).sample_bytes, 10.0, 0.04);
    }

    #[test]
    fn a_smaller_distance_in_the_same_index_costs_less() {
        let plan = Plan::of(distance(3));
        let at = |bits| Estimate::of(&plan, 10_000_000, distance(bits), &Costs::default());
        for bits in 0..3 {
            assert!(at(bits).batch_ns < at(bits + 1).batch_ns);
            assert_near("bytes", at(bits).bytes(), at(3).bytes(), 1e-9);
        }
    }

    #[test]
    fn lines_cost_between_and_beyond_known_sizes_what_the_neighbours_tell() {
        let costs = Costs::default();
        let random = |mib: f64| costs.line(mib * 1_048_576.0).random_ns;
        for (mib, ns) in [(1.0, 4.1), (4.0, 4.1), (218.0, 5.7)] {
            assert_near("a random line", random(mib), ns, 1e-9);
        }
        assert!(random(100.0) > 4.8 && random(100.0) < 5.7);
        assert!(random(10_000.0) > 6.6 && random(10_000.0) < 10.0);
    }

    #[test]
    fn a_segment_has_an_end() {
        let fits = |count| {
            let plan = Plan::of(distance(3));
            Estimate::of(&plan, count, distance(3), &Costs::default()).fits_a_segment()
        };
        assert!(fits(3_000_000_000) && !fits(4_000_000_000));
    }

    #[test]
    fn alternatives_are_different_and_the_first_are_those_of_an_index() {
        for bits in 0..=12 {
            let plans = alternatives(distance(bits));
            let Plans { small, large, .. } = Plans::of(distance(bits));
            assert_eq!(plans[..2], [small, large]);
            for (i, plan) in plans.iter().enumerate() {
                assert!(!plans[..i].contains(plan), "{plan} twice");
            }
        }
    }
}
