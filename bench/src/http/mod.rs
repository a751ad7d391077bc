//! `nearprint-bench http`: requests over loopback connections that are kept alive, compared with
//! the same work in this process, and with a bare axum server that has the same routes.
//!
//! Without `--url` the service runs in this process, on a free port and a fresh data directory, and
//! shares its cores with the clients, as the bare server does. With `--url` and `--bare` both run
//! already, best on cores of their own:
//!
//! ```text
//! taskset -c 0 nearprint serve --listen 127.0.0.1:7900 --data fresh &
//! taskset -c 0 nearprint-bench bare --listen 127.0.0.1:7901 &
//! taskset -c 1 nearprint-bench http --url http://127.0.0.1:7900 --bare http://127.0.0.1:7901
//! ```
//!
//! Either way the service is filled first, over HTTP, so name none whose documents matter. Each
//! connection has a thread, which sends a request when the reply to the one before has arrived.

mod bare;
mod client;
mod pages;
mod target;

use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use nearprint::cli::measure::arguments::count;
use nearprint::cli::measure::numbers::{per_second, ratio};
use nearprint_engine::Engine;
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_machine::change::PACKED_MAX;
use serde_json::json;

use self::bare::Bare;
use self::client::{Clients, Sent};
use self::pages::RealPages;
use self::target::Target;
use crate::arguments::{Data, threads};
use crate::clock::Stopwatch;
use crate::connection::{self, get, post};
use crate::data::{Fresh, Queries, Stored};
use crate::latency::Latencies;
use crate::limits;
use crate::machine;
use crate::progress::Progress;
use crate::prose;
use crate::report::{Fact, Report, Row};
use crate::scratch::{self, Scratch};
use crate::verify::Verdict;

/// Fingerprints inserted by one request: 8 MB.
const INSERTED_AT_A_TIME: usize = 1_000_000;

const JSON: &str = "application/json";
const PACKED: &str = "application/octet-stream";
const REQUEST: &str = "a request";
const BATCH: &str = "a batch";

/// The arguments of `http`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) data: Data,
    /// How many connections send single requests at a time, each on a thread of its own
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
    /// How many real pages of 6 to 8 KB are sent, with the processor time of the service for each;
    /// none to a service of another process
    #[arg(long, value_name = "N", default_value = "8k", value_parser = count)]
    real_pages: u64,
    /// Take real pages from the documents in these folders [default: those that `make run` imports]
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    texts: Vec<PathBuf>,
    /// Measure this service, and store fingerprints in it, instead of one in this process
    #[arg(long, value_name = "URL", conflicts_with = "data_dir")]
    url: Option<String>,
    /// Compare with this server, which `nearprint-bench bare` started, instead of one in this
    /// process
    #[arg(long, value_name = "URL", requires = "url")]
    bare: Option<String>,
    /// Make the data directory below this one; it is removed at the end [default: .]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// The arguments of `bare`.
#[derive(Debug, clap::Args)]
pub(super) struct BareArgs {
    /// Where to listen
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7901")]
    listen: String,
}

/// Serves the bare server until the process ends.
pub(super) fn serve_bare(args: &BareArgs) -> Result<()> {
    bare::serve_at(&args.listen)
}

/// A filled service, and the bare server that it is compared with.
struct Bench<'a> {
    args: &'a Args,
    target: &'a Target,
    /// `None` with a service that runs already, and no bare server next to it.
    bare: Option<&'a Target>,
    stored: &'a Stored,
    report: &'a mut Report,
}

pub(super) fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("http", args.data.seed);
    ensure!(
        args.url.is_none() || args.data.counts().len() == 1,
        "a running service is filled once: name one --count"
    );
    // Removed only after the service in it has stopped.
    let scratch = match &args.url {
        Some(_) => None,
        None => Some(Scratch::below(args.data_dir.as_deref())?),
    };
    let distance_max = args.data.distance.iter().copied().max().unwrap_or_default();
    let here = if args.url.is_none() { Some(Bare::start()?) } else { None };
    let running = args.bare.as_deref().map(Target::running).transpose()?;
    let bare = running.as_ref().or(here.as_ref().map(Bare::target));
    let mut indexes_bytes = Vec::new();
    for stored in args.data.stored()? {
        let target = match (&args.url, &scratch) {
            (Some(url), _) => Target::running(url)?,
            (None, Some(scratch)) => {
                let name = stored.count().to_string();
                Target::in_this_process(scratch.settings(&name, distance_max)?)?
            }
            (None, None) => unreachable!("without a URL there is a directory"),
        };
        let mut bench = Bench { args, target: &target, bare, stored: &stored, report: &mut report };
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
    /// By the bare server, if there is one.
    discarded: Option<f64>,
}

