//! The report of a benchmark: one table for people, or one JSON object with the same figures.

use std::fmt;

use nearprint::cli::columns::{Column, table};
use nearprint::cli::measure::numbers::{bytes, count, float, number, time};
use nearprint_fingerprint::Distance;
use serde::Serialize;
use serde_json::Value;

use crate::latency::Latencies;
use crate::limits::Limit;
use crate::machine::Machine;
use crate::verify::Verdict;

/// The results of a benchmark.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Its name on the command line.
    pub(super) bench: &'static str,
    version: &'static str,
    /// The seed, which repeats the run.
    pub(super) seed: u64,
    machine: Machine,
    /// The speed of the memory.
    pub(super) limits: Vec<Limit>,
    /// The times.
    pub(super) results: Vec<Row>,
    /// Other results.
    pub(super) facts: Vec<Fact>,
    /// Whether the answers were right; `None` where there are none.
    pub(super) verification: Option<Verdict>,
    /// How some of it was measured.
    pub(super) notes: &'static [&'static str],
}

/// One thing that was timed.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Row {
    /// The operation.
    pub(super) what: String,
    /// On how many stored fingerprints, or generated documents.
    pub(super) count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) distance: Option<u8>,
    /// What `per_second` counts.
    pub(super) unit: &'static str,
    pub(super) per_second: f64,
    /// The same in 10^6 bytes of input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) megabytes_per_second: Option<f64>,
    /// The operation that the times belong to.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) times_of: &'static str,
    /// The mean time of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mean_ns: Option<f64>,
    /// The same, counting only the time that the thread had a core.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cpu_ns: Option<f64>,
    /// Half of them took no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p50_ns: Option<u64>,
    /// All but one in a hundred took no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p99_ns: Option<u64>,
    /// All but one in a thousand took no longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p999_ns: Option<u64>,
    /// None took longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_ns: Option<u64>,
    /// Memory of the index for each fingerprint, as its segments report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) index_bytes_a_fingerprint: Option<f64>,
    /// Resident memory of the process for each fingerprint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resident_bytes_a_fingerprint: Option<f64>,
}

impl Row {
    /// A row about `count` stored fingerprints or documents.
    pub(super) fn new(what: impl Into<String>, count: u64) -> Self {
        Self { what: what.into(), count, ..Self::default() }
    }

    pub(super) fn at(self, distance: Distance) -> Self {
        Self { distance: Some(distance.get()), ..self }
    }

    pub(super) fn rate(self, per_second: f64, unit: &'static str) -> Self {
        Self { unit, per_second, ..self }
    }

    /// With the mean and the quantiles of measured times.
    pub(super) fn times(self, times: &Latencies, times_of: &'static str) -> Self {
        Self { mean_ns: times.mean_ns(), ..self.quantiles(times, times_of) }
    }

    /// With the quantiles of measured times; the mean is known better.
    pub(super) fn quantiles(self, times: &Latencies, times_of: &'static str) -> Self {
        Self {
            times_of,
            p50_ns: times.quantile_ns(0.5),
            p99_ns: times.quantile_ns(0.99),
            p999_ns: times.quantile_ns(0.999),
            max_ns: times.quantile_ns(1.0),
            ..self
        }
    }
}

/// A result that is not a time.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Fact {
    pub(super) what: String,
    /// The number of stored fingerprints.
    pub(super) count: u64,
    /// A number or a text.
    pub(super) value: Value,
    /// Its unit; empty for a text.
    pub(super) unit: &'static str,
}

impl Fact {
    pub(super) fn number(
        what: impl Into<String>,
        count: u64,
        value: f64,
        unit: &'static str,
    ) -> Self {
        Self { what: what.into(), count, value: value.into(), unit }
    }

    pub(super) fn text(what: impl Into<String>, count: u64, value: String) -> Self {
        Self { what: what.into(), count, value: value.into(), unit: "" }
    }
}

