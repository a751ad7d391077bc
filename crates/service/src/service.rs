//! The service: an engine, the defaults of requests, and the limits that all clients share.

use std::sync::Arc;

use nearprint_engine::{Client, Engine, Readiness, Refused};
use nearprint_text::{Recipe, SpectralModel};

use crate::callers::AllowedNamespaces;
use crate::callers::Caller;
use crate::cipher::Cipher;
use crate::limits::analyses::Analyses;
use crate::limits::budget::Replies;
use crate::options::ServiceOptions;
use crate::prepare::Setting;
use crate::refusal::Refusal;

/// Bodies up to this size are analysed on the async thread, where a text of this size costs 0.15 ms
/// of CPU. Handing a body over costs as much as analysing 8 KB. Above this size other requests of
/// the same thread would wait too long.
const INLINE_BYTES_MAX: usize = 32 * 1024;

/// The service over a running engine.
#[derive(Debug)]
pub struct Service {
    pub(crate) engine: Engine,
    options: ServiceOptions,
    replies: Replies,
    pub(crate) cipher: Cipher,
    analyses: Analyses,
}

impl Service {
    /// The service over a running engine, whose model, if its recipe has one, is this.
    pub fn new(
        engine: Engine,
        mut options: ServiceOptions,
        model: Option<&'static SpectralModel>,
    ) -> Arc<Self> {
        options.defaults.model = model;
        Arc::new(Self {
            replies: Replies::new(options.reply_bytes_max, options.replies_held_bytes_max),
            cipher: Cipher::new(&engine.secret()),
            analyses: Analyses::new(cores(), options.analyses_bytes_max),
            engine,
            options,
        })
    }

    /// The engine, for what needs no caller.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine as a caller may use it.
    pub fn engine_for(&self, caller: &Caller) -> Engine {
        self.engine.on_behalf_of(caller.client.clone())
    }

    /// The limits, and the defaults of a request.
    pub const fn options(&self) -> &ServiceOptions {
        &self.options
    }

    /// The recipe of its fingerprints.
    pub const fn recipe(&self) -> Recipe {
        self.options.defaults.recipe
    }

    /// The budget of long answers.
    pub const fn replies(&self) -> &Replies {
        &self.replies
    }

    /// What encrypts cursors and names of jobs.
    pub const fn cipher(&self) -> &Cipher {
        &self.cipher
    }

    /// What a request that comes now is read against.
    pub fn setting(&self) -> Setting {
        Setting { defaults: self.options.defaults, now_ms: Engine::now_ms() }
    }

    /// Refuses while the engine accepts no writes, for requests that cannot be refused later. Only
    /// who reaches everything learns how full the disk is.
    ///
    /// # Errors
    /// Why it accepts none.
    pub fn accepts_writes(&self, reach: &AllowedNamespaces) -> Result<(), Refusal> {
        let accepted = match self.engine.readiness() {
            Readiness::Ready => Ok(()),
            Readiness::Stopping => Err(Refused::Stopping),
            Readiness::Failed => Err(Refused::Failed),
            Readiness::DiskFull => Err(Refused::DiskFull),
            Readiness::MemoryFull => Err(Refused::MemoryFull),
            Readiness::DirectoryUnusable => Err(Refused::DirectoryUnusable),
        };
        accepted.map_err(|refused| {
            let explains = !reach.is_limited() || refused != Refused::DiskFull;
            let explanation = if explains { self.engine.explanation() } else { None };
            Refusal::from(refused).explained(explanation)
        })
    }

    /// Whether a text of this many bytes is analysed on the async thread that read it. Texts for
    /// keywords never are: loading their dictionaries takes a second.
    fn is_light(&self, bytes: usize) -> bool {
        let has_dictionaries = matches!(self.recipe(), Recipe::Keywords { .. });
        bytes <= INLINE_BYTES_MAX && !has_dictionaries
    }

    /// Runs the analysis of `bytes` bytes: here if it is light, else off the async threads, once it
    /// has a permit and the memory that it may take.
    ///
    /// # Errors
    /// The work has panicked.
    pub async fn analyse<T: Send + 'static>(
        &self,
        client: &Client,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        if self.is_light(bytes) {
            return Ok(work());
        }
        let memory = nearprint_text::memory_of_analysis(self.recipe(), bytes);
        let permit = self.analyses.permit(client.clone(), bytes, memory).await;
        let work = tokio::task::spawn_blocking(move || {
            // The work keeps it, because it continues when its request is dropped.
            let _permit = permit;
            work()
        });
        work.await
            .map_err(|fault| Refusal::internal(format!("work off the async threads: {fault}")))
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
