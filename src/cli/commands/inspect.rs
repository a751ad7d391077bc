//! `inspect`: the files of a stopped service's data directory, one line each.

use std::io::Write;

use anyhow::Result;
use nearprint_engine::open::offline::Finding;

use crate::cli::columns::{self, Column};
use crate::cli::offline::{self, bar, damage_report};

#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The files with the records: range of sequences, records, damage
    Journal(offline::Data),
    /// The files of each snapshot, with their sizes
    Snapshot(offline::Data),
}

pub(crate) fn run(args: &InspectArgs, out: &mut dyn Write) -> Result<()> {
    match &args.what {
        What::Journal(data) => journal(data, out),
        What::Snapshot(data) => snapshot(data, out),
    }
}

const COLUMNS: &[Column<Finding>] = &[
    ("file", |file| file.name.clone().unwrap_or_else(|| "(missing)".to_owned())),
    ("first", |file| file.first.to_string()),
    ("last", |file| file.next.saturating_sub(1).to_string()),
    ("changes kept", |file| file.changes.to_string()),
    ("bytes", |file| file.bytes.to_string()),
    ("lost", |file| match file.damage {
        Some(_) => file.lost.to_string(),
        None => String::new(),
    }),
];

/// The files of the journal as a table.
pub(crate) fn table(files: &[Finding]) -> String {
    columns::table(COLUMNS, files)
}

fn journal(data: &offline::Data, out: &mut dyn Write) -> Result<()> {
    let stopped = data.open()?;
    let progress = bar("reading records", stopped.bytes()?);
    let files = stopped.journal(&mut |bytes| progress.inc(bytes))?;
    progress.finish_and_clear();
    write!(out, "{}", table(&files))?;
    let damage: Vec<_> = files.iter().filter_map(|file| file.damage.as_ref()).collect();
    for error in &damage {
        writeln!(out, "{error}")?;
    }
    if damage.is_empty() {
        return Ok(());
    }
    Err(damage_report(data, offline::damaged_files(damage.len())).into())
}

fn snapshot(data: &offline::Data, out: &mut dyn Write) -> Result<()> {
    let stopped = data.open()?;
    for found in stopped.snapshots()? {
        match &found.manifest {
            Ok(info) => writeln!(
                out,
                "{}: {} documents up to change {}",
                found.name, info.documents, info.sequence
            )?,
            Err(error) => writeln!(out, "{}: {error}", found.name)?,
        }
        for (name, bytes) in &found.files {
            writeln!(out, "  {name}  {bytes}")?;
        }
    }
    Ok(())
}
