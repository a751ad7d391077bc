//! `nearprint-bench lookup`: look-ups of an index in this process, without engine, disk or network.
//!
//! An index is built for each size and distance. Half of the queries are planted near a stored
//! fingerprint, evenly at each distance; the others are random. Every answer is verified afterwards
//! ([`verify`]). Single look-ups run one after the other; in a batch several are in flight. The
//! mean is that of the quickest of several passes without a clock in the loop, because other work
//! on the machine only adds time. The quantiles come from a pass that times each look-up, less the
//! cost of the clock.

use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use anyhow::Result;
use nearprint::cli::measure::arguments::count;
use nearprint::cli::measure::numbers::{per_second, ratio};
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_index::view::View;
use nearprint_index::visibility::Visibility;

use crate::arguments::{Data, threads};
use crate::clock::{Stopwatch, overhead_ns};
use crate::crowd;
use crate::data::{Queries, Stored, view_holding};
use crate::latency::Latencies;
use crate::limits;
use crate::process;
use crate::progress::Progress;
use crate::report::{Fact, Report, Row};
use crate::verify;

const QUERIES_DEFAULT: u64 = 1_000_000;
/// Queries into the cluster have thousands of hits each.
const QUERIES_ADVERSARIAL: u64 = 20_000;

/// Passes of a loop; the quickest counts.
const PASSES: usize = 3;

/// Shorter passes have no processor time, because the kernel counts it a few milliseconds late.
const CPU_KNOWN_FROM_NS: u64 = 100_000_000;

/// The number of queries in the parts of a batch whose times make the quantiles.
const PART: usize = 1_000;

const NOTES: [&str; 2] = [
    "index B/fp: what the segments report; resident: the whole process when the index is built, \
     before there are queries, less the list of --file or --adversarial",
    "mean: the quickest of 3 passes without a clock in the loop; quantiles: each timed in a further \
     pass, less what reading the clock costs",
];

/// The arguments of `bench lookup`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) data: Data,
    /// Store what sorted tables like least: shared halves, a cluster, small integers
    #[arg(long, conflicts_with = "file")]
    adversarial: bool,
    /// How many queries [default: 1m, with --adversarial 20k]
    #[arg(long, value_name = "N", value_parser = count)]
    queries: Option<u64>,
    /// Also look up on this many threads together
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads)]
    threads: usize,
}

/// An index with its queries.
struct Subject<'a> {
    view: &'a View,
    queries: &'a Queries,
    distance: Distance,
}

pub(super) fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("lookup", args.data.seed);
    report.notes = &NOTES;
    let mut indexes_bytes = Vec::new();
    let mut measure_all = |stored: &Stored| {
        for &distance in &args.data.distance {
            indexes_bytes.push(measure(args, stored, distance, &mut report));
        }
    };
    if args.adversarial {
        // One after the other, so that no list of another size counts as memory of the index.
        for &count in args.data.counts() {
            measure_all(&Stored::adversarial(count, args.data.seed));
        }
    } else {
        args.data.stored()?.for_each(|stored| measure_all(&stored));
    }
    report.limits = limits::measure(&indexes_bytes);
    Ok(report)
}

/// Builds and asks one index; its size in bytes.
fn measure(args: &Args, stored: &Stored, distance: Distance, report: &mut Report) -> u64 {
    let count = stored.count();
    let begun = Stopwatch::start();
    let progress = Progress::of("building the index", count);
    let view = view_holding(stored, distance, |done| progress.at(done));
    drop(progress);
    let built = per_second(count, begun.ns());
    let what = format!("index for distance {distance}, built");
    report.facts.push(Fact::number(what, count, built, "fingerprints a second"));
    // Nothing else is in memory yet, but the list that was stored.
    let resident =
        process::settled_memory().map(|memory| memory.resident.saturating_sub(stored.bytes()));
    let segments = view.segments().iter().map(|segment| segment.bytes().total());
    let index = segments.sum::<u64>() + view.secondary_tables_bytes();
    let what = format!("index for distance {distance}, tables");
    report.facts.push(Fact::text(what, count, view.plans().for_count(count).to_string()));
    report.facts.extend(crowd::facts(stored, args.data.seed));
    let from = report.results.len();
    for part in stored.parts() {
        let asked = if args.adversarial { QUERIES_ADVERSARIAL } else { QUERIES_DEFAULT };
        let asked = args.queries.unwrap_or(asked);
        let queries = Queries::aimed_at((stored, part), asked, distance, args.data.seed);
        for (kind, queries) in kinds(stored, &queries) {
            let subject = Subject { view: &view, queries: &queries, distance };
            let named =
                |row: Row| Row { what: format!("{}, {}{kind}", row.what, part.name), ..row };
            report.results.extend(rows(&subject, args.threads).into_iter().map(named));
        }
        let _progress = Progress::of("verifying answers", asked);
        report.verified(verify::view(&view, stored, &queries, distance));
    }
    for row in &mut report.results[from..] {
        row.count = count;
        row.index_bytes_a_fingerprint = Some(ratio(index, count));
        row.resident_bytes_a_fingerprint = resident.map(|bytes| ratio(bytes, count));
    }
    index
}

