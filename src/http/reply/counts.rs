//! Counts hits and outcomes for the metrics.

use crate::engine::{Findings, WriteOutcome};
use crate::metrics;

/// Counts the listed hits by distance.
pub(crate) fn count_hits(findings: &Findings) {
    for hit in &findings.hits {
        metrics::hit(hit.distance.get());
    }
}

/// Counts one answered write.
pub(crate) fn count_outcome(outcome: WriteOutcome) {
    let outcome = match outcome {
        WriteOutcome::Inserted => metrics::WriteOutcome::Inserted,
        WriteOutcome::Duplicate => metrics::WriteOutcome::Duplicate,
        WriteOutcome::AlreadyPresent => metrics::WriteOutcome::AlreadyPresent,
        WriteOutcome::Replaced => metrics::WriteOutcome::Replaced,
    };
    metrics::written(outcome, 1);
}
