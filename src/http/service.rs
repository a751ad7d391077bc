//! What every handler shares: the engine, the options, and the counts behind the limits.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use axum::extract::Request;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::Options;
use super::analyses::Analyses;
use super::problem::Problem;
use crate::access::Access;
use crate::engine::{Engine, Readiness, Refused, Stats};
use crate::http::reply::replies::Replies;
use crate::http::request::body;
use crate::http::request::parameters;
use crate::http::request::prepare;
use crate::http::request::prepare::{Prepared, Shape};
use crate::metrics;
use crate::recipe::Recipe;

/// Bodies up to this size are analysed on the async thread: text of this size costs 0.15 ms of CPU
/// there. To hand a body over costs as much as to analyse 8 KB, and above this size the async threads
/// would make others wait.
const INLINE_BYTES_MAX: usize = 32 * 1024;

/// What every handler shares.
#[derive(Debug)]
pub struct Service {
    pub(crate) engine: Engine,
    pub(crate) options: Options,
    pub(crate) access: Arc<Access>,
    pub(crate) started: Instant,
    pub(crate) in_flight: Level,
    pub(crate) held: Level,
    pub(crate) replies: Replies,
    /// One for each export that may run.
    pub(crate) exports: Arc<Semaphore>,
    analyses: Analyses,
    pub(crate) routes: HashMap<&'static str, metrics::Route>,
    pub(crate) unrouted: metrics::Route,
    pub(crate) request_numbers: AtomicU64,
    pub(crate) request_salt: u64,
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
    pub(crate) fn accepts_writes(&self) -> Result<(), Problem> {
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
    pub(crate) fn is_light(&self, bytes: usize) -> bool {
        let has_dictionaries = matches!(self.options.defaults.recipe, Recipe::Keywords { .. });
        bytes <= INLINE_BYTES_MAX && !has_dictionaries
    }

    /// Reads the document of a single request with its options.
    pub(crate) async fn prepare(
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
    pub(crate) async fn stats(&self) -> Result<Stats, Problem> {
        let engine = self.engine.clone();
        let stats = tokio::task::spawn_blocking(move || engine.stats());
        stats.await.map_err(|fault| Problem::internal(format!("statistics: {fault}")))
    }

    /// Runs the analysis of `bytes` bytes off the async threads, when it is its turn.
    pub(crate) async fn off_async<T: Send + 'static>(
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
pub(crate) struct Level(AtomicUsize);

impl Level {
    /// Takes `amount` if the level stays at `max` or below.
    pub(crate) fn take(&self, amount: usize, max: usize) -> bool {
        // Relaxed: the number guards no other memory.
        let before = self.0.fetch_add(amount, Ordering::Relaxed);
        let fits = before.saturating_add(amount) <= max;
        if !fits {
            self.give_back(amount);
        }
        fits
    }

    /// How much is taken.
    pub(crate) fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn give_back(&self, amount: usize) {
        self.0.fetch_sub(amount, Ordering::Relaxed);
    }
}
