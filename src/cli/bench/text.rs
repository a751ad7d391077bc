//! `bench text`: from a text to its fingerprint and its sketch, by the recipe `np1`.
//!
//! Calls what the HTTP layer calls for a text or a page that is decoded already: normalising,
//! features, fingerprint, sketch; for HTML also taking the text out. The texts are generated
//! ([`prose`]). Each thread works through all of them again and again.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use super::arguments::{count, threads};
use super::clock::{Stopwatch, overhead_ns};
use super::latency::Latencies;
use super::limits;
use super::numbers::per_second;
use super::progress::Progress;
use super::prose::{self, Kind};
use super::report::{Report, Row};
use crate::text;

/// The arguments of `bench text`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many different documents of each kind are generated
    #[arg(long, value_name = "N", default_value = "1k", value_parser = count)]
    count: u64,
    /// How long a document is, in bytes; several lengths are measured one after the other
    #[arg(
        long,
        value_name = "BYTES",
        value_delimiter = ',',
        default_value = "5k",
        value_parser = count
    )]
    bytes: Vec<u64>,
    /// How many threads work at a time
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads)]
    threads: usize,
    /// How long each kind is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    seconds: u64,
    /// The texts are drawn from it; the same seed repeats a run
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

/// What a thread got done.
struct Done {
    times: Latencies,
    bytes: u64,
}

pub(super) fn run(args: &Args) -> Report {
    let mut report = Report::new("text", args.seed);
    for &bytes in &args.bytes {
        for (kind, name) in
            [(Kind::English, "English"), (Kind::Chinese, "Chinese"), (Kind::Html, "HTML")]
        {
            report.results.push(measure(args, bytes, (kind, name)));
        }
    }
    report.limits = limits::measure(&[]);
    report
}

fn measure(args: &Args, bytes: u64, (kind, name): (Kind, &str)) -> Row {
    let _progress = Progress::during(&format!("analysing {name} of {bytes} bytes"));
    let document = |i: u64| prose::document(kind, bytes as usize, args.seed.wrapping_add(i));
    let documents: Vec<String> = (0..args.count).map(document).collect();
    let begun = Stopwatch::start();
    let done: Vec<Done> = thread::scope(|scope| {
        let workers: Vec<_> = (0..args.threads)
            .map(|_| {
                scope.spawn(|| analyse_for(Duration::from_secs(args.seconds), kind, &documents))
            })
            .collect();
        let done = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        done.collect()
    });
    let ns = begun.ns();
    let mut times = Latencies::new();
    for done in &done {
        times.add(&done.times);
    }
    let bytes_done = done.iter().map(|done| done.bytes).sum();
    let what = match args.threads {
        1 => format!("{name}, {bytes} bytes"),
        threads => format!("{name}, {bytes} bytes, {threads} threads"),
    };
    let row = Row::new(what, args.count).rate(per_second(times.count(), ns), "documents");
    let row = row.times(&times, "a document");
    Row { megabytes_per_second: Some(per_second(bytes_done, ns) / 1e6), ..row }
}

fn analyse_for(time: Duration, kind: Kind, documents: &[String]) -> Done {
    let overhead_ns = overhead_ns();
    let mut done = Done { times: Latencies::new(), bytes: 0 };
    let all = Stopwatch::start();
    for document in documents.iter().cycle() {
        let begun = Stopwatch::start();
        black_box(match kind {
            Kind::English | Kind::Chinese => text::analyse_text(document),
            Kind::Html => text::analyse_html(document),
        })
        .expect("generated texts have words");
        done.times.record(begun.ns().saturating_sub(overhead_ns));
        done.bytes += document.len() as u64;
        if all.elapsed() >= time {
            break;
        }
    }
    done
}
