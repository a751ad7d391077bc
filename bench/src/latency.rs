//! Many short times as a histogram: any quantile within 1 %.

use histogram::Histogram;

/// Buckets of 2^7 to each doubling: a width below 1 %.
const GROUPING_POWER: u8 = 7;
/// Times up to 2^42 ns, more than an hour.
const MAX_POWER: u8 = 42;

/// A histogram of times in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Latencies {
    histogram: Histogram,
    count: u64,
    sum_ns: u128,
}

impl Latencies {
    pub(super) fn new() -> Self {
        let histogram =
            Histogram::new(GROUPING_POWER, MAX_POWER).expect("the powers are constants");
        Self { histogram, count: 0, sum_ns: 0 }
    }

    /// Adds a time; one that is too long counts as the longest.
    pub(super) fn record(&mut self, ns: u64) {
        let ns = ns.min((1 << MAX_POWER) - 1);
        self.histogram.increment(ns).expect("it is within the bounds");
        self.count += 1;
        self.sum_ns += u128::from(ns);
    }

    /// Adds the times that another thread recorded.
    pub(super) fn add(&mut self, other: &Self) {
        self.histogram.checked_add_assign(&other.histogram).expect("all have the same bounds");
        self.count += other.count;
        self.sum_ns += other.sum_ns;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The mean in nanoseconds; `None` without times.
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    pub(super) fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// The time that a part of all (0 to 1) does not exceed; `None` without times.
    pub(super) fn quantile_ns(&self, part: f64) -> Option<u64> {
        let bucket = self.histogram.quantile_bucket(part).expect("a part is 0 to 1");
        bucket.map(|bucket| bucket.end())
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
