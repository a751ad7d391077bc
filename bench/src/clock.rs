//! The clock of the measurements: monotonic, in nanoseconds.

use std::time::{Duration, Instant};

/// Pairs of readings that are timed to find the cost of one.
const READINGS: usize = 10_001;

/// A point in time to measure from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the start.
    pub(super) fn ns(self) -> u64 {
        self.elapsed().as_nanos() as u64
    }

    /// The time since the start.
    pub(super) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// The time that a pair of readings shows with nothing between them, in nanoseconds. It is
/// subtracted from each single measurement.
pub(super) fn overhead_ns() -> u64 {
    let mut readings: Vec<u64> = (0..READINGS).map(|_| Stopwatch::start().ns()).collect();
    readings.sort_unstable();
    readings[READINGS / 2]
}

/// Waits, for something that gives no notice when it is done.
pub(super) fn pause(time: Duration) {
    let begun = Stopwatch::start();
    // A thread may wake up early.
    while let Some(left) = time.checked_sub(begun.elapsed()) {
        std::thread::park_timeout(left);
    }
}
