//! `nearprint-bench lifecycle`: what namespaces cost, and how fast documents are listed, removed
//! and given back.
//!
//! First an index of one namespace, and one of as many documents in namespaces of ten: memory and
//! look-ups. Then an engine on a disk: a stream of all documents, a purge with look-ups during it,
//! documents that expire; after each removal, what is left of memory and disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nearprint::cli::measure::numbers::{float, per_second, ratio};
use nearprint_engine::document::{Expiry, Namespace, Packed, Sequence};
use nearprint_engine::{Engine, Job, ListQuery, NamespaceFilter, Purge, Work};
use nearprint_fingerprint::{Distance, Fingerprint};
use nearprint_index::compaction::policy::Load;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::permutation::Permutation;
use nearprint_index::plan::SMALL_MAX;
use nearprint_index::view::{Put, Shape, View};
use nearprint_machine::change::PACKED_MAX;

use crate::arguments::Data;
use crate::clock::{Stopwatch, pause};
use crate::data::{Dice, Stored};
use crate::latency::Latencies;
use crate::process;
use crate::progress::Progress;
use crate::report::{Fact, Report, Row};
use crate::scratch::{Driven, Scratch};

/// Documents of a namespace, where there are many.
const OF_NAMESPACE: u64 = 10;
/// Look-ups that are timed.
const LOOKUPS: u64 = 1_000_000;
const SECRET: [u8; 16] = *b"of the benchmark";
const DELTA_EVENTS: usize = 32_768;
/// Documents of a stream that are taken at one time.
const TAKEN: usize = 4_096;
/// A removal and its reclaiming that take longer have failed.
const DEADLINE: Duration = Duration::from_mins(20);

/// The arguments of `bench lifecycle`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) data: Data,
    /// Make the data directory below this one; it is removed at the end [default: .]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("lifecycle", args.data.seed);
    let distance = args.data.distance.first().copied().unwrap_or_default();
    for stored in args.data.stored()? {
        let stored = &stored;
        for namespaces in [1, stored.count().div_ceil(OF_NAMESPACE)] {
            of_namespaces(stored, namespaces, distance, &mut report);
        }
        let scratch = Scratch::below(args.data_dir.as_deref())?;
        let settings = scratch.settings("documents", distance)?;
        let driven = Driven::open(&settings)?;
        let directory = &settings.engine.data;
        let name = || Some(Namespace::new("crawl").expect("short"));
        store(&driven, stored, name().as_ref(), None)?;
        driven.settle()?;
        stream(&driven.engine, stored.count(), &mut report)?;
        purge(&driven.engine, (stored, name()), distance, &mut report)?;
        given_back("after the purge", (&driven, directory), stored.count(), &mut report)?;
        expire(&driven, stored, &mut report)?;
        given_back("after the expiry", (&driven, directory), stored.count(), &mut report)?;
        driven.close();
    }
    Ok(report)
}

/// Memory and look-ups of an index with this many namespaces.
fn of_namespaces(stored: &Stored, namespaces: u64, distance: Distance, report: &mut Report) {
    let count = stored.count();
    let key = |number: u64| {
        let name = Namespace::new(format!("https://site-{number}.example")).expect("short");
        NamespaceKey::of(&name, &SECRET)
    };
    let keys: Vec<NamespaceKey> = (0..namespaces).map(key).collect();
    let of = |place: u64| Some(keys[(place % namespaces) as usize]);
    let mut view = View::new(Shape {
        distance_max: distance,
        delta_events: DELTA_EVENTS,
        small_max: SMALL_MAX,
        permutation: Arc::new(Permutation::from_secret(1)),
        has_labels: true,
    });
    let progress = Progress::of("storing fingerprints", count);
    for place in 0..count {
        view.put(stored.at(place), Put { namespace: of(place), ..Put::default() });
        if place % 65_536 == 0 {
            settle(&mut view, Load::Writing);
            progress.at(place);
        }
    }
    drop(progress);
    view.rotate();
    settle(&mut view, Load::Idle);
    let segments: u64 = view.segments().iter().map(|segment| segment.bytes().total()).sum();
    let bytes = segments + view.secondary_tables_bytes() + view.delta_bytes();
    let what = format!("index, {namespaces} namespaces");
    report.facts.push(Fact::number(&*what, count, ratio(bytes, count), "bytes a fingerprint"));
    let of_names = ratio(view.namespaces().bytes() as u64, namespaces);
    report.facts.push(Fact::number(&*what, count, of_names, "bytes a namespace"));
    let mut dice = Dice::of("namespaces", 1);
    let (mut times, mut found) = (Latencies::new(), 0_u64);
    for _ in 0..LOOKUPS.min(count) {
        let place = dice.within(0..count);
        let query = Fingerprint::new(stored.at(place).bits() ^ 1 << dice.within(0..64));
        let visibility = view.visibility(of(place), 0, None);
        let begun = Stopwatch::start();
        // As a query does: what it finds, and how many documents that has.
        let near = view.near(query, distance, &visibility);
        let counts = near.iter().map(|near| view.document_counts(near.fingerprint, &visibility));
        found += u64::from(counts.map(|counts| counts.documents).sum::<u64>() > 0);
        times.record(begun.ns());
    }
    let expected = if distance.get() > 0 { LOOKUPS.min(count) } else { 0 };
    report.facts.push(Fact::number(
        format!("{what}, found"),
        count,
        ratio(found, expected.max(1)),
        "of the planted",
    ));
    let row = Row::new(format!("look-ups, {namespaces} namespaces"), count).at(distance);
    report.results.push(row.times(&times, "a look-up"));
}

fn settle(view: &mut View, load: Load) {
    while let Some(work) = view.next_flush().or_else(|| view.next_merge(load)) {
        view.complete(work);
    }
}

