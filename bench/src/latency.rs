//! Many short times as a histogram: any quantile within 1 %.

use hdrhistogram::Histogram;

/// The longest time that is recorded as it is: an hour.
const MAX_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits of a recorded time.
const DIGITS: u8 = 2;

/// A histogram of times in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Latencies(Histogram<u64>);

impl Latencies {
    pub(super) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, MAX_NS, DIGITS).expect("the bounds are constants"))
    }

    pub(super) fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns);
    }

    /// Adds the times that another thread recorded.
    pub(super) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all have the same bounds");
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    /// The mean in nanoseconds; `None` without times.
    pub(super) fn mean_ns(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.mean())
    }

    /// The time that a part of all (0 to 1) does not exceed; `None` without times.
    pub(super) fn quantile_ns(&self, part: f64) -> Option<u64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_all_threads_together() {
        let (mut even, mut odd) = (Latencies::new(), Latencies::new());
        assert_eq!((even.quantile_ns(0.5), even.mean_ns()), (None, None));
        for ns in 1..=100 {
            if ns % 2 == 0 { even.record(ns) } else { odd.record(ns) }
        }
        even.add(&odd);
        assert_eq!((even.count(), even.mean_ns()), (100, Some(50.5)));
        assert_eq!(even.quantile_ns(0.5), Some(50));
        assert_eq!(even.quantile_ns(0.99), Some(99));
        assert_eq!(even.quantile_ns(1.0), Some(100));
    }
}
