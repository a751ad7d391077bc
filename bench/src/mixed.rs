//! `nearprint-bench mixed`: the latency of single look-ups under other load.
//!
//! Reader threads query the engine as the service does for a request with a fingerprint, one after
//! another: at rest; during an endless packed query; during searches for groups of all stored
//! fingerprints (the last of which may outlast `--seconds`); while a writer inserts packed batches,
//! so that deltas fill up and segments are merged. With fewer cores than threads, the quantiles
//! show how long the operating system makes a reader wait for a core.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::ready;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use nearprint::cli::measure::arguments::count;
use nearprint::cli::measure::numbers::{per_second, ratio};
use nearprint_engine::document::Document;
use nearprint_engine::{GroupsRequest, Job, JobState, NamespaceFilter, PackedQuery, QueryOptions};
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_index::view::Near;
use nearprint_machine::change::PACKED_MAX;
use nearprint_machine::query::{Criteria, Hit};
use tokio::runtime;

use crate::arguments::{Data, threads};
use crate::clock::{Stopwatch, pause};
use crate::data::{Fresh, Members, Queries, Stored};
use crate::latency::Latencies;
use crate::limits;
use crate::progress::Progress;
use crate::report::{Report, Row};
use crate::scratch::{self, BATCHES_AHEAD, Driven, Scratch, index_bytes};
use crate::verify::Verdict;

/// Listed hits of a look-up: the maximum of a request, so that a plant is among them.
const LIMIT: usize = 1_000;

/// The arguments of `bench mixed`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) data: Data,
    /// What segments and tables may take of memory, in bytes [default: half of what the index may]
    #[arg(long, value_name = "BYTES", value_parser = count)]
    index_memory: Option<u64>,
    /// How many threads look up
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads)]
    threads: usize,
    /// How many different queries they repeat
    #[arg(long, value_name = "N", default_value = "1m", value_parser = count)]
    queries: u64,
    /// How long each mixture lasts
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    seconds: u64,
    /// Make the data directory below this one; it is removed at the end [default: .]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

/// A filled engine and its readers.
struct Mixture<'a> {
    driven: &'a Driven,
    queries: &'a Queries,
    members: &'a Members,
    /// The number of stored fingerprints.
    count: u64,
    /// The fingerprints that the writer inserts.
    fresh: &'a Fresh,
    distance: Distance,
    args: &'a Args,
}

/// The results of one reader.
struct Seen {
    times: Latencies,
    verdict: Verdict,
}

pub(super) fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("mixed", args.data.seed);
    let scratch = Scratch::below(args.data_dir.as_deref())?;
    let mut indexes_bytes = Vec::new();
    for stored in args.data.stored()? {
        let stored = &stored;
        for &distance in &args.data.distance {
            let name = format!("{}-{distance}", stored.count());
            let mut settings = scratch.settings(&name, distance)?;
            let engine = &mut settings.engine;
            engine.index_memory_bytes_max =
                args.index_memory.unwrap_or(engine.index_memory_bytes_max);
            let driven = Driven::open(&settings)?;
            let stats = driven.fill(stored)?;
            indexes_bytes.push(index_bytes(&stats));
            let rows = measure(args, (&driven, stored), distance, &mut report)?;
            let bytes = Some(ratio(index_bytes(&stats), stored.count()));
            let rows = rows.into_iter();
            let rows = rows.map(|row| Row { index_bytes_a_fingerprint: bytes, ..row });
            report.results.extend(rows);
            driven.close();
        }
    }
    report.limits = limits::measure(&indexes_bytes);
    Ok(report)
}

fn measure(
    args: &Args,
    (driven, stored): (&Driven, &Stored),
    distance: Distance,
    report: &mut Report,
) -> Result<Vec<Row>> {
    let queries = scratch::queries(stored, args.queries, distance, args.data.seed);
    let members = stored.members();
    let fresh = Fresh::like(stored, args.data.seed);
    let (members, fresh, count) = (&members, &fresh, stored.count());
    let mixture = Mixture { driven, queries: &queries, members, count, fresh, distance, args };
    let row = |what: &str| Row::new(what, stored.count()).at(distance);
    let mut rows = Vec::new();
    let mut add = |(look_up, meanwhile, rate): (&str, &str, f64), seen: Seen| {
        let per_second = per_second(seen.times.count(), args.seconds * 1_000_000_000);
        let look_ups = row(look_up).rate(per_second, "look-ups");
        rows.push(look_ups.times(&seen.times, "a look-up"));
        if !meanwhile.is_empty() {
            rows.push(row(meanwhile).rate(rate, "fingerprints"));
        }
        report.verified(seen.verdict);
    };
    let ((), seen) = mixture.during("look-ups at rest", || {
        pause(mixture.time());
        Ok(())
    })?;
    add(("look-up at rest", "", 0.0), seen);
    let (rate, seen) = mixture.during("look-ups during a packed query", || mixture.query())?;
    add(("look-up during a packed query", "the packed query", rate), seen);
    // In files a search looks up each document for minutes.
    if args.index_memory.is_none() {
        let doing = "look-ups during a search for groups";
        let (rate, seen) = mixture.during(doing, || mixture.group())?;
        add(("look-up during a search for groups", "the search for groups", rate), seen);
    }
    let (rate, seen) = mixture.during("look-ups during inserts", || mixture.insert())?;
    add(("look-up during inserts", "the packed inserts", rate), seen);
    // The segments that the inserts left are merged once they pause: for most of this time at the
    // default size.
    let ((), seen) = mixture.during("look-ups during merges", || {
        pause(mixture.time());
        Ok(())
    })?;
    add(("look-up during merges", "", 0.0), seen);
    Ok(rows)
}

