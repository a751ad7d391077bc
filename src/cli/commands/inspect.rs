//! `inspect`: the files of a stopped service's data directory, one line each.

use std::io::Write;

use anyhow::Result;
use nearprint_engine::open::offline::Finding;
use serde_json::{Value, json};

use crate::cli::columns::{self, Column, json_lines};
use crate::cli::commands::snapshot;
use crate::cli::offline::{self, bar, damage_report};

const EXAMPLES: &str = "\
Examples:
  nearprint inspect journal --data nearprint-data
  nearprint inspect snapshot --data nearprint-data --json";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The files with the records: range of sequences, records, damage
    #[command(after_help = EXAMPLES)]
    Journal(offline::ListingArgs),
    /// The files of each snapshot, with their sizes
    #[command(after_help = EXAMPLES)]
    Snapshot(offline::ListingArgs),
}

pub(crate) fn run(args: &InspectArgs, out: &mut dyn Write) -> Result<()> {
    match &args.what {
        What::Journal(listing) => journal(listing, out),
        What::Snapshot(listing) => snapshot(listing, out),
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

/// A file of the journal as a line of JSON.
fn line(file: &Finding) -> Value {
    json!({
        "file": file.name,
        "first": file.first,
        "last": file.next.saturating_sub(1),
        "changes_kept": file.changes,
        "bytes": file.bytes,
        "lost": file.damage.as_ref().map(|_| file.lost),
        "damage": file.damage.as_ref().map(ToString::to_string),
    })
}

fn journal(listing: &offline::ListingArgs, out: &mut dyn Write) -> Result<()> {
    let data = &listing.data;
    let stopped = data.open()?;
    let progress = bar("reading records", stopped.bytes()?);
    let files = stopped.journal(&mut |bytes| progress.inc(bytes))?;
    progress.finish_and_clear();
    if listing.json {
        json_lines(files.iter().map(line), out)?;
    } else {
        write!(out, "{}", table(&files))?;
    }
    let damage: Vec<_> = files.iter().filter_map(|file| file.damage.as_ref()).collect();
    for error in damage.iter().filter(|_| !listing.json) {
        writeln!(out, "{error}")?;
    }
    if damage.is_empty() {
        return Ok(());
    }
    Err(damage_report(data, offline::damaged_files(damage.len())).into())
}

fn snapshot(listing: &offline::ListingArgs, out: &mut dyn Write) -> Result<()> {
    let snapshots = listing.data.open()?.snapshots()?;
    if listing.json {
        return snapshot::print_lines(&snapshots, out);
    }
    for found in snapshots {
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
