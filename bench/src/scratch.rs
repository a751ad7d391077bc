//! An engine on a temporary data directory.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use nearprint::cli::error_report::ErrorReport;
use nearprint::config::Config;
use nearprint::server::Settings;
use nearprint_engine::document::Packed;
use nearprint_engine::{Admission, Engine, PackedInserted, Pending, Stats};
use nearprint_fingerprint::Distance;
use nearprint_machine::change::PACKED_MAX;
use nearprint_machine::query::Criteria;
use tokio::runtime::{self, Runtime};

use crate::clock::{Stopwatch, pause};
use crate::data::{Queries, Stored};
use crate::latency::Latencies;
use crate::process;
use crate::progress::Progress;
use crate::verify::Verdict;

/// Packed batches in flight at a time, as many as the service has of one request.
pub(super) const BATCHES_AHEAD: usize = 4;

/// An index has settled when nothing changed for this long. Further merges begin one second after
/// the last write.
const CALM: Duration = Duration::from_millis(2_500);
/// The most that the threads of the process may have worked in this time.
const CALM_CPU_NS_MAX: u64 = 250_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A fresh directory, removed with all its files on drop. A killed benchmark leaves it behind.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// A directory of its own below `parent`, or below the current directory.
    pub(super) fn below(parent: Option<&Path>) -> Result<Self> {
        let name = format!("nearprint-bench-{}", std::process::id());
        let path = parent.unwrap_or_else(|| Path::new(".")).join(name);
        fs::create_dir_all(&path).map_err(|error| {
            let what = format!("cannot create {}", path.display());
            ErrorReport::new(what, "name a directory with room: --data-dir DIR").because(error)
        })?;
        Ok(Self(path))
    }

    /// The default settings of a service, with a fresh data directory in here.
    pub(super) fn settings(&self, name: &str, distance_max: Distance) -> Result<Settings> {
        settings_of(&self.0.join(name), distance_max)
    }
}

/// The default settings of a service with this data directory.
pub(super) fn settings_of(directory: &Path, distance_max: Distance) -> Result<Settings> {
    let mut config = Config::default();
    config.data.directory = directory.to_path_buf();
    config.data.distance_max = u64::from(distance_max.get());
    config.query.distance = config.query.distance.min(config.data.distance_max);
    Ok(config.validated()?)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("cannot remove {}: {error}", self.0.display());
        }
    }
}

/// An engine in this process, driven by this thread.
pub(super) struct Driven {
    pub(super) engine: Engine,
    runtime: Runtime,
}

impl Driven {
    /// Opens the data directory of these settings.
    pub(super) fn open(settings: &Settings) -> Result<Self> {
        let engine = Engine::open(settings.engine.clone()).context("the engine does not start")?;
        Ok(Self { engine, runtime: runtime::Builder::new_current_thread().build()? })
    }

    /// Stores fingerprints in packed batches of at most [`PACKED_MAX`]; calls `at` with the number
    /// on the disk. The latencies are those of whole batches.
    pub(super) fn insert(
        &self,
        batches: impl IntoIterator<Item = impl Into<Packed>>,
        mut at: impl FnMut(u64),
    ) -> Result<Latencies> {
        let mut under_way = Batches::new();
        let inserted = |answered: &mut Batches<PackedInserted>| -> u64 {
            answered.answers.drain(..).map(|answer| answer.inserted).sum()
        };
        let mut done = 0;
        self.runtime.block_on(async {
            for batch in batches {
                let begun = Stopwatch::start();
                let pending = self.engine.begin_insert_packed(batch, Admission::Wait).await?;
                under_way.add(begun, pending).await?;
                done += inserted(&mut under_way);
                at(done);
            }
            while under_way.finish_oldest().await? {
                done += inserted(&mut under_way);
                at(done);
            }
            Ok(under_way.latencies)
        })
    }

