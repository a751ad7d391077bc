//! The compaction policy in a simulation: sizes and a clock, no fingerprints.
//!
//! Three threads work at once, as in the engine. The writer fills deltas. The flusher turns them
//! into segments, and merges the newest segments among themselves. The merger merges everything
//! else. Each piece of work takes time in proportion to the entries that it writes, as if each
//! thread had a core for itself. What is merged, and when writes are throttled, is decided by the
//! policy of the engine.

use std::ops::Range;

use nearprint::cli::measure::numbers::float;
use nearprint_index::compaction::policy::{
    self, FULL_DELTAS_MAX, LevelSizes, Load, Merge, SegmentSize, TableSize,
};
use nearprint_index::plan::SMALL_MAX;
use serde::Serialize;

use super::figures::{Figures, Written};

/// A large merge frees its inputs an eighth at a time.
const PARTITIONS: u64 = 8;

/// Memory of a stored fingerprint, in bytes: in a small segment (four tables), in a large one (its
/// first table), in a secondary table. Each includes what the postings take.
const SMALL_BYTES: f64 = 29.0;
const LARGE_BYTES: f64 = 9.0;
const TABLE_BYTES: f64 = 5.5;
/// Memory of an entry while small segments are brought into the order of a large one.
const PROMOTION_BYTES: f64 = 16.0;
/// Memory of an event of a delta.
const DELTA_BYTES: f64 = 190.0;

/// How long an entry takes, in nanoseconds. The defaults are measured: see `docs/compaction.md`.
#[derive(Debug, Clone, Copy, Serialize, clap::Args)]
#[expect(clippy::struct_field_names, reason = "a unit stands last in a name")]
pub(crate) struct Rates {
    /// Simulated time to insert a fingerprint, in nanoseconds
    #[arg(long, value_name = "NS", default_value_t = 100)]
    pub(super) insert_ns: u64,
    /// Simulated time to flush an entry of a delta
    #[arg(long, value_name = "NS", default_value_t = 165)]
    pub(super) flush_ns: u64,
    /// Simulated time to merge an entry into a small segment
    #[arg(long, value_name = "NS", default_value_t = 110)]
    pub(super) small_merge_ns: u64,
    /// Simulated time to merge an entry of small segments into a large one and its tables
    #[arg(long, value_name = "NS", default_value_t = 255)]
    pub(super) promotion_ns: u64,
    /// Simulated time to merge an entry of large segments
    #[arg(long, value_name = "NS", default_value_t = 70)]
    pub(super) large_merge_ns: u64,
    /// Simulated time to merge an entry of secondary tables
    #[arg(long, value_name = "NS", default_value_t = 30)]
    pub(super) table_ns: u64,
}

/// The parameters of a simulation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    pub(super) rates: Rates,
    /// The number of events of a delta.
    pub(super) delta_events: u64,
    /// The number of secondary tables of a large segment.
    pub(super) secondary_tables: usize,
    /// Whether segments and tables are merged at all.
    pub(super) merges: bool,
}

/// Inserts this many distinct fingerprints, waits for all merges under load, and then for those of
/// an idle index.
pub(super) fn simulate(setup: &Setup, count: u64) -> Figures {
    let mut simulation = Simulation::new(setup, count);
    simulation.load();
    let (loaded, seconds) = (simulation.written, float(simulation.now_ns) / 1e9);
    if setup.merges {
        simulation.settle();
    }
    Figures {
        how: "simulated",
        loaded,
        settled: simulation.written,
        peak_bytes: Some(simulation.peak_bytes),
        seconds,
        ..Figures::new(count, &simulation.visited)
    }
}

/// A piece of work, and when it is done.
struct Running {
    task: Task,
    since_ns: u64,
    until_ns: u64,
}

enum Task {
    /// The writer fills a delta of this size.
    Fill(u64),
    /// The flusher turns the oldest full delta into a segment.
    Flush,
    /// The flusher delays the next delta.
    Delay,
    /// The flusher or the merger merges.
    Merge(Merge),
}

