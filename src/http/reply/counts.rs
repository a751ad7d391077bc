//! Counts hits and outcomes for the metrics.

use nearprint_engine::{Findings, Verdict};

use crate::metrics;

/// Counts the listed hits by distance.
pub(crate) fn count_hits(findings: &Findings) {
    for hit in &findings.hits {
        metrics::hit(hit.distance.get());
    }
}

/// Counts one answered write.
pub(crate) fn count_verdict(verdict: Verdict) {
    let outcome = match verdict {
        Verdict::Inserted => metrics::WriteOutcome::Inserted,
        Verdict::Duplicate { .. } => metrics::WriteOutcome::Duplicate,
        Verdict::AlreadyPresent => metrics::WriteOutcome::AlreadyPresent,
        Verdict::Refreshed => metrics::WriteOutcome::Refreshed,
        Verdict::Replaced => metrics::WriteOutcome::Replaced,
    };
    metrics::written(outcome, 1);
}
