//! The figures that the simulation and the measurement have in common.

use serde::Serialize;

use nearprint::cli::columns::Column;
use nearprint::cli::measure::numbers::{count, float, number, ratio};

/// The entries that background work wrote.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    /// Into segments, by flushes.
    pub(super) flushed: u64,
    /// Into segments, by merges.
    pub(super) merged: u64,
    /// Into secondary tables.
    pub(super) in_tables: u64,
}

impl Written {
    /// The entries written into segments for each inserted one.
    pub(super) fn amplification(self, inserted: u64) -> f64 {
        ratio(self.flushed + self.merged, inserted)
    }
}

/// The figures of an index that grew to a size.
#[derive(Debug)]
pub(super) struct Figures {
    /// Simulated or measured.
    pub(super) how: &'static str,
    /// The fingerprints inserted.
    pub(super) count: u64,
    /// Written when the last merge under load ended.
    pub(super) loaded: Written,
    /// Written when the idle index was merged as far as it goes.
    pub(super) settled: Written,
    /// The segments that a look-up visits, on average over all flushes.
    pub(super) segments_mean: f64,
    /// The most after any flush.
    pub(super) segments_most: u64,
    /// The most memory of levels, deltas and the results of running merges, if it is known.
    pub(super) peak_bytes: Option<f64>,
    /// The time until the last merge under load ended.
    pub(super) seconds: f64,
}

impl Figures {
    /// The figures of a size, from the number of segments after each flush.
    pub(super) fn new(count: u64, visited: &[u64]) -> Self {
        Self {
            how: "",
            count,
            loaded: Written::default(),
            settled: Written::default(),
            segments_mean: ratio(visited.iter().sum(), visited.len() as u64),
            segments_most: visited.iter().copied().max().unwrap_or_default(),
            peak_bytes: None,
            seconds: 0.0,
        }
    }

    /// A row of the report.
    pub(super) fn row(&self) -> Row {
        let Self { how, count, loaded, settled, segments_mean, segments_most, .. } = *self;
        Row {
            count,
            how,
            write_amplification: loaded.amplification(count),
            write_amplification_settled: settled.amplification(count),
            table_write_amplification: ratio(loaded.in_tables, count),
            table_write_amplification_settled: ratio(settled.in_tables, count),
            segments_mean,
            segments_most,
            peak_bytes_a_fingerprint: self.peak_bytes.map(|bytes| bytes / float(count)),
            seconds: self.seconds,
        }
    }
}

/// The figures of a size as they are reported: entries written for each one that was inserted, and
/// bytes a fingerprint.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    count: u64,
    how: &'static str,
    write_amplification: f64,
    write_amplification_settled: f64,
    table_write_amplification: f64,
    table_write_amplification_settled: f64,
    segments_mean: f64,
    segments_most: u64,
    peak_bytes_a_fingerprint: Option<f64>,
    seconds: f64,
}

pub(super) const COLUMNS: &[Column<Row>] = &[
    ("count", |row| count(row.count)),
    ("", |row| row.how.to_owned()),
    ("write amplification", |row| number(row.write_amplification)),
    ("settled", |row| number(row.write_amplification_settled)),
    ("secondary tables", |row| number(row.table_write_amplification)),
    ("settled", |row| number(row.table_write_amplification_settled)),
    ("segments, mean", |row| number(row.segments_mean)),
    ("most", |row| row.segments_most.to_string()),
    ("peak B/fp", |row| row.peak_bytes_a_fingerprint.map_or(String::new(), number)),
    ("seconds", |row| number(row.seconds)),
];