/// The three threads.
const WRITER: usize = 0;
const FLUSHER: usize = 1;
const MERGER: usize = 2;

struct Simulation<'a> {
    setup: &'a Setup,
    now_ns: u64,
    /// The inserts that are still to come.
    left: u64,
    inserted: u64,
    /// The inserts before the running merge began.
    inserted_before_merge: u64,
    /// Sizes of the full deltas, oldest first, including the one that is being flushed.
    full: Vec<u64>,
    levels: LevelSizes,
    running: [Option<Running>; 3],
    written: Written,
    peak_bytes: f64,
    /// The segments that a look-up visits, after each flush.
    visited: Vec<u64>,
}

impl<'a> Simulation<'a> {
    fn new(setup: &'a Setup, count: u64) -> Self {
        let tables = vec![Vec::new(); setup.secondary_tables];
        Self {
            setup,
            now_ns: 0,
            left: count,
            inserted: 0,
            inserted_before_merge: 0,
            full: Vec::new(),
            levels: LevelSizes { segments: Vec::new(), tables, small_max: SMALL_MAX },
            running: [None, None, None],
            written: Written::default(),
            peak_bytes: 0.0,
            visited: Vec::new(),
        }
    }

    /// Runs until everything is inserted and nothing is left to merge under load.
    fn load(&mut self) {
        loop {
            self.begin_work();
            self.note_peak();
            let until = |thread: &usize| self.running[*thread].as_ref().map(|r| r.until_ns);
            let Some(thread) = (WRITER..=MERGER).filter(|at| until(at).is_some()).min_by_key(until)
            else {
                return;
            };
            let Some(done) = self.running[thread].take() else { return };
            self.now_ns = done.until_ns;
            self.finish(thread, done.task);
        }
    }

    /// Merges what an index merges once writes have paused, one piece of work at a time.
    fn settle(&mut self) {
        let newest = |levels: &LevelSizes| policy::next_of_newest(levels, None, Load::Paused);
        let any = |levels: &LevelSizes| policy::next(levels, Load::Idle);
        while let Some(merge) = newest(&self.levels).or_else(|| any(&self.levels)) {
            self.start(MERGER, Task::Merge(merge), 0);
            self.note_peak();
            if let Some(Running { task, .. }) = self.running[MERGER].take() {
                self.finish(MERGER, task);
            }
        }
    }

    /// Gives work to each thread that has none.
    fn begin_work(&mut self) {
        let Rates { insert_ns, flush_ns, .. } = self.setup.rates;
        if self.running[WRITER].is_none() && self.left > 0 && self.full.len() < FULL_DELTAS_MAX {
            let size = self.left.min(self.setup.delta_events);
            self.start(WRITER, Task::Fill(size), size * insert_ns);
        }
        if let (None, Some(size)) = (&self.running[FLUSHER], self.full.first()) {
            self.start(FLUSHER, Task::Flush, size * flush_ns);
        }
        // Both never choose the same segments: the merger waits for a merge of the flusher.
        let flusher_merges =
            matches!(&self.running[FLUSHER], Some(Running { task: Task::Merge(_), .. }));
        if self.setup.merges
            && self.running[MERGER].is_none()
            && !flusher_merges
            && let Some(merge) = policy::next(&self.levels, Load::Writing)
        {
            self.inserted_before_merge = self.inserted;
            let took_ns = self.merge_ns(&merge);
            self.start(MERGER, Task::Merge(merge), took_ns);
        }
    }

    fn start(&mut self, thread: usize, task: Task, took_ns: u64) {
        let (since_ns, until_ns) = (self.now_ns, self.now_ns + took_ns);
        self.running[thread] = Some(Running { task, since_ns, until_ns });
    }

    fn finish(&mut self, thread: usize, task: Task) {
        match task {
            Task::Fill(size) => {
                self.left -= size;
                self.inserted += size;
                self.full.push(size);
            }
            Task::Flush => {
                let entries = self.full.remove(0);
                let segment = SegmentSize { entries, fingerprints: entries, is_small: true };
                self.levels.segments.push(segment);
                self.written.flushed += entries;
                self.after_flush();
            }
            Task::Delay => {}
            Task::Merge(merge) => {
                self.merge(&merge);
                if thread == FLUSHER {
                    self.after_flush();
                } else if let Merge::Segments { range, .. } = merge {
                    self.shift_merge_of_flusher(range.len() - 1);
                }
            }
        }
    }

