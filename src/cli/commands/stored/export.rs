//! `export`: the stored documents as a file of NDJSON, CSV or Parquet.
//!
//! The documents come as a stream of lines, from a service or from a directory that is opened in
//! this process. Memory is a few thousand documents, whatever their number.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use nearprint_files::destination::Destination;
use nearprint_files::rows::RowFormat;

use super::list;
use super::rows::ExportRows;
use super::selection::SelectionArgs;
use crate::cli::collection::CollectionArgs;
use crate::cli::error_report::ErrorReport;
use crate::cli::measure::numbers::count;
use crate::cli::outputs::{self, cut_short};
use crate::cli::standard_output::StandardOutput;

/// Documents between two movements of the progress.
const SHOWN_EVERY: u64 = 4_096;

const EXAMPLES: &str = "\
Examples:
  nearprint export -o documents.parquet
  nearprint export -o crawl.csv.gz --namespace crawl-7 --metadata
  nearprint export -o all.jsonl --all-namespaces --data nearprint-data";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExportArgs {
    /// The file, or a pipe; - is the standard output. A file is there when it is whole. A name that
    /// ends with .gz or .zst compresses NDJSON and CSV
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The format [default: by the name of the file, or ndjson]
    #[arg(long, value_enum)]
    format: Option<RowFormat>,
    #[command(flatten)]
    selection: SelectionArgs,
    /// With their metadata
    #[arg(long)]
    metadata: bool,
    /// With the sketches that verify hits
    #[arg(long)]
    sketch: bool,
    #[command(flatten)]
    collection: CollectionArgs,
}

pub(crate) fn run(args: &ExportArgs, out: &mut StandardOutput) -> Result<()> {
    let format = args.format.unwrap_or_else(|| RowFormat::of(&args.output));
    let inputs: Vec<PathBuf> = args.collection.data().map(Path::to_path_buf).into_iter().collect();
    let destinations = outputs::checked(&[("--output", &*args.output)], &inputs)?;
    let is_stdout = destinations.contains(&Destination::StandardOutput);
    if is_stdout && format == RowFormat::Parquet {
        let next = "name a file, or use --format ndjson or csv";
        let what = "Parquet is written to files only";
        return Err(ErrorReport::usage(what, next).into());
    }
    let collection = args.collection.open()?;
    let parts = [args.metadata, args.sketch];
    let mut lines = collection.documents(args.selection.which(), parts)?;
    let exported = if is_stdout {
        export_to(out.whole(), args, format, &mut lines)
    } else {
        export(args, format, &mut lines, out)
    };
    exported.map_err(|error| cut_short(&args.output, error))
}

/// To the standard output.
fn export_to(
    out: &mut dyn Write,
    args: &ExportArgs,
    format: RowFormat,
    lines: &mut dyn BufRead,
) -> Result<()> {
    let mut rows = ExportRows::to(out, format, [args.metadata, args.sketch])?;
    let documents = copy(lines, &mut rows, &ProgressBar::new_spinner())?;
    rows.finish()?;
    say!("{} documents", count(documents));
    Ok(())
}

fn export(
    args: &ExportArgs,
    format: RowFormat,
    lines: &mut dyn BufRead,
    out: &mut dyn Write,
) -> Result<()> {
    let progress = ProgressBar::new_spinner();
    let columns = [args.metadata, args.sketch];
    let file = args.output.display();
    let mut rows = ExportRows::create(&args.output, format, columns)
        .with_context(|| format!("cannot write {file}"))?;
    let copied = copy(lines, &mut rows, &progress);
    progress.finish_and_clear();
    let documents = copied?;
    let bytes = rows.finish().with_context(|| format!("cannot write {file}"))?;
    writeln!(out, "{file}: {} documents, {} bytes", count(documents), count(bytes))?;
    Ok(())
}

/// Copies all documents, and returns their number.
fn copy(lines: &mut dyn BufRead, rows: &mut ExportRows<'_>, progress: &ProgressBar) -> Result<u64> {
    let mut documents = 0;
    list::each_line(lines, u64::MAX, "export", &mut |line| {
        rows.add(line)?;
        documents += 1;
        if documents % SHOWN_EVERY == 0 {
            progress.set_message(format!("{} documents", count(documents)));
            progress.tick();
        }
        Ok(true)
    })?;
    Ok(documents)
}
