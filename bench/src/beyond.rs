//! `nearprint-bench beyond`: look-ups of an index that does not fit into memory.
//!
//! The first run stores the fingerprints in a directory that stays; each run then opens it with
//! `engine.index_memory_bytes_max` set to `--index-memory`, and looks up with the files out of the
//! page cache. So a second run can have a process or a container of its own, with less memory than
//! the first one needed:
//!
//! ```text
//! nearprint-bench beyond --count 200m --directory DIR
//! systemd-run --scope -p MemoryMax=512M nearprint-bench beyond --count 200m --directory DIR
//! ```
//!
//! Reads are what the kernel has read from the disk for this process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use nearprint::cli::measure::arguments::count;
use nearprint::cli::measure::numbers::{float, per_second, ratio};
use nearprint_engine::Engine;
use nearprint_fingerprint::{Distance, Fingerprint};
use rustix::fs::{Advice, fadvise};

use crate::arguments::{Data, threads};
use crate::clock::Stopwatch;
use crate::data::{Queries, Stored};
use crate::latency::Latencies;
use crate::process;
use crate::progress::Progress;
use crate::report::{Fact, Report, Row};
use crate::scratch::{self, Driven};
use crate::verify::Verdict;

/// The queries of a batch.
const BATCH: usize = 1_000;

/// The size of what is read of a file at once.
const PAGE_BYTES: u64 = 4_096;

/// The arguments of `bench beyond`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) data: Data,
    /// What segments and tables may take of memory
    #[arg(long, value_name = "BYTES", default_value = "1m", value_parser = count)]
    index_memory: u64,
    /// The data directory; made if it is missing, and not removed
    #[arg(long, value_name = "DIR")]
    directory: PathBuf,
    /// How many queries, half of them near something stored
    #[arg(long, value_name = "N", default_value = "20k", value_parser = count)]
    queries: u64,
    /// Also look up on this many threads together
    #[arg(long, value_name = "N", default_value = "16", value_parser = threads)]
    threads: usize,
}

pub(super) fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("beyond", args.data.seed);
    for stored in args.data.stored()? {
        for &distance in &args.data.distance {
            measure(args, &stored, distance, &mut report)?;
        }
    }
    Ok(report)
}

fn measure(args: &Args, stored: &Stored, distance: Distance, report: &mut Report) -> Result<()> {
    let mut settings = scratch::settings_of(&args.directory, distance)?;
    if !args.directory.exists() {
        let driven = Driven::open(&settings)?;
        driven.fill(stored)?;
        driven.close();
    }
    settings.engine.index_memory_bytes_max = args.index_memory;
    leave_page_cache(&args.directory)?;
    let (begun, read) = (Stopwatch::start(), process::read_bytes());
    let driven = Driven::open(&settings)?;
    let (ns, read) = (begun.ns(), read_since(read));
    let stats = driven.engine.stats();
    let count = stats.documents;
    ensure!(count == stored.count(), "the directory has {count} documents");
    report.facts.push(Fact::number("start", count, float(ns) / 1e9, "seconds"));
    report.facts.push(Fact::number(
        "start, read",
        count,
        ratio(read, count),
        "bytes a fingerprint",
    ));
    let in_files = ratio(stats.index_file_bytes, count);
    report.facts.push(Fact::number("in files", count, in_files, "bytes a fingerprint"));
    let in_memory = ratio(scratch::index_bytes(&stats), count);
    report.facts.push(Fact::number("in memory", count, in_memory, "bytes a fingerprint"));
    for (at, (what, threads, width)) in
        [("single", 1, 1), ("single", args.threads, 1), ("batch", 1, BATCH)].into_iter().enumerate()
    {
        // Each has queries of its own, whose pages nobody has read.
        let seed = args.data.seed + 1 + at as u64;
        let queries = scratch::queries(stored, args.queries, distance, seed);
        leave_page_cache(&args.directory)?;
        let asked = ask(&driven.engine, &queries, (distance, threads, width))?;
        let what = if threads > 1 { format!("{what}, {threads} threads") } else { what.to_owned() };
        report.facts.push(Fact::number(
            format!("{what}, read"),
            count,
            asked.reads,
            "pages a look-up",
        ));
        let each = asked.cpu_ns / asked.reads / 1e3;
        report.facts.push(Fact::number(format!("{what}, CPU"), count, each, "us a page"));
        let row = Row { cpu_ns: Some(asked.cpu_ns), ..Row::new(what, count).at(distance) };
        let row = row.rate(per_second(args.queries, asked.ns), "look-ups");
        report
            .results
            .push(row.times(&asked.times, if width == 1 { "a look-up" } else { "1,000" }));
        report.verified(asked.verdict);
    }
    if let Some(memory) = process::settled_memory() {
        let each = ratio(memory.resident, count);
        report.facts.push(Fact::number("resident", count, each, "bytes a fingerprint"));
    }
    driven.close();
    Ok(())
}

/// What some look-ups took.
struct Asked {
    ns: u64,
    /// A look-up.
    cpu_ns: f64,
    /// Pages a look-up.
    reads: f64,
    times: Latencies,
    verdict: Verdict,
}

/// Looks up all queries on some threads, so many at a time.
fn ask(
    engine: &Engine,
    queries: &Queries,
    (distance, threads, width): (Distance, usize, usize),
) -> Result<Asked> {
    let asked = &queries.fingerprints;
    let progress = Progress::of("looking up", asked.len() as u64);
    let (read, cpu, begun) = (process::read_bytes(), process::all_cpu_ns(), Stopwatch::start());
    let done = AtomicUsize::new(0);
    let share = |queries: &[Fingerprint]| -> Result<(Vec<u8>, Latencies)> {
        let (mut answers, mut times) = (Vec::with_capacity(queries.len()), Latencies::new());
        for few in queries.chunks(width) {
            let begun = Stopwatch::start();
            answers.extend(engine.nearest(few, distance).context("a look-up is refused")?);
            times.record(begun.ns());
            progress.at(done.fetch_add(few.len(), Ordering::Relaxed) as u64);
        }
        Ok((answers, times))
    };
    let shares: Vec<Result<(Vec<u8>, Latencies)>> = thread::scope(|scope| {
        let share = &share;
        let parts = asked.chunks(asked.len().div_ceil(threads).max(1));
        let workers: Vec<_> = parts.map(|part| scope.spawn(move || share(part))).collect();
        let ended = workers.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|share| share.expect("a look-up does not panic")).collect()
    });
    let ns = begun.ns();
    let cpu_ns = process::all_cpu_ns() - cpu;
    let (mut answers, mut times) = (Vec::new(), Latencies::new());
    for share in shares {
        let (some, more) = share?;
        answers.extend(some);
        times.add(&more);
    }
    let mut verdict = Verdict::default();
    verdict.check_packed(queries, &answers, distance);
    let count = asked.len() as u64;
    let reads = ratio(read_since(read), PAGE_BYTES * count);
    Ok(Asked { ns, cpu_ns: ratio(cpu_ns, count), reads, times, verdict })
}

fn read_since(before: Option<u64>) -> u64 {
    before.zip(process::read_bytes()).map_or(0, |(before, after)| after - before)
}

/// Takes the files of a directory out of the page cache.
#[expect(clippy::disallowed_methods, reason = "it reads nothing of them")]
fn leave_page_cache(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_file() {
            let file = File::open(path)?;
            file.sync_all()?;
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
