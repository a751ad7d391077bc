//! `plan`: estimates the memory of an index of a given size.
//!
//! The estimate is [`nearprint_index::estimate`], which follows from the tables that nearprint
//! builds; [`nearprint_index::plan`] explains their choice.

use std::fmt;
use std::io::Write;

use anyhow::Result;
use nearprint_fingerprint::Distance;
use nearprint_index::compaction::policy;
use nearprint_index::estimate::MemoryEstimate;
use nearprint_index::plan::Plans;
use serde::Serialize;

use crate::cli::measure::arguments::{count as whole_count, distance};
use crate::cli::measure::numbers::{bytes, count, float, number};

/// The largest count that is estimated: eight thousand of the largest processes.
const COUNT_MAX: u64 = 1_000_000_000_000;

const EXAMPLES: &str = "\
Examples:
  nearprint plan --count 1e9 --memory 32GiB
  nearprint plan --count 10m --distance 6";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    /// How many pages or fingerprints will be stored: 250, 10k, 1m, 1e9
    #[arg(long, value_name = "COUNT", value_parser = parsed_count)]
    count: u64,
    /// The largest distance of a look-up
    #[arg(long, value_name = "BITS", default_value = "3", value_parser = distance)]
    distance: Distance,
    /// The memory that one process may take: 32GiB, 512MB, or bytes
    #[arg(long, value_name = "BYTES", value_parser = parsed_bytes)]
    memory: Option<u64>,
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
    /// The plan of the tables.
    plan: String,
    /// Of pages with id, sketch and labels.
    pages: Memory,
    /// Of bare fingerprints.
    fingerprints: Memory,
    /// What a page takes in addition to its fingerprint, in bytes.
    bytes_a_sketch: f64,
    bytes_an_id: f64,
    bytes_of_labels: f64,
    notes: Vec<String>,
}

/// The memory of documents of one kind.
#[derive(Debug, Serialize)]
struct Memory {
    bytes: u64,
    /// With the memory that a merge of everything needs in addition.
    merging_bytes: u64,
    bytes_each: f64,
    /// What stays in memory where the index is in files (`engine.index_memory_bytes_max`).
    in_files_bytes: u64,
    in_files_bytes_each: f64,
    /// It fits in the memory, if there is a limit.
    fits: bool,
}

impl Memory {
    fn of(args: &PlanArgs, (each, merging): (f64, f64), in_files: f64) -> Self {
        let bytes = whole(each * float(args.count));
        let in_files_bytes = whole(in_files * float(args.count));
        let merging_bytes = bytes + whole(merging * float(args.count));
        let fits = args.memory.is_none_or(|memory| merging_bytes <= memory);
        Self {
            bytes,
            merging_bytes,
            bytes_each: each,
            in_files_bytes,
            in_files_bytes_each: in_files,
            fits,
        }
    }
}

impl Answer {
    fn of(args: &PlanArgs) -> Self {
        let plans = Plans::of(args.distance);
        let plan = plans.for_count(args.count);
        let estimate = MemoryEstimate::of(plan, args.count);
        let (each, merging, more) = (estimate.bytes(), estimate.merging, estimate.of_page());
        let mut answer = Self {
            count: args.count,
            distance: args.distance.get(),
            memory_bytes: args.memory,
            plan: plan.to_string(),
            pages: Memory::of(
                args,
                (each + more, merging + more),
                estimate.in_files + estimate.page_in_files,
            ),
            fingerprints: Memory::of(args, (each, merging), estimate.in_files),
            bytes_a_sketch: estimate.sample,
            bytes_an_id: estimate.id,
            bytes_of_labels: estimate.labels,
            notes: Vec::new(),
        };
        answer.notes = answer.notes();
        answer
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let most = policy::MERGED_MAX;
        if self.count > most {
            notes.push(format!(
                "merges make segments of at most {} fingerprints: {} are {} segments, and a look-up \
                 visits each; the figures assume a single one",
                count(most),
                count(self.count),
                self.count.div_ceil(most),
            ));
        }
        for (what, memory) in [("pages", &self.pages), ("fingerprints", &self.fingerprints)] {
            if let Some(limit) = self.memory_bytes.filter(|_| !memory.fits) {
                notes.push(format!(
                    "{} are too little for these {what}, which need {} while they are merged; what \
                     does not fit is read in files (engine.index_memory_bytes_max)",
                    bytes(limit),
                    bytes(memory.merging_bytes),
                ));
            }
        }
        notes.push(format!(
            "a page: its fingerprint and posting {}, a sample of its sketch {}, its id {}, labels {} \
             bytes (none where data.search is exact); while merging: at most, when all is written \
             anew",
            number(self.fingerprints.bytes_each),
            number(self.bytes_a_sketch),
            number(self.bytes_an_id),
            number(self.bytes_of_labels),
        ));
        notes
    }
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

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, a, memory) in [
            ("pages with ids and sketches", "page", &self.pages),
            ("bare fingerprints", "fingerprint", &self.fingerprints),
        ] {
            writeln!(f, "{} {what} at distance {}", count(self.count), self.distance)?;
            let each = number(memory.bytes_each);
            writeln!(f, "  memory         {}, {each} bytes a {a}", bytes(memory.bytes))?;
            let fits = match self.memory_bytes {
                Some(limit) if memory.fits => format!(", which fits in {}", bytes(limit)),
                Some(limit) => format!(", which does not fit in {}", bytes(limit)),
                None => String::new(),
            };
            writeln!(f, "  while merging  {}{fits}", bytes(memory.merging_bytes))?;
            let (left, each) = (bytes(memory.in_files_bytes), memory.in_files_bytes_each);
            writeln!(f, "  in files       {left} stay in memory, {} bytes a {a}\n", number(each))?;
        }
        let form = "key bits, r and the search radius; f: folded, b: in buckets";
        writeln!(f, "tables  {} ({form})\n", self.plan)?;
        for note in &self.notes {
            writeln!(f, "note    {note}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(count: u64, memory: Option<u64>) -> Answer {
        let distance = Distance::new(3).unwrap();
        Answer::of(&PlanArgs { count, distance, memory, json: false })
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
    fn what_does_not_fit_is_said_with_what_it_needs() {
        let free = answer(100_000_000, None);
        assert!(free.pages.fits && free.plan == "32r1f+32r1f" && free.notes.len() == 1);
        let needed = free.pages.merging_bytes;
        let small = answer(100_000_000, Some(needed - 1));
        assert!(!small.pages.fits && answer(100_000_000, Some(needed)).pages.fits);
        assert!(small.fingerprints.fits, "they need less");
        let said = small.to_string();
        assert!(said.contains("which does not fit in"), "{said}");
        assert!(said.contains("are too little for these pages"), "{said}");
        let said = answer(20_000_000_000, None).to_string();
        assert!(said.contains("merges make segments of at most"), "{said}");
        assert!(said.contains("are 5 segments"), "{said}");
    }
}
