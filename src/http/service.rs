//! What the handlers share: the engine, the options, and the counters behind the limits.

use std::sync::{Arc, OnceLock};

use axum::extract::Request;
use axum::http::Extensions;
use nearprint_engine::cluster::member::{NodeState, NodeStatus};
use nearprint_engine::{Client, Engine, Readiness, Refused};
use nearprint_text::Recipe;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::Access;
use crate::follow::{FollowState, Following};
use crate::http::analyses::Analyses;
use crate::http::budget::Replies;
use crate::http::cipher::Cipher;
use crate::http::options::HttpOptions;
use crate::http::problem::Problem;
use crate::http::reply::streamed::Places;
use crate::http::request::body::{self, Bodies};
use crate::http::request::prepare::{self, Prepared, Setting};
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::types::RequestKind;
use crate::http::role::{ClusterNode, Decider, FollowerRole, Role};
use crate::http::shares::{SharedPlaces, client_of};
use crate::model;

/// Bodies up to this size are analysed on the async thread, where a text of this size costs 0.15 ms
/// of CPU. Handing a body over costs as much as analysing 8 KB. Above this size other requests of
/// the same thread would wait too long.
const INLINE_BYTES_MAX: usize = 32 * 1024;

/// What the handlers share.
#[derive(Debug)]
pub struct Service {
    pub(crate) engine: Engine,
    pub(crate) options: HttpOptions,
    pub(crate) access: Arc<Access>,
    pub(crate) started: Instant,
    /// A place for each request that may be worked on.
    pub(crate) in_flight: Arc<SharedPlaces>,
    pub(crate) bodies: Bodies,
    pub(crate) replies: Replies,
    /// The exports and the streams of documents that run.
    pub(crate) exports: Arc<Places>,
    /// For the cursors of pages and the names of jobs.
    pub(crate) cipher: Cipher,
    /// What it is among other services.
    pub(crate) role: Role,
    /// Whether it stops: replies without an end have to end.
    stopping: watch::Sender<bool>,
    /// The OpenAPI document, once somebody has asked for it.
    pub(crate) description: OnceLock<String>,
    analyses: Analyses,
}

impl Service {
    /// The service over a running engine.
    pub fn new(engine: Engine, options: HttpOptions, access: Arc<Access>) -> Arc<Self> {
        Self::with_role(engine, options, access, Role::Alone)
    }

    /// The same among others. The engine of a node has to be one.
    pub(crate) fn with_role(
        engine: Engine,
        mut options: HttpOptions,
        access: Arc<Access>,
        role: Role,
    ) -> Arc<Self> {
        let recipe = options.defaults.recipe;
        options.defaults.model = engine.model().map(|bytes| {
            model::of_bytes(&bytes, recipe).expect("the engine has checked it at the start")
        });
        Arc::new(Self {
            replies: Replies::new(options.reply_bytes_max, options.replies_held_bytes_max),
            exports: Places::new(options.exports_max, options.export_stall),
            in_flight: SharedPlaces::new(options.requests_in_flight_max),
            bodies: Bodies::new(&options),
            cipher: Cipher::new(&engine.secret()),
            role,
            stopping: watch::Sender::new(false),
            description: OnceLock::new(),
            analyses: Analyses::new(cores(), options.bodies_held_bytes_max),
            engine,
            options,
            access,
            started: Instant::now(),
        })
    }

    /// The engine as the client of a request may use it.
    pub(crate) fn engine_for(&self, request: &Extensions) -> Engine {
        self.engine.on_behalf_of(client_of(request))
    }

    /// Ends the replies that have no end of their own.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Resolves when the service stops.
    pub(crate) async fn stopped(&self) {
        // The sender is in this service.
        drop(self.stopping.subscribe().wait_for(|stopping| *stopping).await);
    }

    /// The node of a cluster that it is, if so, and what that does now.
    pub(crate) fn node(&self) -> Option<(&ClusterNode, Arc<NodeStatus>)> {
        match &self.role {
            Role::Alone | Role::Follower(_) => None,
            Role::Node(node) => Some((node, self.engine.node()?)),
        }
    }

