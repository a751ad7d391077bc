//! The limits of the API, and the defaults of a request. [`crate::config`] checks every range.

use std::time::Duration;

use nearprint_fingerprint::Distance;
use nearprint_machine::query::SearchKind;
use nearprint_text::Recipe;
use nearprint_text::{Extract, SpectralModel};

use crate::http::host::HostNames;

/// The limits of the API, and the defaults of a request.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The largest body of a single request.
    pub body_bytes_max: usize,
    /// The largest line of an NDJSON batch.
    pub line_bytes_max: usize,
    /// The bytes of all bodies in memory.
    pub bodies_held_bytes_max: usize,
    /// The longest reply, and the longest line of the reply to a batch.
    pub reply_bytes_max: usize,
    /// The bytes of all replies that wait for their clients; at least twice the longest one.
    pub replies_held_bytes_max: usize,
    /// Exports and streams of documents at one time.
    pub exports_max: usize,
    /// One whose client has read nothing for this long gives its place to a new one.
    pub export_stall: Duration,
    /// How long a body may take; a batch must send a whole line within each such time.
    pub body_timeout: Duration,
    /// Requests being worked on at one time.
    pub requests_in_flight_max: usize,
    /// The names of the service in addition to those of the loopback interface.
    pub host_names: HostNames,
    /// The memory of index, bodies and replies together; 0 is no limit. Only shown here: each part
    /// has a limit of its own.
    pub memory_bytes_max: u64,
    /// The defaults of a request.
    pub defaults: RequestDefaults,
}

/// The defaults of a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestDefaults {
    /// The recipe of the service.
    pub recipe: Recipe,
    /// The model of the recipe; [`crate::http::Service::new`] takes it from the engine.
    pub model: Option<&'static SpectralModel>,
    /// Which text of a page of HTML counts.
    pub extract: Extract,
    /// The distance of a look-up.
    pub distance: Distance,
    /// The largest distance of a look-up.
    pub distance_max: Distance,
    /// How many hits are listed.
    pub limit: usize,
    /// The similarity that confirms a hit; 0 switches verification off.
    pub min_similarity: f64,
    /// The share of their numbers that both texts of a hit must have; 0 demands none.
    pub min_numbers: f64,
    /// How far the search for a text goes.
    pub search: SearchKind,
    /// The largest metadata of a document, in bytes of JSON.
    pub metadata_bytes_max: usize,
    /// How many seconds a document is kept; `None` is for ever.
    pub expires_in_s: Option<u64>,
}

impl RequestDefaults {
    /// The maximum number of hits in a reply.
    pub const LIMIT_MAX: usize = 1_000;
}
