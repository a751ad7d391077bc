//! `nearprint-bench compaction`: what the compaction policy costs while an index grows.
//!
//! A simulation and a real index, each with the same figures: write amplification (entries written
//! for each inserted one), the segments that a look-up visits, and memory at its peak.

mod figures;
mod measurement;
mod simulation;

use std::fmt;
use std::io::Write;

use anyhow::Result;
use figures::{COLUMNS, Figures, Row};
use nearprint::cli::columns::{Column, table};
use nearprint::cli::measure::arguments::{count, distance};
use nearprint::cli::measure::numbers;
use nearprint_fingerprint::Distance;
use nearprint_index::plan::Plans;
use serde::Serialize;
use simulation::{Rates, Setup};

use crate::data::Stored;
use crate::machine::Machine;

/// The arguments of `bench compaction`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// How many inserts are simulated
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "3k,10k,30k,100k,300k,1m,3m,10m,30m,100m",
        value_parser = count
    )]
    count: Vec<u64>,
    /// How many inserts are measured on a real index
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "1m,10m",
        value_parser = count
    )]
    measured_count: Vec<u64>,
    /// The largest distance of the index
    #[arg(long, value_name = "BITS", default_value = "3", value_parser = distance)]
    distance: Distance,
    /// How many events a delta has
    #[arg(long, value_name = "N", default_value = "32768", value_parser = count)]
    delta_events: u64,
    #[command(flatten)]
    rates: Rates,
    /// The seed of the measured fingerprints
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Compaction {
    bench: &'static str,
    version: &'static str,
    machine: Machine,
    rates: Vec<RatesOf>,
    results: Vec<Row>,
}

/// The rates of the simulation, or of a measurement.
#[derive(Debug, Serialize)]
struct RatesOf {
    of: String,
    rates: Rates,
}

/// Simulates and measures, and prints the results.
pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let setup = Setup {
        rates: args.rates,
        delta_events: args.delta_events,
        secondary_tables: Plans::of(args.distance).large.tables().len() - 1,
        merges: true,
    };
    let mut figures: Vec<_> =
        args.count.iter().map(|&count| simulation::simulate(&setup, count)).collect();
    let mut rates = vec![RatesOf { of: "simulated".to_owned(), rates: args.rates }];
    for &count in &args.measured_count {
        let stored = Stored::random(count, args.seed);
        let (measured, of_count) = measurement::measure(&setup, args.distance, &stored);
        figures.push(measured);
        let of = format!("measured, {}", numbers::count(count));
        rates.push(RatesOf { of, rates: of_count });
    }
    figures.sort_by_key(|figures| figures.count);
    let compaction = Compaction {
        bench: "compaction",
        version: env!("CARGO_PKG_VERSION"),
        machine: Machine::this(),
        rates,
        results: figures.iter().map(Figures::row).collect(),
    };
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&compaction)?)?;
    } else {
        write!(out, "{compaction}")?;
    }
    Ok(())
}

const RATE_COLUMNS: &[Column<RatesOf>] = &[
    ("ns an entry", |row| row.of.clone()),
    ("insert", |row| row.rates.insert_ns.to_string()),
    ("flush", |row| row.rates.flush_ns.to_string()),
    ("small merge", |row| row.rates.small_merge_ns.to_string()),
    ("promotion", |row| row.rates.promotion_ns.to_string()),
    ("large merge", |row| row.rates.large_merge_ns.to_string()),
    ("secondary tables", |row| row.rates.table_ns.to_string()),
];

impl fmt::Display for Compaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", table(COLUMNS, &self.results))?;
        writeln!(f)?;
        write!(f, "{}", table(RATE_COLUMNS, &self.rates))?;
        let Machine { cpu, cores, .. } = &self.machine;
        writeln!(f, "machine       {cpu}, cores: {cores}")
    }
}