impl Mixture<'_> {
    fn time(&self) -> Duration {
        Duration::from_secs(self.args.seconds)
    }

    /// Lets the readers read as long as `work` takes; what it gave, and what they saw.
    fn during<T>(&self, doing: &str, work: impl FnOnce() -> Result<T>) -> Result<(T, Seen)> {
        let _progress = Progress::during(doing);
        let stop = &AtomicBool::new(false);
        thread::scope(|scope| {
            let readers: Vec<_> = (0..self.args.threads)
                .map(|reader| scope.spawn(move || self.read(reader, stop)))
                .collect();
            let done = work();
            stop.store(true, Ordering::Relaxed);
            let mut all = Seen { times: Latencies::new(), verdict: Verdict::default() };
            for reader in readers {
                let seen = reader.join().expect("a reader does not panic")?;
                all.times.add(&seen.times);
                all.verdict.add(seen.verdict);
            }
            Ok((done?, all))
        })
    }

    /// One reader, which begins at its own place among the queries.
    fn read(&self, reader: usize, stop: &AtomicBool) -> Result<Seen> {
        let engine = &self.driven.engine;
        let criteria = Criteria::within(self.distance);
        let options = QueryOptions { criteria, limit: LIMIT, with_metadata: false };
        let mut seen = Seen { times: Latencies::new(), verdict: Verdict::default() };
        let from = self.queries.plants.len() * reader / self.args.threads;
        let runtime = runtime::Builder::new_current_thread().build()?;
        runtime.block_on(async {
            for (query, plant) in self.queries.cycle_from(from) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                let document = Document::bare(query);
                let begun = Stopwatch::start();
                let findings = engine.query(&document, options).await?;
                seen.times.record(begun.ns());
                let near =
                    |hit: &Hit| Near { fingerprint: hit.fingerprint, distance: hit.distance };
                let found: Vec<Near> = findings.hits.iter().map(near).collect();
                seen.verdict.check((query, plant), &found, self.distance, |hit| self.stored(hit));
            }
            Ok(seen)
        })
    }

    /// Whether a fingerprint is among those stored before, or may have been inserted since.
    fn stored(&self, fingerprint: Fingerprint) -> bool {
        self.members.contain(fingerprint) || self.fresh.contain(fingerprint)
    }

    /// Inserts all the time; returns the rate a second.
    fn insert(&self) -> Result<f64> {
        let begun = Stopwatch::start();
        let mut inserted = 0;
        let batches = std::iter::from_fn(|| {
            let batch = inserted..inserted + PACKED_MAX as u64;
            inserted = batch.end;
            let batch = batch.map(|place| self.fresh.at(place));
            (begun.elapsed() < self.time()).then(|| batch.collect::<Vec<_>>())
        });
        let mut done = 0;
        self.driven.insert(batches, |so_far| done = so_far)?;
        Ok(per_second(done, begun.ns()))
    }

    /// Searches for groups all the time; returns the fingerprints a second.
    fn group(&self) -> Result<f64> {
        let begun = Stopwatch::start();
        let engine = &self.driven.engine;
        let criteria = Criteria::within(self.distance);
        let mut done = 0;
        while begun.elapsed() < self.time() {
            let request = GroupsRequest { reach: NamespaceFilter::All, criteria, size_min: 2 };
            let number = engine.begin_groups(request)?.number;
            let ended = || engine.job(number).filter(Job::has_ended);
            let job = loop {
                match ended() {
                    Some(job) => break job,
                    None => pause(Duration::from_millis(2)),
                }
            };
            anyhow::ensure!(job.state == JobState::Done, "the search ended {:?}", job.state);
            done += self.count;
        }
        Ok(per_second(done, begun.ns()))
    }

    /// Looks up packed batches all the time; returns the fingerprints a second.
    fn query(&self) -> Result<f64> {
        let begun = Stopwatch::start();
        let engine = &self.driven.engine;
        let share = engine.share();
        let chunks = self.queries.fingerprints.chunks(PACKED_MAX).cycle();
        let query = PackedQuery { namespace: None, criteria: Criteria::within(self.distance) };
        let answers = chunks
            .take_while(|_| begun.elapsed() < self.time())
            .map(|chunk| engine.nearest_scheduled(&share, chunk.to_vec(), &query));
        let count = |done, answers: Vec<u8>| ready(Ok(done + answers.len() as u64));
        let done = stream::iter(answers).buffered(BATCHES_AHEAD).try_fold(0, count);
        let done = runtime::Builder::new_current_thread().build()?.block_on(done)?;
        Ok(per_second(done, begun.ns()))
    }
}
