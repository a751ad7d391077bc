//! What every handler shares: the engine, the options, and the counts behind the limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use axum::extract::Request;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::Options;
use super::analyses::Analyses;
use super::body;
use super::parameters;
use super::prepare::{self, Prepared, Shape};
use super::problem::Problem;
use super::replies::Replies;
use crate::access::Access;
use crate::engine::{Engine, Readiness, Refused, Stats};
use crate::metrics;
use crate::recipe::Recipe;

/// Bodies up to this size are analysed on the async thread: text of this size costs 0.15 ms of CPU
/// there. To hand a body over costs as much as to analyse 8 KB, and above this size the async threads
/// would make others wait.
const INLINE_BYTES_MAX: usize = 32 * 1024;

/// What every handler shares.
#[derive(Debug)]
pub struct Service {
    pub(super) engine: Engine,
    pub(super) options: Options,
    pub(super) access: Arc<Access>,
    pub(super) started: Instant,
    pub(super) in_flight: Level,
    pub(super) held: Level,
    pub(super) replies: Replies,
    /// One for each export that may run.
    pub(super) exports: Arc<Semaphore>,
    analyses: Analyses,
    pub(super) routes: HashMap<&'static str, metrics::Route>,
    pub(super) unrouted: metrics::Route,
    pub(super) request_numbers: AtomicU64,
    pub(super) request_salt: u64,
}

impl Service {
    /// The service over a running engine.
    pub fn new(engine: Engine, options: Options, access: Arc<Access>) -> Arc<Self> {
        let names = super::router::route_names();
        Arc::new(Self {
            replies: Replies::new(options.reply_bytes_max, options.replies_held_bytes_max),
            exports: Arc::new(Semaphore::new(options.exports_max)),
            engine,
            options,
            access,
            started: Instant::now(),
            in_flight: Level::default(),
            held: Level::default(),
            analyses: Analyses::new(cores()),
            routes: names.into_iter().map(|name| (name, metrics::Route::new(name))).collect(),
            unrouted: metrics::Route::new("none"),
            request_numbers: AtomicU64::new(0),
            request_salt: getrandom::u64().unwrap_or_default(),
        })
    }

    /// Refuses while the engine takes no writes, for requests that cannot be refused later.
    pub(super) fn accepts_writes(&self) -> Result<(), Problem> {
        match self.engine.readiness() {
            Readiness::Ready => Ok(()),
            Readiness::Stopping => Err(Refused::Stopping.into()),
            Readiness::Failed => Err(Refused::Failed.into()),
            Readiness::DiskFull => Err(Refused::DiskFull.into()),
            Readiness::MemoryFull => Err(Refused::MemoryFull.into()),
        }
    }

    /// Whether so many bytes are analysed where they were read. Keywords never are: their dictionaries
    /// take a second at the first use.
    pub(super) fn is_light(&self, bytes: usize) -> bool {
        let has_dictionaries = matches!(self.options.defaults.recipe, Recipe::Keywords { .. });
        bytes <= INLINE_BYTES_MAX && !has_dictionaries
    }

    /// Reads the document of a single request with its options.
    pub(super) async fn prepare(
        self: &Arc<Self>,
        request: Request,
        shape: &'static Shape,
    ) -> Result<Prepared, Problem> {
        let (head, stream) = request.into_parts();
        let parameters = parameters::parse(head.uri.query(), shape.parameters)?;
        let kind = body::kind(&head.headers, prepare::TAKES)?;
        let held = body::read(self, stream).await?;
        let defaults = self.options.defaults;
        let bytes = held.bytes.len();
        let work = move || prepare::single(&kind, held, shape, &parameters, &defaults);
        if self.is_light(bytes) { work() } else { self.off_async(bytes, work).await? }
    }

    /// The state of the engine. Takes no turn: whoever watches an overloaded service waits for nobody.
    pub(super) async fn stats(&self) -> Result<Stats, Problem> {
        let engine = self.engine.clone();
        let stats = tokio::task::spawn_blocking(move || engine.stats());
        stats.await.map_err(|fault| Problem::internal(format!("statistics: {fault}")))
    }

    /// Runs the analysis of `bytes` bytes off the async threads, when it is its turn.
    pub(super) async fn off_async<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = self.analyses.turn(bytes).await;
        let work = tokio::task::spawn_blocking(move || {
            // Held by the work, which goes on when nobody waits for it any more.
            let _turn = turn;
            work()
        });
        work.await
            .map_err(|fault| Problem::internal(format!("work off the async threads: {fault}")))
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How much of something bounded is taken.
#[derive(Debug, Default)]
pub(super) struct Level(AtomicUsize);

impl Level {
    /// Takes `amount` if the level stays at `max` or below.
    pub(super) fn take(&self, amount: usize, max: usize) -> bool {
        // Relaxed: the number guards no other memory.
        let before = self.0.fetch_add(amount, Ordering::Relaxed);
        let fits = before.saturating_add(amount) <= max;
        if !fits {
            self.give_back(amount);
        }
        fits
    }

    /// How much is taken.
    pub(super) fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn give_back(&self, amount: usize) {
        self.0.fetch_sub(amount, Ordering::Relaxed);
    }
}
