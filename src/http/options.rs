//! The limits of the API, and the defaults of a request. [`crate::config`] checks every range.

use std::time::Duration;

use crate::fingerprint::Distance;
use crate::http::host::HostNames;
use crate::recipe::Recipe;
use crate::text::Extract;

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
