//! Waits that end: a test fails when what it waits for does not come.

use std::thread;
use std::time::{Duration, Instant};

/// Anything that takes longer has failed.
const DEADLINE: Duration = Duration::from_mins(1);

/// Looks again until the condition holds. A look may take long, and the last one counts whenever
/// it ends.
pub(crate) fn until(what: &str, is_so: impl FnMut() -> bool) {
    until_within(DEADLINE, what, is_so);
}

/// The same of what must not take longer than this.
pub(crate) fn until_within(deadline: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = now();
    while !is_so() {
        assert!(begun.elapsed() < deadline, "it never came: {what}");
        thread::park_timeout(Duration::from_millis(10));
    }
}

/// Measures how long something takes.
#[expect(clippy::disallowed_methods, reason = "a test of timeouts reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
