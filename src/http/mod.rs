//! The HTTP API: the only module that knows JSON, status codes and content types.
//!
//! A handler extracts, converts, makes one call into [`crate::engine`] and converts back; the rules of
//! matching and storing are not here. `proto-free-api.md` is the public description.
//!
//! - [`mod@router`] lists every route; [`routes`] holds the handlers, one file a resource.
//! - [`middleware`] is what happens around every handler: checks of the head, tokens, the access log.
//! - [`request`] reads bodies and query strings, within their limits, and names the field that is wrong.
//! - [`reply`] holds the JSON of the replies and the budget for their bytes; [`problem`] the one table of
//!   errors.
//! - [`analyses`] is the queue of long texts.
//! - [`batch`] streams NDJSON and packed 64-bit words in bounded memory.
//!
//! Cost: a JSON query with a bare fingerprint is parsed without an intermediate tree and makes a
//! handful of small allocations. Tested from outside by `tests/http_contract` on port 0.

#![deny(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "lengths come from outside"
)]

mod analyses;
mod batch;
mod middleware;
mod openapi;
mod problem;
mod reply;
mod request;
mod router;
mod routes;
mod service;

use std::time::Duration;

use crate::fingerprint::Distance;
use crate::recipe::Recipe;
use crate::text::Extract;

pub(crate) use crate::http::middleware::guard::Guarded;
pub use crate::http::middleware::head::{BadHostNames, HostNames};
pub(crate) use crate::http::middleware::observe::is_probe;
pub(crate) use problem::too_many_connections;
pub use router::{openapi, router};
pub use service::Service;

/// What the API may take up, and what a request that says nothing gets. Checked by
/// [`crate::config`].
#[derive(Debug, Clone)]
pub struct Options {
    /// The largest body of a single request.
    pub body_bytes_max: usize,
    /// The largest line of an NDJSON batch.
    pub line_bytes_max: usize,
    /// All bodies held in memory at one time.
    pub bodies_held_bytes_max: usize,
    /// The longest reply, and the longest line of a batch's reply.
    pub reply_bytes_max: usize,
    /// All replies that wait for their clients, at least twice the longest one.
    pub replies_held_bytes_max: usize,
    /// Exports at one time.
    pub exports_max: usize,
    /// How long a body may take; a batch must bring a whole line in each such time.
    pub body_timeout: Duration,
    /// Requests being worked on at one time.
    pub requests_in_flight_max: usize,
    /// The names of the service besides those of the loopback interface.
    pub host_names: HostNames,
    /// Memory of index and bodies together; 0 is no limit. Only shown: the parts keep to theirs.
    pub memory_bytes_max: u64,
    /// What a request that says nothing gets.
    pub defaults: RequestDefaults,
}

/// What a request that says nothing gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestDefaults {
    /// The recipe of the service, which makes fingerprints of documents.
    pub recipe: Recipe,
    /// Which text of a page of HTML counts.
    pub extract: Extract,
    /// The distance of a look-up.
    pub distance: Distance,
    /// The largest distance a look-up may ask for.
    pub distance_max: Distance,
    /// How many hits are listed.
    pub limit: usize,
    /// The similarity that confirms a hit; 0 switches verification off.
    pub min_similarity: f64,
}

impl RequestDefaults {
    /// No reply lists more hits than this.
    pub const LIMIT_MAX: usize = 1_000;
}
