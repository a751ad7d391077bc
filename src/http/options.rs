//! The limits of the API. [`crate::config`] checks every range.

use std::num::NonZero;
use std::time::Duration;

use nearprint_service::ServiceOptions;

use crate::http::host::HostNames;

/// An export or a stream of documents whose client has read nothing for this long gives its place
/// to a new one, when all are taken.
pub const EXPORT_STALL: Duration = Duration::from_secs(5);

/// The time from one row of [`crate::http::history`] to the next.
pub const HISTORY_INTERVAL: Duration = Duration::from_mins(1);

/// Which requests have a line in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLog {
    All,
    /// Those that are answered with 4xx or 5xx.
    Errors,
    /// Errors, and of the others one in so many.
    OneIn(NonZero<u64>),
}

/// The limits of the API.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The largest body of a single request.
    pub body_bytes_max: usize,
    /// The largest line of an NDJSON batch.
    pub line_bytes_max: usize,
    /// The bytes of all bodies in memory.
    pub bodies_held_bytes_max: usize,
    /// Exports and streams of documents at one time.
    pub exports_max: usize,
    /// One whose client has read nothing for this long gives its place to a new one.
    pub export_stall: Duration,
    /// The time from one row of the figures of the last day to the next.
    pub history_interval: Duration,
    /// How long a body may take; a batch must send a whole line within each such time.
    pub body_timeout: Duration,
    /// Requests being worked on at one time.
    pub requests_in_flight_max: usize,
    /// The names of the service in addition to those of the loopback interface.
    pub host_names: HostNames,
    /// The memory of index, bodies and replies together; 0 is no limit. Only shown here: each part
    /// has a limit of its own.
    pub memory_bytes_max: u64,
    /// What the index and its merges may take of it; 0 is no limit. Only shown here, too.
    pub index_memory_bytes_max: u64,
    /// Which requests have a line in the log.
    pub access_log: AccessLog,
    /// Those of the service behind it, and the defaults of a request.
    pub service: ServiceOptions,
}
