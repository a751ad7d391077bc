//! Time, read in one place and passed in everywhere else.

use std::fmt::Debug;
use std::time::{Duration, Instant, SystemTime};

/// A source of time.
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;

    /// Time since a moment of [`Self::monotonic`].
    fn since(&self, moment: Duration) -> Duration {
        self.monotonic().saturating_sub(moment)
    }
}

/// The clock of the machine.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose fixed moment is now.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }
}