/// Stores everything in packed batches.
fn store(
    driven: &Driven,
    stored: &Stored,
    namespace: Option<&Namespace>,
    expiry: Option<Expiry>,
) -> Result<()> {
    let progress = Progress::of("storing fingerprints", stored.count());
    let packed = stored.batches(PACKED_MAX).map(|fingerprints| {
        let namespace = namespace.cloned();
        Packed { namespace, expiry, fingerprints }
    });
    driven.insert(packed, |done| progress.at(done))?;
    Ok(())
}

/// How fast a stream gives all documents with their records.
fn stream(engine: &Engine, count: u64, report: &mut Report) -> Result<()> {
    let everything = ListQuery { reach: NamespaceFilter::All, prefix: None, after: Sequence::ZERO };
    let progress = Progress::of("listing documents", count);
    let (begun, mut listed) = (Stopwatch::start(), 0);
    let mut stream = engine.stream(everything);
    loop {
        let some = stream.next_documents(TAKEN).context("a record cannot be read")?;
        if some.is_empty() {
            break;
        }
        listed += some.len() as u64;
        progress.at(listed);
    }
    ensure!(listed == count, "{listed} documents were listed, not {count}");
    let row = Row::new("stream of all documents", count);
    report.results.push(row.rate(per_second(listed, begun.ns()), "documents"));
    Ok(())
}

/// How fast a purge removes everything, and the look-ups before and during it.
fn purge(
    engine: &Engine,
    (stored, namespace): (&Stored, Option<Namespace>),
    distance: Distance,
    report: &mut Report,
) -> Result<()> {
    let count = stored.count();
    let at_rest = look_ups(engine, stored, distance, &mut |made| made < LOOKUPS / 4)?;
    report.results.push(
        Row::new("look-ups before the purge", count).at(distance).times(&at_rest, "a look-up"),
    );
    let purge = Purge {
        reach: NamespaceFilter::Namespace(namespace),
        prefix: None,
        stored_before_ms: None,
        dry_run: false,
    };
    let removed = |job: &Job| if let Work::Purge(work) = &job.work { work.removed } else { 0 };
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let begun = Stopwatch::start();
    let job = runtime.block_on(engine.begin_purge(purge))?;
    let progress = Progress::of("purging", count);
    let mut ended = None;
    let during = look_ups(engine, stored, distance, &mut |made| {
        if made % 1_024 == 0 {
            let now = engine.job(job.number);
            progress.at(now.as_ref().map_or(0, removed));
            ended = now.filter(Job::has_ended).map(|now| (removed(&now), begun.ns()));
        }
        ended.is_none() && begun.elapsed() < DEADLINE
    })?;
    let (removed, ns) = ended.context("the purge has not ended in time")?;
    ensure!(removed == count, "{removed} documents were removed, not {count}");
    let row = Row::new("purge", count).rate(per_second(count, ns), "documents");
    report.results.push(row);
    let row = Row::new("look-ups during the purge", count).at(distance);
    report.results.push(row.times(&during, "a look-up"));
    Ok(())
}

/// Times single look-ups as long as `more` wants, which receives their number.
fn look_ups(
    engine: &Engine,
    stored: &Stored,
    distance: Distance,
    more: &mut dyn FnMut(u64) -> bool,
) -> Result<Latencies> {
    let mut dice = Dice::of("look-ups", 2);
    let (mut times, mut made) = (Latencies::new(), 0);
    while more(made) {
        let query = [stored.at(dice.within(0..stored.count()))];
        let begun = Stopwatch::start();
        engine.nearest(&query, distance)?;
        times.record(begun.ns());
        made += 1;
    }
    Ok(times)
}

/// Stores everything until a few seconds after it is stored, and waits until it is removed.
fn expire(driven: &Driven, stored: &Stored, report: &mut Report) -> Result<()> {
    let count = stored.count();
    // As long as storing took before, about, and a little longer.
    let seconds = 10 + count / 500_000;
    let expiry = Expiry::at(Engine::now_ms() / 1_000 + seconds);
    store(driven, stored, None, expiry)?;
    let _progress = Progress::during("waiting until everything has expired");
    let begun = Stopwatch::start();
    let expires_ms = expiry.map_or(0, |expiry| u64::from(expiry.second()) * 1_000);
    while driven.engine.stats().documents > 0 {
        ensure!(begun.elapsed() < DEADLINE, "expired documents are still stored");
        pause(Duration::from_millis(100));
    }
    let ms = Engine::now_ms().saturating_sub(expires_ms);
    report.facts.push(Fact::number("removed after it expired", count, float(ms) / 1e3, "seconds"));
    Ok(())
}

/// What memory and disk have left, once they no longer shrink.
fn given_back(
    when: &str,
    (driven, directory): (&Driven, &Path),
    count: u64,
    report: &mut Report,
) -> Result<()> {
    const MIB: f64 = 1_048_576.0;
    let mut last = u64::MAX;
    let begun = Stopwatch::start();
    loop {
        driven.settle()?;
        let now = disk_bytes(directory)?;
        if now >= last || begun.elapsed() > DEADLINE {
            break;
        }
        last = now;
    }
    let fact = |what: &str, bytes: u64| {
        Fact::number(format!("{what}, {when}"), count, float(bytes) / MIB, "MiB")
    };
    report.facts.push(fact("disk", disk_bytes(directory)?));
    report.facts.push(fact("index", driven.engine.stats().memory.total()));
    if let Some(memory) = process::settled_memory() {
        report.facts.push(fact("resident, with the list of what was stored", memory.resident));
    }
    Ok(())
}

fn disk_bytes(directory: &Path) -> Result<u64> {
    let files = std::fs::read_dir(directory)?;
    files.map(|file| Ok(file?.metadata()?.len())).sum()
}
