//! `nearprint-bench text`: from a text to its fingerprint and sketch, by the recipe `np2`.
//!
//! Calls the functions that the HTTP layer calls for a decoded text or page: normalisation,
//! features, fingerprint, sketch; for HTML also the extraction of the text. The first part of each
//! is also measured by itself. The texts are generated ([`prose`]). Each thread repeats all of
//! them.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use nearprint::cli::measure::arguments::count;
use nearprint::cli::measure::numbers::per_second;
use nearprint_text::{Method, Source, Wanted};

use crate::arguments::threads;
use crate::clock::{Stopwatch, overhead_ns};
use crate::latency::Latencies;
use crate::limits;
use crate::progress::Progress;
use crate::prose::{self, Kind};
use crate::report::{Report, Row};

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

/// Work on documents of a kind.
#[derive(Clone, Copy)]
struct Task {
    kind: Kind,
    name: &'static str,
    work: fn(&str),
}

/// From a text to its fingerprint, and with the sketch; of HTML the text alone, and all.
const TASKS: [Task; 6] = [
    Task { kind: Kind::English, name: "English, fingerprint", work: fingerprint },
    Task { kind: Kind::English, name: "English, and sketch", work: all },
    Task { kind: Kind::Chinese, name: "Chinese, fingerprint", work: fingerprint },
    Task { kind: Kind::Chinese, name: "Chinese, and sketch", work: all },
    Task { kind: Kind::Html, name: "HTML, content", work: content },
    Task { kind: Kind::Html, name: "HTML, and sketch", work: all_of_html },
];

fn fingerprint(text: &str) {
    let wanted = Wanted { sketch: false, features: false };
    black_box(nearprint_text::analyse(&Source::Text(text.into()), Method::default(), wanted))
        .expect("generated texts have words");
}

fn all(text: &str) {
    black_box(nearprint_text::analyse_text(text)).expect("generated texts have words");
}

fn content(html: &str) {
    black_box(nearprint_text::content_of_html(html));
}

fn all_of_html(html: &str) {
    black_box(nearprint_text::analyse_text(&nearprint_text::content_of_html(html)))
        .expect("generated pages have words");
}

/// The work of one thread.
struct Done {
    times: Latencies,
    bytes: u64,
}

pub(super) fn run(args: &Args) -> Report {
    let mut report = Report::new("text", args.seed);
    for &bytes in &args.bytes {
        for task in TASKS {
            report.results.push(measure(args, bytes, task));
        }
    }
    report.limits = limits::measure(&[]);
    report
}

fn measure(args: &Args, bytes: u64, Task { kind, name, work }: Task) -> Row {
    let _progress = Progress::during(&format!("{name} of {bytes} bytes"));
    let document = |i: u64| prose::document(kind, bytes as usize, args.seed.wrapping_add(i));
    let documents: Vec<String> = (0..args.count).map(document).collect();
    let begun = Stopwatch::start();
    let done: Vec<Done> = thread::scope(|scope| {
        let workers: Vec<_> = (0..args.threads)
            .map(|_| {
                scope.spawn(|| repeat_for(Duration::from_secs(args.seconds), work, &documents))
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

fn repeat_for(time: Duration, work: fn(&str), documents: &[String]) -> Done {
    let overhead_ns = overhead_ns();
    let mut done = Done { times: Latencies::new(), bytes: 0 };
    let all = Stopwatch::start();
    for document in documents.iter().cycle() {
        let begun = Stopwatch::start();
        work(document);
        done.times.record(begun.ns().saturating_sub(overhead_ns));
        done.bytes += document.len() as u64;
        if all.elapsed() >= time {
            break;
        }
    }
    done
}
