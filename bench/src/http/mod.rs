//! `bench http`: requests over loopback connections that are kept alive, and beside them the same
//! work in this process.
//!
//! Without `--url` the service runs in this process, on a free port and a fresh data directory, and
//! shares its cores with the clients. With `--url` it is one that runs already, best on cores of its
//! own:
//!
//! ```text
//! taskset -c 0 nearprint serve --listen 127.0.0.1:7900 --data fresh &
//! taskset -c 1 nearprint-bench http --url http://127.0.0.1:7900
//! ```
//!
//! Either way it is filled first, over HTTP: so name no service whose documents matter. Requests
//! come from as many threads as there are connections, each waiting for its reply.

mod client;
mod discarding;
mod target;

use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use self::client::{Asked, Clients};
use self::discarding::Discarding;
use self::target::Target;
use crate::arguments::{Data, threads};
use crate::connection::Request;
use crate::data::{Queries, Stored};
use crate::latency::Latencies;
use crate::machine;
use crate::prose;
use crate::report::{Fact, Report, Row};
use crate::scratch::{self, Scratch};
use crate::verify::Verdict;
use nearprint::cli::measure::arguments::count;
use nearprint::cli::measure::clock::Stopwatch;
use nearprint::cli::measure::limits;
use nearprint::cli::measure::numbers::{per_second, ratio};
use nearprint::cli::measure::progress::Progress;
use nearprint::cli::measure::random::Stream;
use nearprint::engine::Engine;
use nearprint::fingerprint::{Distance, Fingerprint};
use nearprint::machine::change::PACKED_MAX;

/// So many fingerprints are inserted by one request: 8 MB.
const INSERTED_AT_A_TIME: usize = 1_000_000;

const JSON: &str = "application/json";
const PACKED: &str = "application/octet-stream";
const REQUEST: &str = "a request";
const BATCH: &str = "a batch";

/// The arguments of `bench http`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) data: Data,
    /// How many connections ask single requests at a time, each on a thread of its own
    #[arg(long, value_name = "N", default_value = "16", value_parser = threads)]
    threads: usize,
    /// How many queries make a packed batch; single queries are taken from the same
    #[arg(long, value_name = "N", default_value = "1m", value_parser = count)]
    queries: u64,
    /// How long each kind of request is measured
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    seconds: u64,
    /// How many pages of 8 KB are checked and inserted at most, each once: half a gigabyte
    #[arg(long, value_name = "N", default_value = "60k", value_parser = count)]
    pages: u64,
    /// Measure this service, and store fingerprints in it, instead of one in this process
    #[arg(long, value_name = "URL", conflicts_with = "data_dir")]
    url: Option<String>,
    /// Make the data directory below this one; it is removed at the end [default: .]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// One filled service and what it is asked.
struct Bench<'a> {
    args: &'a Args,
    target: &'a Target,
    stored: &'a Stored,
    report: &'a mut Report,
}

pub(super) fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("http", args.data.seed);
    let sets = args.data.stored()?;
    ensure!(
        args.url.is_none() || sets.len() == 1,
        "a running service is filled once: name one --count"
    );
    // Removed only after the service in it has stopped.
    let scratch = match &args.url {
        Some(_) => None,
        None => Some(Scratch::below(args.data_dir.as_deref())?),
    };
    let distance_max = args.data.distance.iter().copied().max().unwrap_or_default();
    let mut indexes_bytes = Vec::new();
    for stored in &sets {
        let target = match (&args.url, &scratch) {
            (Some(url), _) => Target::running(url)?,
            (None, Some(scratch)) => {
                let name = stored.count().to_string();
                Target::in_this_process(scratch.settings(&name, distance_max)?)?
            }
            (None, None) => unreachable!("without a URL there is a directory"),
        };
        let mut bench = Bench { args, target: &target, stored, report: &mut report };
        indexes_bytes.push(bench.run()?);
        target.stop()?;
    }
    report.limits = limits::measure(&indexes_bytes);
    Ok(report)
}

/// Requests a second with a page each.
struct Pages {
    stored: f64,
    unread: f64,
    discarded: f64,
}