    /// The following of a primary, if it is a follower.
    pub(crate) fn following(&self) -> Option<&Following> {
        match &self.role {
            Role::Follower(follower) => Some(&follower.following),
            Role::Alone | Role::Node(_) => None,
        }
    }

    /// Whether it is a copy that has each change soon.
    pub(crate) fn is_level(&self) -> bool {
        match (&self.role, self.node()) {
            (Role::Follower(FollowerRole { following, .. }), _) => {
                following.is_connected() && following.state() == FollowState::Following
            }
            (_, Some((_, status))) => status.state == NodeState::Following,
            (Role::Alone | Role::Node(_), None) => false,
        }
    }

    /// Who decides now.
    pub(crate) fn decider(&self) -> Decider<'_> {
        match (&self.role, self.node()) {
            (Role::Follower(follower), _) => follower.decider(),
            (_, Some((node, status))) => node.decider(&status),
            (Role::Alone | Role::Node(_), None) => Decider::Here,
        }
    }

    /// Refuses while the engine accepts no writes, for requests that cannot be refused later. Only
    /// who reaches everything learns how full the disk is.
    pub(crate) fn accepts_writes(&self, reach: &NamespaceAccess) -> Result<(), Problem> {
        let accepted = match self.engine.readiness() {
            Readiness::Ready => Ok(()),
            Readiness::Stopping => Err(Refused::Stopping),
            Readiness::Failed => Err(Refused::Failed),
            Readiness::DiskFull => Err(Refused::DiskFull),
            Readiness::MemoryFull => Err(Refused::MemoryFull),
            Readiness::DirectoryUnusable => Err(Refused::DirectoryUnusable),
        };
        accepted.map_err(|refused| {
            let explains = reach.is_unlimited() || refused != Refused::DiskFull;
            let explanation = if explains { self.engine.explanation() } else { None };
            Problem::from(refused).explained(explanation)
        })
    }

    /// Whether a text of this many bytes is analysed on the async thread that read it. Texts for
    /// keywords never are: loading their dictionaries takes a second.
    fn is_light(&self, bytes: usize) -> bool {
        let has_dictionaries = matches!(self.options.defaults.recipe, Recipe::Keywords { .. });
        bytes <= INLINE_BYTES_MAX && !has_dictionaries
    }

    /// What a request that comes now is read against.
    pub(crate) fn setting(&self) -> Setting {
        Setting { defaults: self.options.defaults, now_ms: Engine::now_ms() }
    }

    /// Reads the document of a single request with its options.
    pub(crate) async fn prepare(
        self: &Arc<Self>,
        request: Request,
        request_kind: &'static RequestKind,
    ) -> Result<Prepared, Problem> {
        let (head, stream) = request.into_parts();
        let client = client_of(&head.extensions);
        let parameters = request_kind.parameters(head.uri.query())?;
        let kind = body::kind(&head.headers, prepare::TAKES)?;
        let body = body::read(&self.bodies, &client, stream).await?;
        let setting = self.setting();
        let bytes = body.bytes.len();
        let work = move || prepare::single(&kind, body, request_kind, parameters, &setting);
        self.analyse(&client, bytes, work).await?
    }

    /// Runs the analysis of `bytes` bytes: here if it is light, else off the async threads, once it
    /// has a permit and the memory that it may take.
    pub(crate) async fn analyse<T: Send + 'static>(
        &self,
        client: &Client,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Problem> {
        if self.is_light(bytes) {
            return Ok(work());
        }
        let memory = nearprint_text::memory_of_analysis(self.options.defaults.recipe, bytes);
        let permit = self.analyses.permit(client.clone(), bytes, memory).await;
        let work = tokio::task::spawn_blocking(move || {
            // The work keeps it, because it continues when its request is dropped.
            let _permit = permit;
            work()
        });
        work.await
            .map_err(|fault| Problem::internal(format!("work off the async threads: {fault}")))
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