    /// The flusher merges the newest segments, or else delays the next delta.
    fn after_flush(&mut self) {
        let free = self.running[MERGER].as_ref().map(|running| {
            let Task::Merge(Merge::Segments { range, .. }) = &running.task else { return 0 };
            range.end
        });
        if self.setup.merges
            && let Some(merge) = policy::next_of_newest(&self.levels, free, Load::Writing)
        {
            let took_ns = self.merge_ns(&merge);
            self.start(FLUSHER, Task::Merge(merge), took_ns);
            return;
        }
        self.visited.push(self.segments_visited());
        let arrived = free.map_or(0, |_| self.inserted - self.inserted_before_merge);
        let delay_ns = policy::write_delay(&self.levels, arrived).as_nanos() as u64;
        if self.setup.merges && delay_ns > 0 {
            self.start(FLUSHER, Task::Delay, delay_ns);
        }
    }

    /// Segments before those that the flusher merges have become fewer.
    fn shift_merge_of_flusher(&mut self, by: usize) {
        if let Some(Running { task: Task::Merge(Merge::Segments { range, .. }), .. }) =
            &mut self.running[FLUSHER]
        {
            *range = range.start - by..range.end - by;
        }
    }

    fn merge(&mut self, merge: &Merge) {
        let entries = self.entries_of(merge);
        match merge {
            Merge::Segments { range, into_large, .. } => {
                if self.is_promotion(range, *into_large) {
                    for tables in &mut self.levels.tables {
                        tables.push(TableSize { entries, dropped: 0 });
                        self.written.in_tables += entries;
                    }
                }
                let is_small = !into_large;
                let merged = SegmentSize { entries, fingerprints: entries, is_small };
                self.levels.segments.splice(range.clone(), [merged]);
                self.written.merged += entries;
            }
            Merge::Tables { role, range, .. } => {
                let merged = TableSize { entries, dropped: 0 };
                self.levels.tables[role - 1].splice(range.clone(), [merged]);
                self.written.in_tables += entries;
            }
        }
    }

    fn entries_of(&self, merge: &Merge) -> u64 {
        match merge {
            Merge::Segments { range, .. } => {
                self.levels.segments[range.clone()].iter().map(|segment| segment.entries).sum()
            }
            Merge::Tables { role, range, .. } => {
                self.levels.tables[role - 1][range.clone()].iter().map(|table| table.entries).sum()
            }
        }
    }

    /// Whether small segments become a large one, which then needs secondary tables.
    fn is_promotion(&self, range: &Range<usize>, into_large: bool) -> bool {
        into_large && self.levels.segments[range.start].is_small
    }

    fn merge_ns(&self, merge: &Merge) -> u64 {
        let rates = &self.setup.rates;
        let each_ns = match merge {
            Merge::Segments { into_large: false, .. } => rates.small_merge_ns,
            Merge::Segments { range, .. } if self.is_promotion(range, true) => rates.promotion_ns,
            Merge::Segments { .. } => rates.large_merge_ns,
            Merge::Tables { .. } => rates.table_ns,
        };
        self.entries_of(merge) * each_ns
    }

    /// The segments of the view. While a partitioned merge runs, each of its inputs is several.
    fn segments_visited(&self) -> u64 {
        let segments = self.levels.segments.len() as u64;
        match &self.running[MERGER] {
            Some(Running {
                task: Task::Merge(Merge::Segments { range, partitioned: true, .. }),
                since_ns,
                until_ns,
            }) => {
                let (inputs, took_ns) = (range.len() as u64, (until_ns - since_ns).max(1));
                let merged = PARTITIONS * (self.now_ns - since_ns) / took_ns;
                segments - inputs + (PARTITIONS - merged) * inputs + merged
            }
            _ => segments,
        }
    }

