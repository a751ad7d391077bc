//! `nearprint-bench read`: how fast the readers of imports are alone, file by file.
//!
//! Reads each file to its end on one thread and drops the documents. Bytes are those on disk, so
//! that of a compressed file the rate is that of its compressed bytes.

use std::hint::black_box;
use std::path::PathBuf;

use anyhow::{Context, Result};
use nearprint::cli::measure::numbers::per_second;
use nearprint_files::{Documents, Format, ReadOptions};

use crate::clock::Stopwatch;
use crate::progress::Progress;
use crate::report::{Report, Row};

/// The arguments of `bench read`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The files, each of which is measured by itself
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Their format, whatever their names and first bytes say
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) fn run(args: &Args) -> Result<Report> {
    let mut report = Report::new("read", 0);
    for file in &args.files {
        report.results.push(measure(file.clone(), args.format)?);
    }
    Ok(report)
}

fn measure(file: PathBuf, format: Option<Format>) -> Result<Row> {
    let name = file.display().to_string();
    let _progress = Progress::during(&name);
    let options = ReadOptions { format, ..ReadOptions::default() };
    let bytes = file.metadata().with_context(|| format!("cannot read {name}"))?.len();
    let begun = Stopwatch::start();
    let mut count = 0;
    for document in Documents::new(vec![file], options) {
        black_box(document.with_context(|| format!("cannot read {name}"))?);
        count += 1;
    }
    let ns = begun.ns();
    let row = Row::new(name, count).rate(per_second(count, ns), "documents");
    Ok(Row { megabytes_per_second: Some(per_second(bytes, ns) / 1e6), ..row })
}
