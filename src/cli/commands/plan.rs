//! `plan`: estimates the memory and latency of an index of a given size.
//!
//! The model is [`nearprint_index::cost`]. It takes the cost of cache lines as measured on this
//! machine, or with `--no-measure` on the machine that nearprint was developed on. nearprint's
//! choice of tables does not depend on the size ([`nearprint_index::plan`] says why), so it is
//! listed with the alternatives that would be exact as well, and a note says if the model prefers
//! one of them.

use std::fmt;
use std::io::Write;

use anyhow::Result;
use nearprint_fingerprint::Distance;
use nearprint_index::compaction::policy;
use nearprint_index::cost::{self, Costs, Estimate};
use nearprint_index::plan::{Plan, Plans, SMALL_MAX};
use serde::Serialize;

use crate::cli::columns::{Column, table};
use crate::cli::measure::arguments::{count as whole_count, distance};
use crate::cli::measure::limits::{self, Limit};
use crate::cli::measure::numbers::{bytes, count, float, number, time};

/// The largest count that is estimated: eight thousand of the largest processes.
const COUNT_MAX: u64 = 1_000_000_000_000;

/// The largest array that is measured; larger ones are extrapolated.
const MEASURED_BYTES_MAX: u64 = 1 << 30;

const EXAMPLES: &str = "\
Examples:
  nearprint plan --count 1e9 --memory 32GiB
  nearprint plan --count 10m --distance 6 --no-measure";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    /// How many fingerprints will be stored: 250, 10k, 1m, 1e9
    #[arg(long, value_name = "COUNT", value_parser = parsed_count)]
    count: u64,
    /// The largest distance of a look-up
    #[arg(long, value_name = "BITS", default_value = "3", value_parser = distance)]
    distance: Distance,
    /// The memory that one process may take: 32GiB, 512MB, or bytes
    #[arg(long, value_name = "BYTES", value_parser = parsed_bytes)]
    memory: Option<u64>,
    /// Do not measure this machine: assume a core of an AMD EPYC (Zen 4)
    #[arg(long)]
    no_measure: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &PlanArgs, out: &mut dyn Write) -> Result<()> {
    let answer = Answer::of(args);
    if args.json {
        writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    } else {
        write!(out, "{answer}")?;
    }
    Ok(())
}

#[derive(Debug, Serialize)]
struct Answer {
    count: u64,
    distance: u8,
    memory_bytes: Option<u64>,
    /// The speed of this machine's memory; empty if it was not measured.
    limits: Vec<Limit>,
    /// The plan of an index of nearprint.
    choice: String,
    /// The quickest plan that fits; `None` if none does.
    best: Option<String>,
    /// The choice first.
    plans: Vec<Row>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    plan: String,
    tables: usize,
    cells: f64,
    lines: f64,
    bytes: u64,
    /// With the memory that a merge of everything needs in addition.
    merging_bytes: u64,
    bytes_a_fingerprint: f64,
    /// The bytes that a document with a sketch takes in addition.
    bytes_a_sketch: f64,
    single_ns: f64,
    batch_ns: f64,
    /// It fits in the memory, if there is a limit, and in a segment.
    fits: bool,
    is_choice: bool,
    is_best: bool,
}

impl Answer {
    fn of(args: &PlanArgs) -> Self {
        let limits = if args.no_measure { Vec::new() } else { measured(args) };
        let costs = if limits.is_empty() { Costs::default() } else { limits::costs(&limits) };
        let choice = Plans::of(args.distance).for_count(args.count).clone();
        let others = cost::alternatives(args.distance).into_iter().filter(|plan| *plan != choice);
        let mut rows: Vec<Row> = vec![Row::of(&choice, args, &costs)];
        rows.extend(others.map(|plan| Row::of(&plan, args, &costs)));
        rows[0].is_choice = true;
        let fitting = rows.iter_mut().filter(|row| row.fits);
        let best = fitting.min_by(|a, b| a.single_ns.total_cmp(&b.single_ns)).map(|row| {
            row.is_best = true;
            row.plan.clone()
        });
        Self {
            count: args.count,
            distance: args.distance.get(),
            memory_bytes: args.memory,
            limits,
            choice: rows[0].plan.clone(),
            best,
            notes: notes(args, &rows),
            plans: rows,
        }
    }
}

