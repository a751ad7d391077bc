//! Many short times, kept as a histogram: any quantile within 1.6 %.
//!
//! Below 128 ns each nanosecond has a bucket, above it each power of two has 64 (as HDR histograms
//! do), so that recording costs a few instructions and no memory, whatever is recorded.

/// Buckets of a power of two.
const BUCKETS_OF_OCTAVE: u64 = 64;
/// Below it a bucket is one nanosecond wide.
const EXACT_BELOW: u64 = 2 * BUCKETS_OF_OCTAVE;
/// Enough for every `u64`.
const BUCKETS: u64 = EXACT_BELOW + 57 * BUCKETS_OF_OCTAVE;

/// A histogram of times in nanoseconds.
#[derive(Debug, Clone)]
pub(super) struct Latencies {
    buckets: Box<[u64]>,
    count: u64,
    sum: u64,
}

impl Latencies {
    /// Nothing recorded yet.
    pub(super) fn new() -> Self {
        Self { buckets: vec![0; BUCKETS as usize].into(), count: 0, sum: 0 }
    }

    /// Records a time.
    pub(super) fn record(&mut self, ns: u64) {
        self.buckets[bucket_of(ns) as usize] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(ns);
    }

    /// Adds what another thread recorded.
    pub(super) fn add(&mut self, other: &Self) {
        for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket += more;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// How many times were recorded.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The mean in nanoseconds; `None` of nothing.
    pub(super) fn mean_ns(&self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }

    /// The time that so many of a thousand do not exceed; `None` of nothing.
    pub(super) fn per_mille_ns(&self, per_mille: u64) -> Option<u64> {
        let rank = (self.count * per_mille).div_ceil(1_000).max(1);
        let mut seen = 0;
        (0..).zip(&self.buckets).find_map(|(bucket, &count)| {
            seen += count;
            (seen >= rank).then(|| middle_of(bucket))
        })
    }
}

fn bucket_of(ns: u64) -> u64 {
    if ns < EXACT_BELOW {
        return ns;
    }
    let octave = u64::from(ns.ilog2() - EXACT_BELOW.ilog2());
    // The leading one and the six bits behind it.
    let leading = ns >> (octave + 1);
    EXACT_BELOW + octave * BUCKETS_OF_OCTAVE + (leading - BUCKETS_OF_OCTAVE)
}

/// The middle of the times that fall into a bucket.
fn middle_of(bucket: u64) -> u64 {
    if bucket < EXACT_BELOW {
        return bucket;
    }
    let octave = (bucket - EXACT_BELOW) / BUCKETS_OF_OCTAVE;
    let leading = (bucket - EXACT_BELOW) % BUCKETS_OF_OCTAVE + BUCKETS_OF_OCTAVE;
    (leading << (octave + 1)) + (1 << octave)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_kept_within_two_percent() {
        for ns in (0..64).flat_map(|shift| [1, 3, 5, 7].map(|odd: u64| odd << shift >> 2)) {
            let kept = middle_of(bucket_of(ns));
            assert!(kept.abs_diff(ns) <= ns / 64, "{ns} became {kept}");
        }
        assert!(bucket_of(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let (mut even, mut odd) = (Latencies::new(), Latencies::new());
        assert_eq!((even.per_mille_ns(500), even.mean_ns()), (None, None));
        for ns in 1..=100 {
            if ns % 2 == 0 { even.record(ns) } else { odd.record(ns) }
        }
        even.add(&odd);
        assert_eq!((even.count(), even.mean_ns()), (100, Some(50)));
        assert_eq!(even.per_mille_ns(500), Some(50));
        assert_eq!(even.per_mille_ns(990), Some(99));
        assert_eq!(even.per_mille_ns(1_000), Some(100));
        assert_eq!(even.per_mille_ns(0), Some(1));
    }
}
