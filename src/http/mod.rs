//! The HTTP API: routes, bodies, streams, middleware, and the OpenAPI description.
//!
//! A handler extracts, calls [`nearprint_service`] and renders what it says; it has no rules of
//! matching, storing or sharing of its own. `proto-free-api.md` is the public
//! description.
//!
//! - [`mod@router`] lists every route; [`routes`] holds the handlers, one file a resource.
//! - [`middleware`] runs around every handler: checks of the head, tokens, the access log.
//! - [`role`] knows who decides what is asked: this service, a primary or a leader; [`forward`]
//!   passes requests on to it.
//! - [`request`] reads bodies and query strings, within their limits, and names the field that is
//!   wrong.
//! - [`reply`] has the replies that are streamed; [`problem`] renders refusals.
//! - [`history`] keeps the figures of the last day.
//! - [`batch`] streams NDJSON and packed 64-bit words in bounded memory.
//!
//! Cost: a JSON query with a bare fingerprint is parsed without an intermediate tree and makes a
//! handful of small allocations. Tested from outside by `tests/http_contract` on port 0.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "lengths come from outside"
)]

mod batch;
mod description;
mod forward;
mod history;
mod host;
mod middleware;
mod options;
mod problem;
mod reply;
mod request;
mod role;
mod router;
mod routes;
mod service;

pub(crate) use crate::http::middleware::guard::Guarded;
pub(crate) use crate::http::middleware::observe::is_probe;
pub(crate) use history::record as record_history;
pub use host::{BadHostNames, HostNames};
pub use options::{AccessLog, EXPORT_STALL, HISTORY_INTERVAL, HttpOptions};
pub(crate) use problem::too_many_connections;
pub(crate) use request::body::ReadingStopped;
pub(crate) use request::caller::PeerAddress;
pub(crate) use role::{ReplicaRole, Role};
pub use router::{openapi, router};
pub use service::HttpService;
