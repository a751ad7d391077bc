//! The time, which the engine reads here only and passes on from here.

use std::time::{Instant, SystemTime};

/// Milliseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// This moment, to measure a duration from.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
