//! The clock of the measurements: monotonic, in nanoseconds.

use std::time::{Duration, Instant};

/// So many pairs of readings tell what one costs.
const READINGS: usize = 10_001;

/// A point in time to measure from.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Nanoseconds since the start.
    pub fn ns(self) -> u64 {
        self.elapsed().as_nanos() as u64
    }

    /// The time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// What a pair of readings shows when nothing lies between them, in nanoseconds: it is taken off
/// each single measurement.
pub fn overhead_ns() -> u64 {
    let mut readings: Vec<u64> = (0..READINGS).map(|_| Stopwatch::start().ns()).collect();
    readings.sort_unstable();
    readings[READINGS / 2]
}

/// Waits, for something that tells nobody when it is done.
pub fn pause(time: Duration) {
    let begun = Stopwatch::start();
    // A thread may wake up early.
    while let Some(left) = time.checked_sub(begun.elapsed()) {
        std::thread::park_timeout(left);
    }
}