impl Bench<'_> {
    /// Measures one service; the memory of its index in bytes.
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
            if let Some(discarded) = discarded {
                self.ratio("pages checked and inserted to pages discarded", stored, discarded);
            }
            let packed = self.packed_queries(&queries, distance)?;
            if let Some(engine) = self.target.engine() {
                let here = self.in_process(engine, &queries, distance)?;
                self.ratio("packed queries to the same in this process", packed, here);
            }
        }
        if self.target.engine().is_some() {
            self.real_pages()?;
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
            let request = post("/v1/insert/batch", PACKED, packed(&batch));
            let begun = Stopwatch::start();
            connection.send(request).context("a packed insert failed")?;
            times.record(begun.ns());
            ns += begun.ns();
            done += batch.len() as u64;
            progress.at(done);
        }
        let row = self.row("packed inserts").rate(per_second(done, ns), "fingerprints");
        self.report.results.push(row.times(&times, BATCH));
        Ok(())
    }

    fn clients<'b>(&'b self, target: &'b Target, doing: &str) -> Clients<'b> {
        let _progress = Progress::during(&format!("sending {doing}"));
        let Args { threads, seconds, .. } = *self.args;
        Clients { target, threads, seconds, requests: u64::MAX }
    }

    /// `GET /healthz`, the least that a request costs: requests a second. Then the same to the bare
    /// server.
    fn health(&mut self) -> Result<f64> {
        let send =
            |target| self.clients(target, "GET /healthz").send(|_| get("/healthz"), |_, _| true);
        let sent = send(self.target)?;
        let bare = self.bare.map(send).transpose()?;
        let rate = self.single(self.row("GET /healthz"), &sent);
        if let Some(bare) = bare {
            let bare = self.single(self.row("GET /healthz of a bare axum server"), &bare);
            self.ratio("GET /healthz to a bare axum server", rate, bare);
        }
        Ok(rate)
    }

    /// Single JSON queries: requests a second. Then the same to the bare server.
    fn single_queries(&mut self, queries: &Queries, distance: Distance) -> Result<f64> {
        let path = format!("/v1/query?distance={distance}");
        let count = queries.fingerprints.len() as u64;
        let request = |number: u64| {
            let query = queries.fingerprints[(number % count) as usize];
            post(&path, JSON, format!(r#"{{"fingerprint":"{query}"}}"#))
        };
        // At most ten hits are listed, so only their absence shows an error.
        let found = |number: u64, reply: &[u8]| {
            let planted = queries.plants[(number % count) as usize].is_some();
            let none = reply.windows(NO_HITS.len()).any(|part| part == NO_HITS);
            !(planted && none)
        };
        let sent = self.clients(self.target, "single queries").send(request, found)?;
        let bare = self.bare.map(|bare| {
            self.clients(bare, "the same to a bare axum server").send(request, |_, _| true)
        });
        let bare = bare.transpose()?;
        let (checked, missed) = (sent.times.count(), sent.wrong);
        self.report.verified(Verdict { checked, missed, ..Verdict::default() });
        let rate = self.single(self.row("single JSON queries").at(distance), &sent);
        if let Some(bare) = bare {
            let row = self.row("single JSON queries of a bare axum server").at(distance);
            let bare = self.single(row, &bare);
            self.ratio("single queries to a bare axum server", rate, bare);
        }
        Ok(rate)
    }

    /// Each request brings a new fingerprint with an id, and waits for the disk.
    fn check_and_inserts(&mut self, distance: Distance) -> Result<f64> {
        let path = format!("/v1/check-and-insert?distance={distance}");
        let seed = self.args.data.seed.wrapping_add(distance.get().into());
        let fresh = Fresh::like(self.stored, seed);
        let request = |number: u64| {
            let one = fresh.at(number);
            let body = format!(r#"{{"id":"bench-{distance}-{number}","fingerprint":"{one}"}}"#);
            post(&path, JSON, body)
        };
        let sent =
            self.clients(self.target, "single check-and-inserts").send(request, |_, _| true)?;
        Ok(self.single(self.row("single JSON check-and-inserts").at(distance), &sent))
    }

    /// Pages of English, each new and with an id; then the same bodies to a route of the service
    /// that does not look at them, and to the bare server, which discards them.
    fn pages(&mut self, distance: Distance) -> Result<Pages> {
        let progress = Progress::during("writing pages");
        let seed = self.args.data.seed.wrapping_add(distance.get().into());
        let page = |number: u64| prose::unlike(PAGE_BYTES, seed ^ number << 20);
        let bodies: Vec<Bytes> = (0..self.args.pages)
            .map(|number| {
                let id = format!("page-{distance}-{number}");
                json!({"id": id, "text": page(number)}).to_string().into()
            })
            .collect();
        drop(progress);
        // No page is sent twice to one route: the second time it would be a retry, which is neither
        // journaled nor waited for.
        let clients =
            |target, doing| Clients { requests: self.args.pages, ..self.clients(target, doing) };
        let body = |number: u64| bodies[number as usize].clone();
        let insert = |number| post("/v1/check-and-insert", JSON, body(number));
        let unread = |number| connection::request(Method::GET, "/healthz", JSON, body(number));
        let discard = |number| post("/discard", JSON, body(number));
        let is_new = |_, reply: &[u8]| reply.windows(INSERTED.len()).any(|part| part == INSERTED);
        let stored = clients(self.target, "check-and-inserts of pages").send(insert, is_new)?;
        let new = 100.0 * ratio(stored.times.count() - stored.wrong, stored.times.count());
        let unread = clients(self.target, "GET /healthz with pages").send(unread, |_, _| true)?;
        let discarded = self
            .bare
            .map(|bare| clients(bare, "pages to a bare axum server").send(discard, |_, _| true))
            .transpose()?;
        let row = self.row("check-and-inserts of 8 KB pages").at(distance);
        let stored = self.single(row, &stored);
        let unread = self.single(self.row("GET /healthz with the same pages"), &unread);
        let discarded = discarded.map(|discarded| {
            self.single(self.row("the same pages, read and discarded"), &discarded)
        });
        self.report.facts.push(Fact::number("pages that were new", self.stored.count(), new, "%"));
        Ok(Pages { stored, unread, discarded })
    }

    /// Real pages, with what each costs the service.
    fn real_pages(&mut self) -> Result<()> {
        let progress = Progress::during("reading real pages");
        let folders = match &self.args.texts[..] {
            [] => crate::pages::folders(),
            folders => folders.to_vec(),
        };
        let count = self.args.real_pages as usize;
        let pages = crate::pages::found(&folders, count, &crate::pages::BYTES)?;
        drop(progress);
        let (target, threads, count) = (self.target, self.args.threads, self.stored.count());
        RealPages { target, threads, count, pages: &pages }.run(self.report)
    }

    /// Reports single requests; how many a second.
    fn single(&mut self, row: Row, sent: &Sent) -> f64 {
        let rate = per_second(sent.times.count(), sent.ns);
        self.report.results.push(row.rate(rate, "requests").times(&sent.times, REQUEST));
        rate
    }

    /// All queries in one request, again and again over one connection.
    fn packed_queries(&mut self, queries: &Queries, distance: Distance) -> Result<f64> {
        let _progress = Progress::during("sending packed queries");
        let path = format!("/v1/query/batch?distance={distance}");
        let request = post(&path, PACKED, packed(&queries.fingerprints));
        let mut connection = self.target.connect()?;
        let mut times = Latencies::new();
        let mut verdict = Verdict::default();
        let begun = Stopwatch::start();
        let mut ns = 0;
        while times.count() == 0 || begun.elapsed().as_secs() < self.args.seconds {
            let sent = Stopwatch::start();
            let reply = connection.send(request.clone()).context("a packed query failed")?;
            times.record(sent.ns());
            ns += sent.ns();
            verdict.check_packed(queries, &reply, distance);
        }
        self.report.verified(verdict);
        let rate = per_second(times.count() * queries.fingerprints.len() as u64, ns);
        let row = self.row("packed queries").at(distance).rate(rate, "fingerprints");
        self.report.results.push(row.times(&times, BATCH));
        Ok(rate)
    }

    /// The same queries without HTTP, on one thread and on all cores; the latter rate.
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

const PAGE_BYTES: usize = 8_192;

/// The part of a reply that tells that nothing was found.
const NO_HITS: &[u8] = br#""hit_count":0"#;

/// The part of a reply that tells that the document was stored.
const INSERTED: &[u8] = br#""outcome":"inserted""#;

/// Fingerprints a second, looked up in pieces of the service's size.
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