    fn note_peak(&mut self) {
        let deltas = self.full.iter().sum::<u64>() + self.setup.delta_events;
        let stored = self.levels.segments.iter().map(|s| segment_bytes(s.entries, s.is_small));
        let tables = self.levels.tables.iter().flatten().map(|t| float(t.entries) * TABLE_BYTES);
        let results = self.running.iter().flatten().map(|running| self.result_bytes(&running.task));
        let bytes = float(deltas) * DELTA_BYTES + stored.chain(tables).chain(results).sum::<f64>();
        self.peak_bytes = self.peak_bytes.max(bytes);
    }

    /// The memory that a piece of work takes in addition to its inputs.
    fn result_bytes(&self, task: &Task) -> f64 {
        let part = |partitioned: bool| if partitioned { float(PARTITIONS) } else { 1.0 };
        match task {
            Task::Fill(_) | Task::Delay => 0.0,
            Task::Flush => segment_bytes(self.full[0], true),
            Task::Merge(merge) => match merge {
                Merge::Segments { range, into_large, partitioned } => {
                    let entries = self.entries_of(merge);
                    let more = if self.is_promotion(range, *into_large) {
                        PROMOTION_BYTES + float(self.setup.secondary_tables as u64) * TABLE_BYTES
                    } else {
                        0.0
                    };
                    (segment_bytes(entries, !into_large) + float(entries) * more)
                        / part(*partitioned)
                }
                Merge::Tables { partitioned, .. } => {
                    float(self.entries_of(merge)) * TABLE_BYTES / part(*partitioned)
                }
            },
        }
    }
}

fn segment_bytes(entries: u64, is_small: bool) -> f64 {
    float(entries) * if is_small { SMALL_BYTES } else { LARGE_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETUP: Setup = Setup {
        rates: Rates {
            insert_ns: 100,
            flush_ns: 165,
            small_merge_ns: 110,
            promotion_ns: 255,
            large_merge_ns: 70,
            table_ns: 30,
        },
        delta_events: 32_768,
        secondary_tables: 1,
        merges: true,
    };

    #[test]
    fn no_entry_is_lost_or_made_up() {
        for count in [1, 32_768, 32_769, 1_000_000, 30_000_000] {
            let mut simulation = Simulation::new(&SETUP, count);
            simulation.load();
            let stored =
                |s: &Simulation<'_>| s.levels.segments.iter().map(|s| s.entries).sum::<u64>();
            assert_eq!(stored(&simulation), count);
            assert_eq!(simulation.written.flushed, count, "each entry is flushed once");
            simulation.settle();
            assert_eq!(stored(&simulation), count);
            let in_large = simulation.levels.segments.iter().filter(|segment| !segment.is_small);
            let in_large: u64 = in_large.map(|segment| segment.entries).sum();
            let in_tables: u64 = simulation.levels.tables[0].iter().map(|t| t.entries).sum();
            assert_eq!(in_tables, in_large, "every large segment has its secondary table");
        }
    }

    #[test]
    fn without_merges_each_entry_is_written_once_and_each_flush_leaves_a_segment() {
        let figures = simulate(&Setup { merges: false, ..SETUP }, 100 * SETUP.delta_events);
        assert_eq!(
            (figures.settled.amplification(figures.count), figures.segments_most),
            (1.0, 100)
        );
    }

    #[test]
    fn a_settled_index_of_each_size_is_few_segments() {
        for count in [10_000, 1_000_000, 10_000_000] {
            let mut simulation = Simulation::new(&SETUP, count);
            simulation.load();
            simulation.settle();
            assert!(simulation.levels.segments.len() <= 2, "{:?}", simulation.levels.segments);
        }
    }

    #[test]
    fn slow_merges_slow_writes_down() {
        let fast = simulate(&SETUP, 20_000_000);
        let rates = Rates { promotion_ns: 5_000, ..SETUP.rates };
        let slow = simulate(&Setup { rates, ..SETUP }, 20_000_000);
        assert!(slow.seconds > 2.0 * fast.seconds, "{} {}", slow.seconds, fast.seconds);
    }
}