impl Bench<'_> {
    /// Everything about one service; the memory of its index in bytes.
    fn run(&mut self) -> Result<u64> {
        self.insert()?;
        self.target.settle()?;
        let bytes = self.target.index_bytes()?;
        let health = self.health()?;
        for &distance in &self.args.data.distance {
            let seed = self.args.data.seed;
            let queries = scratch::queries(self.stored, self.args.queries, distance, seed);
            let single = self.single_queries(&queries, distance)?;
            self.ratio("single queries to GET /healthz", single, health);
            let checked = self.check_and_inserts(distance)?;
            self.ratio("check-and-inserts to GET /healthz", checked, health);
            let Pages { stored, unread, discarded } = self.pages(distance)?;
            self.ratio("pages checked and inserted to the same to /healthz", stored, unread);
            self.ratio("pages checked and inserted to pages discarded", stored, discarded);
            let packed = self.packed_queries(&queries, distance)?;
            if let Some(engine) = self.target.engine() {
                let here = self.in_process(engine, &queries, distance)?;
                self.ratio("packed queries to the same in this process", packed, here);
            }
        }
        let each = Some(ratio(bytes, self.stored.count()));
        let rows = self.report.results.iter_mut();
        for row in rows.filter(|row| row.count == self.stored.count()) {
            row.index_bytes_a_fingerprint = each;
        }
        Ok(bytes)
    }

    fn row(&self, what: &str) -> Row {
        Row::new(what, self.stored.count())
    }

    fn ratio(&mut self, what: &str, of: f64, to: f64) {
        let percent = if to > 0.0 { 100.0 * of / to } else { 0.0 };
        self.report.facts.push(Fact::number(what, self.stored.count(), percent, "%"));
    }

    /// Stores everything over one connection.
    fn insert(&mut self) -> Result<()> {
        let progress = Progress::of("storing fingerprints over HTTP", self.stored.count());
        let mut connection = self.target.connect()?;
        let mut times = Latencies::new();
        let (mut done, mut ns) = (0, 0);
        for batch in self.stored.batches(INSERTED_AT_A_TIME) {
            let request = Request::post("/v1/insert/batch", PACKED, &packed(&batch));
            let begun = Stopwatch::start();
            connection.ask(&request).context("a packed insert failed")?;
            times.record(begun.ns());
            ns += begun.ns();
            done += batch.len() as u64;
            progress.at(done);
        }
        let row = self.row("packed inserts").rate(per_second(done, ns), "fingerprints");
        self.report.results.push(row.times(&times, BATCH));
        Ok(())
    }

    fn clients(&self, doing: &str) -> Clients<'_> {
        let _progress = Progress::during(&format!("asking {doing}"));
        let Args { threads, seconds, .. } = *self.args;
        Clients { target: self.target, threads, seconds, requests: u64::MAX }
    }

    /// What the server can do at all: requests a second.
    fn health(&mut self) -> Result<f64> {
        let request = Request::get("/healthz");
        let asked = self.clients("GET /healthz").ask(|_| request.clone(), |_, _| true)?;
        Ok(self.single(self.row("GET /healthz"), &asked))
    }

    fn single_queries(&mut self, queries: &Queries, distance: Distance) -> Result<f64> {
        let path = format!("/v1/query?distance={distance}");
        let count = queries.fingerprints.len() as u64;
        let request = |number: u64| {
            let query = queries.fingerprints[(number % count) as usize];
            Request::post(&path, JSON, format!(r#"{{"fingerprint":"{query}"}}"#).as_bytes())
        };
        // At most ten hits are listed; that there is one must show.
        let found = |number: u64, reply: &[u8]| {
            let planted = queries.plants[(number % count) as usize].is_some();
            let none = reply.windows(NO_HITS.len()).any(|part| part == NO_HITS);
            !(planted && none)
        };
        let asked = self.clients("single queries").ask(request, found)?;
        let (checked, missed) = (asked.times.count(), asked.wrong);
        self.report.verified(Verdict { checked, missed, ..Verdict::default() });
        Ok(self.single(self.row("single JSON queries").at(distance), &asked))
    }

    /// Each brings a new fingerprint with an id, and waits for the disk.
    fn check_and_inserts(&mut self, distance: Distance) -> Result<f64> {
        let path = format!("/v1/check-and-insert?distance={distance}");
        let fresh = Stream::of("fresh", self.args.data.seed.wrapping_add(distance.get().into()));
        let request = |number: u64| {
            let one = Fingerprint::new(fresh.number(number));
            let body = format!(r#"{{"id":"bench-{distance}-{number}","fingerprint":"{one}"}}"#);
            Request::post(&path, JSON, body.as_bytes())
        };
        let asked = self.clients("single check-and-inserts").ask(request, |_, _| true)?;
        Ok(self.single(self.row("single JSON check-and-inserts").at(distance), &asked))
    }

    /// Pages of English, each new and with an id; the same bodies to a route of the service that discards
    /// them; and to a server that does nothing else.
    fn pages(&mut self, distance: Distance) -> Result<Pages> {
        let progress = Progress::during("writing pages");
        let seed = self.args.data.seed.wrapping_add(distance.get().into());
        let page = |number: u64| prose::unlike(PAGE_BYTES, seed ^ number << 20);
        let bodies: Vec<String> = (0..self.args.pages)
            .map(|number| {
                let id = format!("page-{distance}-{number}");
                json!({"id": id, "text": page(number)}).to_string()
            })
            .collect();
        drop(progress);
        // None is sent twice to one route: the second time it would be a retry, which is neither journaled
        // nor waited for.
        let clients = |doing| Clients { requests: self.args.pages, ..self.clients(doing) };
        let of = |number: u64| bodies[number as usize].as_bytes();
        let insert = |number| Request::post("/v1/check-and-insert", JSON, of(number));
        let unread = |number| Request::get_with("/healthz", JSON, of(number));
        let is_new = |_, reply: &[u8]| reply.windows(INSERTED.len()).any(|part| part == INSERTED);
        let stored = clients("check-and-inserts of pages").ask(insert, is_new)?;
        let new = 100.0 * ratio(stored.times.count() - stored.wrong, stored.times.count());
        let unread = clients("GET /healthz with pages").ask(unread, |_, _| true)?;
        let discarding = Discarding::start()?;
        let discarded = Clients { target: discarding.target(), ..clients("pages discarded") };
        let discarded = discarded.ask(insert, |_, _| true)?;
        let row = self.row("check-and-inserts of 8 KB pages").at(distance);
        let stored = self.single(row, &stored);
        let unread = self.single(self.row("GET /healthz with the same pages"), &unread);
        let discarded = self.single(self.row("the same pages, read and discarded"), &discarded);
        self.report.facts.push(Fact::number("pages that were new", self.stored.count(), new, "%"));
        Ok(Pages { stored, unread, discarded })
    }

    fn single(&mut self, row: Row, asked: &Asked) -> f64 {
        let rate = per_second(asked.times.count(), asked.ns);
        self.report.results.push(row.rate(rate, "requests").times(&asked.times, REQUEST));
        rate
    }

    /// All queries in one request, again and again over one connection.
    fn packed_queries(&mut self, queries: &Queries, distance: Distance) -> Result<f64> {
        let _progress = Progress::during("asking packed queries");
        let path = format!("/v1/query/batch?distance={distance}");
        let request = Request::post(&path, PACKED, &packed(&queries.fingerprints));
        let mut connection = self.target.connect()?;
        let mut times = Latencies::new();
        let mut verdict = Verdict::default();
        let begun = Stopwatch::start();
        let mut ns = 0;
        while times.count() == 0 || begun.elapsed().as_secs() < self.args.seconds {
            let asked = Stopwatch::start();
            let reply = connection.ask(&request).context("a packed query failed")?;
            times.record(asked.ns());
            ns += asked.ns();
            verdict.check_packed(queries, reply, distance);
        }
        self.report.verified(verdict);
        let rate = per_second(times.count() * queries.fingerprints.len() as u64, ns);
        let row = self.row("packed queries").at(distance).rate(rate, "fingerprints");
        self.report.results.push(row.times(&times, BATCH));
        Ok(rate)
    }

    /// The same queries without HTTP, on one thread and on all cores; the latter, a second.
    fn in_process(
        &mut self,
        engine: &Engine,
        queries: &Queries,
        distance: Distance,
    ) -> Result<f64> {
        let cores = machine::cores();
        let mut rate = 0.0;
        for threads in if cores == 1 { vec![1] } else { vec![1, cores] } {
            rate = nearest_rate(engine, (queries, distance), threads)?;
            let what = match threads {
                1 => "the same in this process".to_owned(),
                threads => format!("the same in this process, {threads} threads"),
            };
            self.report.results.push(self.row(&what).at(distance).rate(rate, "fingerprints"));
        }
        Ok(rate)
    }
}

/// How long a page is.
const PAGE_BYTES: usize = 8_192;

/// How a reply says that nothing was found.
const NO_HITS: &[u8] = br#""hit_count":0"#;

/// How a reply says that the document was stored.
const INSERTED: &[u8] = br#""outcome":"inserted""#;

/// So many fingerprints a second, in pieces as the service looks them up.
fn nearest_rate(
    engine: &Engine,
    (queries, distance): (&Queries, Distance),
    threads: usize,
) -> Result<f64> {
    let share = queries.fingerprints.len().div_ceil(threads);
    let begun = Stopwatch::start();
    let done: Result<u64> = thread::scope(|scope| {
        let look_up = |queries: &[Fingerprint]| {
            let mut done = 0;
            for piece in queries.chunks(PACKED_MAX) {
                done += engine.nearest(piece, distance)?.len() as u64;
            }
            Ok(done)
        };
        let shares = queries.fingerprints.chunks(share);
        let workers: Vec<_> = shares.map(|share| scope.spawn(move || look_up(share))).collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).sum()
    });
    Ok(per_second(done?, begun.ns()))
}

/// Eight bytes each, as the packed routes read them.
fn packed(fingerprints: &[Fingerprint]) -> Vec<u8> {
    fingerprints.iter().flat_map(|fingerprint| fingerprint.bits().to_le_bytes()).collect()
}
