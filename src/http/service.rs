//! What the handlers share: the service, and what belongs to HTTP alone.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::extract::Request;
use nearprint_engine::Engine;
use nearprint_engine::replica::{NodeState, NodeStatus};
use nearprint_service::shares::SharedPlaces;
use nearprint_service::{Prepared, Service};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::access::Access;
use crate::http::forward::ForwardTarget;
use crate::http::history::History;
use crate::http::options::HttpOptions;
use crate::http::problem::Problem;
use crate::http::reply::streamed::StreamPlaces;
use crate::http::request::body::{self, Bodies};
use crate::http::request::caller::client_of;
use crate::http::request::prepare;
use crate::http::request::types::RequestKind;
use crate::http::role::{Copies, Decider, ReplicaRole, Role};
use crate::http::routes::about::nodes::FoundNodes;
use crate::model;

/// What the handlers share.
#[derive(Debug)]
pub struct HttpService {
    pub(crate) service: Arc<Service>,
    pub(crate) options: HttpOptions,
    pub(crate) access: Arc<Access>,
    pub(crate) started: Instant,
    /// A place for each request that may be worked on.
    pub(crate) in_flight: Arc<SharedPlaces>,
    pub(crate) bodies: Bodies,
    /// The exports and the streams of documents that run.
    pub(crate) exports: Arc<StreamPlaces>,
    /// What it is among other services.
    pub(crate) role: Role,
    /// What the services that it knows have told.
    pub(crate) nodes: FoundNodes,
    /// The figures of the last day.
    pub(crate) history: History,
    /// Whether it stops: replies without an end have to end.
    stopping: watch::Sender<bool>,
    /// The OpenAPI document, once somebody has asked for it.
    pub(crate) description: OnceLock<String>,
}

impl HttpService {
    /// The service over a running engine.
    pub fn new(engine: Engine, options: HttpOptions, access: Arc<Access>) -> Arc<Self> {
        Self::with_role(engine, options, access, Role::Alone)
    }

    /// The same among others. The engine of a copy has to be one.
    pub(crate) fn with_role(
        engine: Engine,
        options: HttpOptions,
        access: Arc<Access>,
        role: Role,
    ) -> Arc<Self> {
        Arc::new(Self {
            service: model::service(engine, options.service),
            exports: StreamPlaces::new(options.exports_max, options.export_stall),
            in_flight: SharedPlaces::new(options.requests_in_flight_max),
            bodies: Bodies::new(&options),
            role,
            nodes: FoundNodes::default(),
            history: History::default(),
            stopping: watch::Sender::new(false),
            description: OnceLock::new(),
            options,
            access,
            started: Instant::now(),
        })
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

    /// The copy of others that it is, if so, and what that does now.
    pub(crate) fn replica(&self) -> Option<(&ReplicaRole, Arc<NodeStatus>)> {
        match &self.role {
            Role::Alone => None,
            Role::Replica(replica) => Some((replica, self.service.engine().node()?)),
        }
    }

    /// Whether it is a node of a cluster.
    pub(crate) fn is_node(&self) -> bool {
        match &self.role {
            Role::Alone => false,
            Role::Replica(replica) => matches!(replica.copies, Copies::Cluster { .. }),
        }
    }

    /// Whether it is a copy that has each change soon.
    pub(crate) fn is_level(&self) -> bool {
        self.replica()
            .is_some_and(|(_, status)| status.state == NodeState::Following && status.is_connected)
    }

    /// How long a caller waits for a write, if the engine limits that.
    pub(crate) fn write_timeout(&self) -> Option<Duration> {
        self.service.engine().write_timeout()
    }

    /// Resolves when requests that write go elsewhere than there.
    pub(crate) async fn is_led_by_another(&self, there: ForwardTarget) {
        let ForwardTarget::Leader(address) = there else { return std::future::pending().await };
        self.service.engine().led_by_another(&address).await;
    }

    /// Who decides now.
    pub(crate) fn decider(&self) -> Decider<'_> {
        match self.replica() {
            None => Decider::Here,
            Some((replica, status)) => replica.decider(&status),
        }
    }

    /// Reads the document of a single request with its options.
    pub(crate) async fn prepare(
        &self,
        request: Request,
        request_kind: &'static RequestKind,
    ) -> Result<Prepared, Problem> {
        let (head, stream) = request.into_parts();
        let client = client_of(&head.extensions);
        let parameters = request_kind.parameters(head.uri.query())?;
        let kind = body::kind(&head.headers, prepare::TAKES)?;
        let body = body::read(&self.bodies, &client, stream).await?;
        let setting = self.service.setting();
        let bytes = body.bytes.len();
        let work = move || prepare::single(&kind, body, request_kind, parameters, &setting);
        self.service.analyse(&client, bytes, work).await?
    }
}