/// The limits of this machine for an index as large as the choice.
fn measured(args: &PlanArgs) -> Vec<Limit> {
    let plans = Plans::of(args.distance);
    let estimate =
        Estimate::of(plans.for_count(args.count), args.count, args.distance, &Costs::default());
    let all = whole(estimate.table_bytes * float(args.count));
    say!("measuring the memory of this machine; --no-measure skips it");
    limits::measure(&[all.min(MEASURED_BYTES_MAX)])
}

impl Row {
    fn of(plan: &Plan, args: &PlanArgs, costs: &Costs) -> Self {
        let estimate = Estimate::of(plan, args.count, args.distance, costs);
        let bytes = whole(estimate.bytes() * float(args.count));
        let merging_bytes = bytes + whole(estimate.merging_bytes * float(args.count));
        let in_memory = args.memory.is_none_or(|memory| merging_bytes <= memory);
        Self {
            plan: plan.to_string(),
            tables: plan.tables().len(),
            cells: estimate.cells,
            lines: estimate.lines(),
            bytes,
            merging_bytes,
            bytes_a_fingerprint: estimate.bytes(),
            bytes_a_sketch: estimate.sample_bytes,
            single_ns: estimate.single_ns,
            batch_ns: estimate.batch_ns,
            fits: in_memory && estimate.fits_a_segment(),
            is_choice: false,
            is_best: false,
        }
    }

    fn remark(&self) -> String {
        let remarks = [
            (self.is_choice, "nearprint builds this"),
            (self.is_best, "quickest"),
            (!self.fits, "does not fit"),
        ];
        let said: Vec<&str> = remarks.iter().filter(|(is, _)| *is).map(|(_, said)| *said).collect();
        said.join(", ")
    }
}

/// Notes on the figures.
fn notes(args: &PlanArgs, rows: &[Row]) -> Vec<String> {
    let mut notes = Vec::new();
    let (chosen, most) = (&rows[0], policy::MERGED_MAX);
    let smallest = rows.iter().min_by_key(|row| row.merging_bytes).unwrap_or(chosen);
    if args.count > most {
        notes.push(format!(
            "merges make segments of at most {} fingerprints: {} are {} segments, and a look-up \
             visits each; the figures are those of a single one, if it could be",
            count(most),
            count(args.count),
            args.count.div_ceil(most),
        ));
    }
    if let Some(memory) = args.memory.filter(|&memory| chosen.merging_bytes > memory) {
        notes.push(format!(
            "{} are too little for what nearprint builds, which needs {} while it merges; the \
             smallest of these plans needs {}",
            bytes(memory),
            bytes(chosen.merging_bytes),
            bytes(smallest.merging_bytes),
        ));
    }
    if let Some(best) = rows.iter().find(|row| row.is_best && !row.is_choice) {
        notes.push(format!(
            "by this model {} would be better here; nearprint builds {} for any segment of more than \
             {} fingerprints, since these merge in one pass only where all have the same tables in \
             the same orders",
            best.plan, chosen.plan, count(SMALL_MAX),
        ));
    }
    let crowding = cost::crowding(Plans::of(args.distance).for_count(args.count));
    notes.push(format!(
        "times: for random fingerprints; with those of texts, a look-up takes about {} times as \
         long in the tables that nearprint builds",
        number(crowding),
    ));
    notes.push(format!(
        "memory: tables and postings of bare fingerprints in one segment; a document with an id takes \
         16 bytes more, one with a sketch {}; while merging: at most, when all tables are written \
         anew",
        number(chosen.bytes_a_sketch),
    ));
    notes
}

/// Reads `250`, `10k`, `1m`, `1g` or `1e9`.
fn parsed_count(text: &str) -> Result<u64, String> {
    let scientific = text.to_ascii_lowercase().split_once('e').and_then(|(digits, exponent)| {
        let (digits, exponent): (u64, u32) = (digits.parse().ok()?, exponent.parse().ok()?);
        digits.checked_mul(10_u64.checked_pow(exponent)?)
    });
    let counted = scientific.map_or_else(|| whole_count(text), Ok)?;
    let sensible = (1..=COUNT_MAX).contains(&counted).then_some(counted);
    sensible.ok_or_else(|| format!("is not a size of 1 to {}", count(COUNT_MAX)))
}