/// Queries that are measured together. The crowd of a text is where its model draws it, and a
/// planted query leaves it by its flips; so queries like text are measured by how they came about.
fn kinds<'a>(stored: &Stored, queries: &'a Queries) -> Vec<(&'static str, Cow<'a, Queries>)> {
    if stored.model().is_none() {
        return vec![("", Cow::Borrowed(queries))];
    }
    let (planted, drawn) = queries.apart();
    vec![(", planted", Cow::Owned(planted)), (", drawn", Cow::Owned(drawn))]
}

fn rows(subject: &Subject<'_>, threads: usize) -> Vec<Row> {
    let _progress = Progress::of("looking up", subject.queries.fingerprints.len() as u64);
    let mut rows = vec![subject.single(1), subject.batch(1)];
    if threads > 1 {
        rows.extend([subject.single(threads), subject.batch(threads)]);
    }
    rows
}

impl Subject<'_> {
    fn single(&self, threads: usize) -> Row {
        let one =
            |query: Fingerprint| self.view.near(query, self.distance, &Visibility::DEFAULT).len();
        let plain = |queries: &[Fingerprint]| {
            queries.iter().map(|&query| one(query)).fold(0, usize::wrapping_add)
        };
        let overhead_ns = overhead_ns();
        let timed = |queries: &[Fingerprint]| {
            let mut times = Latencies::new();
            for &query in queries {
                let begun = Stopwatch::start();
                black_box(one(query));
                times.record(begun.ns().saturating_sub(overhead_ns));
            }
            times
        };
        self.row(("single", "a look-up"), threads, (&plain, &timed))
    }

    fn batch(&self, threads: usize) -> Row {
        let found = |queries: &[Fingerprint]| {
            self.view.nearest(queries, self.distance, Visibility::DEFAULT).flatten().count()
        };
        let timed = |queries: &[Fingerprint]| {
            let mut times = Latencies::new();
            for part in queries.chunks(PART) {
                let begun = Stopwatch::start();
                black_box(found(part));
                times.record(begun.ns() / part.len() as u64);
            }
            times
        };
        self.row(("batch", "a look-up, in 1,000"), threads, (&found, &timed))
    }

    fn row(
        &self,
        (what, times_of): (&str, &'static str),
        threads: usize,
        (plain, timed): (
            &(impl Fn(&[Fingerprint]) -> usize + Sync),
            &(impl Fn(&[Fingerprint]) -> Latencies + Sync),
        ),
    ) -> Row {
        let queries = &self.queries.fingerprints;
        let asked = queries.len() as u64;
        let passes: Vec<Pass> = (0..PASSES).map(|_| at_once(queries, threads, plain).0).collect();
        let ns = passes.iter().map(|pass| pass.ns).min().unwrap_or_default();
        let cpu_ns = passes.iter().filter_map(|pass| pass.cpu_ns).min();
        let mut times = Latencies::new();
        for more in at_once(queries, threads, timed).1 {
            times.add(&more);
        }
        let what = match threads {
            1 => what.to_owned(),
            threads => format!("{what}, {threads} threads"),
        };
        Row {
            mean_ns: Some(ratio(ns * threads as u64, asked)),
            cpu_ns: cpu_ns.map(|cpu_ns| ratio(cpu_ns, asked)),
            ..Row::new(what, 0).at(self.distance)
        }
        .rate(per_second(asked, ns), "look-ups")
        .quantiles(&times, times_of)
    }
}

/// One pass over all queries.
struct Pass {
    /// From the begin of the first thread to the end of the last.
    ns: u64,
    /// The time of all threads on the cores, where the pass was long enough to tell.
    cpu_ns: Option<u64>,
}

/// The share of one thread in a pass; times since a common start.
struct Share<T> {
    begun_ns: u64,
    ended_ns: u64,
    cpu_ns: Option<u64>,
    done: T,
}

/// Shares the queries among threads, which begin together.
fn at_once<T: Send>(
    queries: &[Fingerprint],
    threads: usize,
    work: &(impl Fn(&[Fingerprint]) -> T + Sync),
) -> (Pass, Vec<T>) {
    let size = queries.len().div_ceil(threads).max(1);
    let barrier = &Barrier::new(queries.chunks(size).len());
    let start = Stopwatch::start();
    // Each thread reads the clock itself: another one may not have a core at that moment.
    let share = |queries: &[Fingerprint]| {
        barrier.wait();
        let (begun_ns, cpu_before) = (start.ns(), process::thread_cpu_ns());
        let done = black_box(work(queries));
        let ended_ns = start.ns();
        let cpu_ns = cpu_before.zip(process::thread_cpu_ns()).map(|(before, after)| after - before);
        Share { begun_ns, ended_ns, cpu_ns, done }
    };
    let shares: Vec<Share<T>> = thread::scope(|scope| {
        let share = &share;
        let parts = queries.chunks(size);
        let workers: Vec<_> = parts.map(|part| scope.spawn(move || share(part))).collect();
        let done = workers.into_iter().map(thread::ScopedJoinHandle::join);
        done.map(|share| share.expect("a look-up does not panic")).collect()
    });
    let begun_ns = shares.iter().map(|share| share.begun_ns).min().unwrap_or_default();
    let ended_ns = shares.iter().map(|share| share.ended_ns).max().unwrap_or_default();
    let ns = ended_ns - begun_ns;
    let cpu_ns = shares.iter().map(|share| share.cpu_ns).sum();
    let pass = Pass { ns, cpu_ns: if ns < CPU_KNOWN_FROM_NS { None } else { cpu_ns } };
    (pass, shares.into_iter().map(|share| share.done).collect())
}