    /// Stores everything, and waits until it has settled.
    pub(super) fn fill(&self, stored: &Stored) -> Result<Stats> {
        let progress = Progress::of("storing fingerprints", stored.count());
        self.insert(stored.batches(PACKED_MAX), |done| progress.at(done))?;
        drop(progress);
        self.settle()
    }

    /// Packed check-and-inserts, and the verdict on their replies. The latencies are those of whole
    /// batches.
    pub(super) fn check_and_insert(
        &self,
        queries: &Queries,
        distance: Distance,
    ) -> Result<(Latencies, Verdict)> {
        let progress = Progress::of("checking and inserting", queries.fingerprints.len() as u64);
        let mut batches = Batches::new();
        let share = self.engine.share();
        self.runtime.block_on(async {
            for batch in queries.fingerprints.chunks(PACKED_MAX) {
                let begun = Stopwatch::start();
                let pending = self
                    .engine
                    .begin_check_and_insert_packed(
                        &share,
                        batch.to_vec(),
                        Criteria::within(distance),
                        Admission::Wait,
                    )
                    .await?;
                batches.add(begun, pending).await?;
                progress.at((batches.answers.len() * PACKED_MAX) as u64);
            }
            while batches.finish_oldest().await? {}
            let mut verdict = Verdict::default();
            verdict.check_packed(queries, &batches.answers.concat(), distance);
            Ok((batches.latencies, verdict))
        })
    }

    /// Waits until segments are no longer merged.
    pub(super) fn settle(&self) -> Result<Stats> {
        settle(|| Ok(format!("{:?}", self.engine.stats().segments)))?;
        Ok(self.engine.stats())
    }

    /// Closes the engine; it takes a snapshot.
    pub(super) fn close(self) {
        let _progress = Progress::during("closing the engine");
        self.engine.close();
    }
}

/// Packed batches under way, oldest first.
struct Batches<T> {
    under_way: VecDeque<(Stopwatch, Pending<T>)>,
    latencies: Latencies,
    answers: Vec<T>,
}

impl<T: Send + 'static> Batches<T> {
    fn new() -> Self {
        Self { under_way: VecDeque::new(), latencies: Latencies::new(), answers: Vec::new() }
    }

    /// Adds one, and waits for the oldest if there are too many.
    async fn add(&mut self, begun: Stopwatch, pending: Pending<T>) -> Result<()> {
        self.under_way.push_back((begun, pending));
        if self.under_way.len() == BATCHES_AHEAD {
            self.finish_oldest().await?;
        }
        Ok(())
    }

    /// Waits for the oldest, if there is one.
    async fn finish_oldest(&mut self) -> Result<bool> {
        let Some((begun, pending)) = self.under_way.pop_front() else { return Ok(false) };
        self.answers.push(pending.wait().await?);
        self.latencies.record(begun.ns());
        Ok(true)
    }
}

/// Waits until an index, in this process or another, no longer changes.
pub(super) fn settle(mut state: impl FnMut() -> Result<String>) -> Result<()> {
    let _progress = Progress::during("waiting until the segments are merged");
    let mut last = state()?;
    let (mut calm_since, mut cpu) = (Stopwatch::start(), process::cpu_ns());
    while calm_since.elapsed() < CALM {
        pause(LOOK_EVERY);
        let now = state()?;
        let worked = cpu.zip(process::cpu_ns()).map_or(0, |(then, now)| now.abs_diff(then));
        if now != last || worked > CALM_CPU_NS_MAX {
            (calm_since, cpu) = (Stopwatch::start(), process::cpu_ns());
            last = now;
        }
    }
    Ok(())
}

/// Queries for the whole of what is stored.
pub(super) fn queries(stored: &Stored, count: u64, distance: Distance, seed: u64) -> Queries {
    Queries::aimed_at((stored, &stored.whole()), count, distance, seed)
}

/// The memory of an index.
pub(super) fn index_bytes(stats: &Stats) -> u64 {
    let memory = stats.memory;
    memory.total() - memory.merging
}
