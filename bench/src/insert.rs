//! `nearprint-bench insert`: inserts packed batches into an engine on a disk, with the default
//! durability.
//!
//! The rate is reported for each tenth of the growth, because merges make later ones slower. Memory
//! is reported at its peak, during merges, and settled. Then, at the full size: packed
//! check-and-inserts, half of which find a near-duplicate, and a restart.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use nearprint::cli::measure::arguments::count;
use nearprint::cli::measure::numbers::{float, per_second, ratio};
use nearprint::server::Settings;
use nearprint_engine::Stats;
use nearprint_fingerprint::Distance;
use nearprint_machine::change::PACKED_MAX;

use crate::arguments::Data;
use crate::clock::Stopwatch;
use crate::data::Stored;
use crate::latency::Latencies;
use crate::limits;
use crate::process;
use crate::progress::Progress;
use crate::report::{Fact, Report, Row};
use crate::scratch::{self, Driven, Scratch, index_bytes};
use crate::verify::Verdict;

const BATCH: &str = "a packed batch";

/// The arguments of `bench insert`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) data: Data,
    /// How many packed check-and-inserts at each distance
    #[arg(long, value_name = "N", default_value = "1m", value_parser = count)]
    queries: u64,
    /// What segments and tables may take of memory, in bytes [default: half of what the index may]
    #[arg(long, value_name = "BYTES", value_parser = count)]
    index_memory: Option<u64>,
    /// Make the data directory below this one; it is removed at the end [default: .]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// A point of the growth.
struct Grown {
    count: u64,
    ns: u64,
}

pub(super) fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("insert", args.data.seed);
    let scratch = Scratch::below(args.data_dir.as_deref())?;
    let mut indexes_bytes = Vec::new();
    let distance_max = args.data.distance.iter().copied().max().unwrap_or_default();
    for stored in args.data.stored()? {
        let stored = &stored;
        let mut settings = scratch.settings(&stored.count().to_string(), distance_max)?;
        let engine = &mut settings.engine;
        engine.index_memory_bytes_max = args.index_memory.unwrap_or(engine.index_memory_bytes_max);
        indexes_bytes.push(measure(args, stored, &settings, &mut report)?);
    }
    report.limits = limits::measure(&indexes_bytes);
    Ok(report)
}

/// One size; the index's memory in bytes.
fn measure(args: &Args, stored: &Stored, settings: &Settings, report: &mut Report) -> Result<u64> {
    let count = stored.count();
    process::forget_peak();
    let driven = Driven::open(settings)?;
    let (growth, times) = grow(&driven, stored)?;
    report.results.extend(growth_rows(&growth, &times, settings.engine.distance_max));
    let stats = driven.settle()?;
    report.facts.extend(memory_facts(&stats, stored.bytes()));
    for &distance in &args.data.distance {
        let (row, verdict) = check_and_insert(args, (&driven, stored), distance)?;
        report.results.push(row);
        report.verified(verdict);
    }
    let documents = driven.engine.stats().documents;
    let index_bytes = index_bytes(&stats);
    restart((driven, settings), documents, stored.bytes(), report)?;
    for row in report.results.iter_mut().filter(|row| row.count == count) {
        row.index_bytes_a_fingerprint = Some(ratio(index_bytes, count));
    }
    Ok(index_bytes)
}

/// Inserts everything. Returns when each tenth was on the disk, and the times of batches.
fn grow(driven: &Driven, stored: &Stored) -> Result<(Vec<Grown>, Latencies)> {
    let count = stored.count();
    let progress = Progress::of("storing fingerprints", count);
    let begun = Stopwatch::start();
    let mut growth: Vec<Grown> = Vec::new();
    // A batch that is part of a tenth at most, so that each tenth has its own end.
    let batch = PACKED_MAX.min(usize::try_from(count.div_ceil(10))?);
    let times = driven.insert(stored.batches(batch), |done| {
        progress.at(done);
        if done * 10 >= count * (growth.len() as u64 + 1) {
            growth.push(Grown { count: done, ns: begun.ns() });
        }
    })?;
    Ok((growth, times))
}

fn growth_rows(growth: &[Grown], times: &Latencies, distance_max: Distance) -> Vec<Row> {
    let mut rows = Vec::new();
    let (mut count, mut ns) = (0, 0);
    for grown in growth {
        let rate = per_second(grown.count - count, grown.ns - ns);
        let row = Row::new("insert, up to this size", grown.count).rate(rate, "fingerprints");
        rows.push(row.at(distance_max));
        (count, ns) = (grown.count, grown.ns);
    }
    let row = Row::new("insert, all", count).rate(per_second(count, ns), "fingerprints");
    rows.push(row.at(distance_max).times(times, BATCH));
    rows
}

fn memory_facts(stats: &Stats, list_bytes: u64) -> Vec<Fact> {
    let count = stats.documents;
    let each = |bytes: u64| ratio(bytes.saturating_sub(list_bytes), count);
    let unit = "bytes a fingerprint";
    let mut facts = Vec::new();
    if let Some(memory) = process::settled_memory() {
        facts.push(Fact::number("resident, at the peak", count, each(memory.peak), unit));
        facts.push(Fact::number("resident, settled", count, each(memory.resident), unit));
    }
    let tables = ratio(stats.memory.tables, count);
    facts.push(Fact::number("tables, settled", count, tables, unit));
    let in_files = ratio(stats.index_file_bytes, count);
    facts.push(Fact::number("index in files, settled", count, in_files, unit));
    facts.push(Fact::number("journal", count, ratio(stats.journal_bytes, count), unit));
    for segment in &stats.segments {
        let plan = format!("{} of {} documents", segment.plan, segment.documents);
        facts.push(Fact::text("segment", count, plan));
    }
    facts
}

fn check_and_insert(
    args: &Args,
    (driven, stored): (&Driven, &Stored),
    distance: Distance,
) -> Result<(Row, Verdict)> {
    // Another seed for each distance, or the second one would find what the first one stored.
    let seed = args.data.seed.wrapping_add(1 + u64::from(distance.get()));
    let queries = scratch::queries(stored, args.queries, distance, seed);
    let begun = Stopwatch::start();
    let (times, verdict) = driven.check_and_insert(&queries, distance)?;
    let rate = per_second(args.queries, begun.ns());
    let row = Row::new("check-and-insert", stored.count()).at(distance);
    Ok((row.rate(rate, "fingerprints").times(&times, BATCH), verdict))
}

/// Closes the engine and opens it again, with the snapshot that closing takes.
fn restart(
    (driven, settings): (Driven, &Settings),
    documents: u64,
    list_bytes: u64,
    report: &mut Report,
) -> Result<()> {
    driven.close();
    let begun = Stopwatch::start();
    let driven = Driven::open(settings)?;
    let ns = begun.ns();
    ensure!(
        driven.engine.stats().documents == documents,
        "{documents} documents were stored, {} are there after a restart",
        driven.engine.stats().documents
    );
    report.facts.push(Fact::number("restart", documents, float(ns) / 1e9, "seconds"));
    driven.settle()?;
    if let Some(memory) = process::settled_memory() {
        let each = ratio(memory.resident.saturating_sub(list_bytes), documents);
        let what = "resident, after the restart";
        report.facts.push(Fact::number(what, documents, each, "bytes a fingerprint"));
    }
    driven.close();
    Ok(())
}