impl Report {
    pub(super) fn new(bench: &'static str, seed: u64) -> Self {
        Self {
            bench,
            version: env!("CARGO_PKG_VERSION"),
            seed,
            machine: Machine::this(),
            limits: Vec::new(),
            results: Vec::new(),
            facts: Vec::new(),
            verification: None,
            notes: &[],
        }
    }

    /// Adds what became of some answers.
    pub(super) fn verified(&mut self, verdict: Verdict) {
        self.verification.get_or_insert_default().add(verdict);
    }

    /// The report as one line of JSON.
    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("names, texts and numbers are JSON")
    }
}

const RESULT_COLUMNS: &[Column<Row>] = &[
    ("what", |row| row.what.clone()),
    ("count", |row| count(row.count)),
    ("distance", |row| row.distance.map_or(String::new(), |bits| bits.to_string())),
    ("a second", |row| format!("{} {}", number(row.per_second), row.unit)),
    ("MB/s", |row| shown(row.megabytes_per_second, number)),
    ("mean", |row| shown(row.mean_ns, time)),
    ("of it CPU", |row| shown(row.cpu_ns, time)),
    ("p50", |row| shown(row.p50_ns.map(float), time)),
    ("p99", |row| shown(row.p99_ns.map(float), time)),
    ("p99.9", |row| shown(row.p999_ns.map(float), time)),
    ("times of", |row| row.times_of.to_owned()),
    ("index B/fp", |row| shown(row.index_bytes_a_fingerprint, number)),
    ("resident B/fp", |row| shown(row.resident_bytes_a_fingerprint, number)),
];

const FACT_COLUMNS: &[Column<Fact>] = &[
    ("also", |fact| fact.what.clone()),
    ("count", |fact| count(fact.count)),
    ("", |fact| match fact.value.as_f64() {
        Some(value) => format!("{} {}", number(value), fact.unit),
        None => fact.value.as_str().unwrap_or_default().to_owned(),
    }),
];

const LIMIT_COLUMNS: &[Column<Limit>] = &[
    ("memory of this machine", |limit| bytes(limit.array_bytes)),
    ("on 2 MiB pages", |limit| {
        shown(limit.huge_pages, |part| format!("{} %", number(part * 100.0)))
    }),
    ("a random line", |limit| time_exactly(limit.independent_line_ns)),
    ("if prefetched", |limit| time_exactly(limit.prefetched_line_ns)),
    ("and the next", |limit| time_exactly(limit.next_line_ns)),
    ("if dependent", |limit| time_exactly(limit.dependent_line_ns)),
    ("in sequence", |limit| format!("{} GB/s", number(limit.sequential_gb_s))),
];

fn shown(value: Option<f64>, show: impl FnOnce(f64) -> String) -> String {
    value.map_or(String::new(), show)
}

fn time_exactly(ns: f64) -> String {
    format!("{} ns", number(ns))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&table(RESULT_COLUMNS, &self.results))?;
        if !self.facts.is_empty() {
            writeln!(f)?;
            f.write_str(&table(FACT_COLUMNS, &self.facts))?;
        }
        writeln!(f)?;
        f.write_str(&table(LIMIT_COLUMNS, &self.limits))?;
        let Machine { cpu, features, instruction_set, cores } = &self.machine;
        writeln!(f, "\nmachine       {cpu}, cores: {cores}, features: {}", features.join(" "))?;
        writeln!(f, "instructions  {instruction_set}")?;
        writeln!(f, "repeat it by  --seed {}, nearprint {}", self.seed, self.version)?;
        if let Some(Verdict { checked, hits, missed, wrong }) = self.verification {
            writeln!(
                f,
                "verified      {checked} answers, {hits} hits: {missed} missed, {wrong} false"
            )?;
        }
        for note in self.notes {
            writeln!(f, "note          {note}")?;
        }
        Ok(())
    }
}