/// Reads `32GiB`, `512MB` or a number of bytes.
fn parsed_bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 9] = [
        ("tib", 1 << 40),
        ("gib", 1 << 30),
        ("mib", 1 << 20),
        ("kib", 1 << 10),
        ("tb", 1_000_000_000_000),
        ("gb", 1_000_000_000),
        ("mb", 1_000_000),
        ("kb", 1_000),
        ("b", 1),
    ];
    let lower = text.trim().to_ascii_lowercase();
    let with_unit = UNITS.iter().find_map(|(unit, size)| Some((lower.strip_suffix(unit)?, *size)));
    let (digits, unit) = with_unit.unwrap_or((&lower, 1));
    let number: Option<u64> = digits.trim_end().parse().ok();
    let read = number.and_then(|number| number.checked_mul(unit)).filter(|&bytes| bytes > 0);
    read.ok_or_else(|| "is not a size such as 32GiB, 512MB or a number of bytes".to_owned())
}

#[expect(clippy::cast_sign_loss, reason = "memory is not negative")]
fn whole(bytes: f64) -> u64 {
    bytes.ceil() as u64
}

const COLUMNS: &[Column<Row>] = &[
    ("tables", |row| row.plan.clone()),
    ("cells", |row| number(row.cells)),
    ("lines", |row| number(row.lines)),
    ("memory", |row| bytes(row.bytes)),
    ("while merging", |row| bytes(row.merging_bytes)),
    ("B/fingerprint", |row| number(row.bytes_a_fingerprint)),
    ("a look-up", |row| time(row.single_ns)),
    ("in a batch", |row| time(row.batch_ns)),
    ("", Row::remark),
];

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = if self.limits.is_empty() {
            "an AMD EPYC (Zen 4), not measured here"
        } else {
            "this machine, measured"
        };
        writeln!(f, "{} fingerprints at distance {}", count(self.count), self.distance)?;
        if let Some(memory) = self.memory_bytes {
            writeln!(f, "memory: {}", bytes(memory))?;
        }
        writeln!(f, "times: one core of {machine}\n")?;
        f.write_str(&table(COLUMNS, &self.plans))?;
        writeln!(f, "\ntables        key bits, r and the search radius; f: folded, b: in buckets")?;
        for note in &self.notes {
            writeln!(f, "note          {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(count: u64, bits: u8, memory: Option<u64>) -> PlanArgs {
        let distance = Distance::new(bits).unwrap();
        PlanArgs { count, distance, memory, no_measure: true, json: false }
    }

    #[test]
    fn counts_and_sizes_are_read_with_their_units() {
        let counts = [("250", 250), ("10k", 10_000), ("1e9", 1_000_000_000), ("25E7", 250_000_000)];
        for (text, read) in counts {
            assert_eq!(parsed_count(text), Ok(read), "{text}");
        }
        for text in ["", "0", "1e13", "1e99", "e9", "1.5e9", "-1"] {
            assert!(parsed_count(text).is_err(), "{text}");
        }
        let sizes = [("32GiB", 32 << 30), ("512MB", 512_000_000), ("7", 7), ("1 tib", 1 << 40)];
        for (text, read) in sizes {
            assert_eq!(parsed_bytes(text), Ok(read), "{text}");
        }
        for text in ["", "GiB", "0", "-1GB", "1.5GiB", "99999999TiB"] {
            assert!(parsed_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_best_is_the_quickest_of_those_that_fit() {
        let free = Answer::of(&args(100_000_000, 3, None));
        let best = free.plans.iter().find(|row| row.is_best).unwrap();
        assert!(free.plans.iter().all(|row| row.single_ns >= best.single_ns));
        assert!(free.plans[0].is_choice && free.choice == "32r1f+32r1f");

        let tight = Answer::of(&args(100_000_000, 3, Some(2_500_000_000)));
        assert!(tight.plans.iter().any(|row| row.is_best && row.merging_bytes <= 2_500_000_000));
        assert_ne!(tight.best.as_ref(), Some(&tight.choice));
        let said = tight.to_string();
        assert!(said.contains("about 5.40 times as long"), "{said}");
        assert!(said.contains("are too little for what nearprint builds"), "{said}");
        assert!(said.contains("in the same orders"), "{said}");
    }

    #[test]
    fn what_fits_nowhere_is_said_with_what_it_needs() {
        let none = Answer::of(&args(100_000_000, 3, Some(1_000_000)));
        assert_eq!(none.best, None);
        assert!(none.to_string().contains("the smallest of these plans needs"));
        let many = Answer::of(&args(20_000_000_000, 3, None));
        assert_eq!(many.best, None);
        let said = many.to_string();
        assert!(said.contains("merges make segments of at most"), "{said}");
        assert!(said.contains("are 20 segments"), "{said}");
    }
}
