//! `match`: the records of files that are near one of a set of queries, without a service.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use nearprint_files::dedup::grouping::DISTANCE_DEFAULT;
use nearprint_files::dedup::matching::{FileMatch, MatchOptions, Matched, Nearest, Queries};
use nearprint_files::dedup::scan::{DOCUMENT_BYTES, Scanned, Wishes};
use nearprint_files::destination::Destination;
use nearprint_files::rows::{CellKind, RowColumn, RowFormat, RowWriter};
use nearprint_files::{BadEntry, Documents, ReadOptions, expand};
use nearprint_fingerprint::{Distance, Threshold};
use serde_json::json;

use super::scanning::{self, ScanDisplay, SearchRule, threads};
use crate::cli::document::MethodArgs;
use crate::cli::error_report::ErrorReport;
use crate::cli::exit_code;
use crate::cli::import::interrupt::Interrupt;
use crate::cli::import::options::{OnError, ReadingArgs};
use crate::cli::import::progress::{ImportProgress, input_bytes};
use crate::cli::measure::arguments::{count as size, distance, similarity};
use crate::cli::measure::numbers::{bytes, count};
use crate::cli::messages::StandardError;
use crate::cli::outputs::{self, cut_short};
use crate::cli::standard_output::{Closed, StandardOutput};
use crate::config::Config;

const AFTER_HELP: &str = "\
Exit codes:
  0  every query and every record was read, whether there are pairs or not
  1  some could not be read, or the pairs could not be written
  2  invalid arguments
  3  nothing was read: there are no queries, or no records

Examples:
  sed 's/harbour/port/' page-1.txt > new.txt && nearprint match new.txt crawl/
  nearprint match new.hex 'crawl-*.parquet' -o pairs.parquet
  nearprint match --distance 6 new.jsonl old.jsonl.gz -o - | jq -r .query | sort -u";

const COLUMNS: [RowColumn; 4] = [
    RowColumn::required("query", CellKind::Text),
    RowColumn::required("record", CellKind::Text),
    RowColumn::required("distance", CellKind::UInt8),
    RowColumn::optional("similarity", CellKind::Float64),
];

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct MatchArgs {
    /// The file, folder or pattern with the queries, which are kept in memory; - is the standard
    /// input
    #[arg(value_name = "QUERIES")]
    queries: PathBuf,
    /// Files, folders and patterns ('*.warc.gz') of any size, as for import, which are read once; -
    /// is the standard input
    #[arg(value_name = "IN", required = true)]
    inputs: Vec<PathBuf>,
    /// Write the pairs to this file: NDJSON, CSV or Parquet, by its name; - is the standard output,
    /// in NDJSON. A file appears only when it is complete
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// The distance within which every pair is found
    #[arg(long, value_name = "BITS", value_parser = distance, default_value_t = DISTANCE_DEFAULT)]
    distance: Distance,
    /// How much of two texts must agree, 0 to 1; 0 does not compare them
    #[arg(long, value_name = "SIMILARITY", value_parser = similarity, default_value_t = Config::default().query.min_similarity)]
    min_similarity: f64,
    /// How many of their numbers two texts must share, 0 to 1; 0 does not compare them
    #[arg(long, value_name = "SHARE", value_parser = similarity, default_value_t = Config::default().query.min_numbers)]
    min_numbers: f64,
    /// How texts are searched: exact finds only what is within the distance; likely also finds
    /// similar texts beyond it, which their sketches confirm
    #[arg(long, value_enum, value_name = "HOW", default_value_t = SearchRule::Likely)]
    search: SearchRule,
    #[command(flatten)]
    method: MethodArgs,
    /// How many threads make fingerprints and search [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
    /// End with an error rather than take more memory for the queries than this: 500m, 16g
    /// [default: what is free]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    max_memory: Option<u64>,
    /// What to do about a record that cannot be read
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = OnError::Skip)]
    on_error: OnError,
    /// Print the summary as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: ReadingArgs,
}

pub(crate) fn run(args: &MatchArgs, out: &mut StandardOutput) -> Result<()> {
    let (queries, inputs) = (expand(vec![args.queries.clone()]), expand(args.inputs.clone()));
    let total = input_bytes(&inputs)?;
    let is_stdout = check(args, &[&queries[..], &inputs].concat())?;
    let options = ReadOptions { is_lenient: true, ..args.reading.clone().into() };
    let matching = MatchOptions {
        method: args.method.method()?,
        distance: args.distance,
        threshold: Threshold::of_similarity(args.min_similarity)
            .map(|threshold| threshold.with_numbers(args.min_numbers)),
        is_likely: args.search == SearchRule::Likely,
        threads: threads(args.threads),
        stops_at_errors: args.on_error == OnError::Stop,
    };
    let interrupt = Interrupt::listen_while_waiting("ending without the pairs")?;
    let scanned = scan(args, &queries, (matching, options.clone()), &interrupt)?;
    let (asked, bad_queries) = (scanned.len() as u64, scanned.bad_count);
    let queries =
        Queries::new(scanned, matching).context("the temporary file of sketches cannot be read")?;
    let mut documents = Documents::new(inputs, options);
    let progress = ImportProgress::new(total, documents.records().bytes_read());
    // Pairs that nobody reads need not be found.
    let closed = if is_stdout { out.closed() } else { Closed::default() };
    let mut shown = ScanDisplay { progress, interrupt: &interrupt, closed: closed.clone() };
    // The summary stays out of what is written to the standard output.
    let mut standard_error = StandardError;
    let (out, sink): (&mut dyn Write, Option<&mut dyn Write>) =
        if is_stdout { (&mut standard_error, Some(out)) } else { (out, None) };
    let mut rows = rows(&args.output, sink)?;
    let matched = queries.run(&mut documents, &mut shown, &mut |pair| add(&mut rows, pair));
    drop(shown);
    let matched = matched.map_err(|error| not_written(&args.output, error))?;
    scanning::say_doubts(&documents);
    if interrupt.is_noted() {
        return Err(interrupted());
    }
    report_bad(args, &matched.bad)?;
    if matched.records == 0 && matched.failed == 0 {
        return Err(scanning::nothing_read().into());
    }
    if closed.is_closed() {
        return verdict(bad_queries + matched.failed);
    }
    let written = rows.finish().map_err(|error| not_written(&args.output, error))?;
    let written = (!is_stdout).then_some(written);
    let printed = summary(args, (asked, &matched, written), out);
    verdict(bad_queries + matched.failed)?;
    Ok(printed?)
}

/// Whether the pairs go to the standard output. Refuses invalid arguments before anything is read.
fn check(args: &MatchArgs, inputs: &[PathBuf]) -> Result<bool> {
    scanning::check_memory(args.max_memory)?;
    scanning::check_streams(inputs)?;
    let mut read = inputs.to_vec();
    read.extend(args.method.model().map(Path::to_path_buf));
    let destinations = outputs::checked(&[("--output", &*args.output)], &read)?;
    Ok(destinations.contains(&Destination::StandardOutput))
}

/// Scans the queries.
fn scan(
    args: &MatchArgs,
    paths: &[PathBuf],
    (matching, options): (MatchOptions, ReadOptions),
    interrupt: &Interrupt,
) -> Result<Scanned> {
    let wishes = Wishes {
        method: matching.method,
        sketches: matching.threshold.is_some(),
        names: true,
        metadata: false,
        score: None,
        threads: matching.threads,
        stops_at_errors: matching.stops_at_errors,
        memory_max: scanning::memory_max(
            args.max_memory,
            "a document of the queries and its id",
            false,
        ),
        document_bytes: DOCUMENT_BYTES,
    };
    let mut documents = Documents::new(paths.to_vec(), options);
    let scanned = scanning::scan(&mut documents, (paths, &wishes), interrupt)?;
    if interrupt.is_noted() {
        return Err(interrupted());
    }
    report_bad(args, &scanned.bad)?;
    if scanned.is_empty() {
        return Err(scanning::nothing_read().into());
    }
    Ok(scanned)
}

fn rows<'a>(path: &Path, sink: Option<&'a mut dyn Write>) -> Result<RowWriter<'a>> {
    let columns = COLUMNS.to_vec();
    let rows = match sink {
        Some(sink) => RowWriter::to(sink, RowFormat::Ndjson, columns),
        None => RowWriter::create(path, RowFormat::of(path), columns),
    };
    rows.map_err(|error| not_written(path, error))
}

fn add(rows: &mut RowWriter<'_>, pair: FileMatch<'_>) -> io::Result<()> {
    let distance = u64::from(pair.distance.get());
    rows.row(&[pair.query.into(), pair.record.into(), distance.into(), pair.similarity.into()])
}

fn not_written(path: &Path, error: io::Error) -> anyhow::Error {
    let error = anyhow::Error::from(error);
    cut_short(path, error.context(format!("cannot write the pairs to {}", path.display())))
}

fn interrupted() -> anyhow::Error {
    ErrorReport::new("interrupted", "run it again; it begins anew")
        .with_code(exit_code::INTERRUPTED)
        .into()
}

/// Says which records could not be read; an error if the first one ends the run.
fn report_bad(args: &MatchArgs, bad: &[BadEntry]) -> Result<()> {
    scanning::say_bad(bad);
    if bad.is_empty() || args.on_error == OnError::Skip {
        return Ok(());
    }
    let next = "correct it and run it again, or pass --on-error skip";
    Err(ErrorReport::new("stopped at a record that cannot be read", next).into())
}

fn summary(
    args: &MatchArgs,
    (queries, matched, written): (u64, &Matched, Option<u64>),
    out: &mut dyn Write,
) -> io::Result<()> {
    if args.json {
        let mut report = json!({
            "queries": queries,
            "records": matched.records,
            "without_fingerprint": matched.without_fingerprint,
            "failed": matched.failed,
            "in_pairs": matched.in_pairs,
            "pairs": matched.pairs,
        });
        if let Some(nearest) = matched.nearest {
            report["nearest_distance"] = nearest.distance.get().into();
        }
        return writeln!(out, "{report}");
    }
    let mut row = |name: &str, number: u64, what: String| {
        writeln!(out, "{}", format!("{name:<12}{:>14}  {what}", count(number)).trim_end())
    };
    row("queries", queries, String::new())?;
    row("records", matched.records, String::new())?;
    if matched.without_fingerprint > 0 {
        row("", matched.without_fingerprint, "have no letter or number".to_owned())?;
    }
    if matched.failed > 0 {
        row("failed", matched.failed, "could not be read".to_owned())?;
    }
    let of = format!("with {} of the records", count(matched.in_pairs));
    let file = args.output.display();
    let written = written.map_or_else(String::new, |size| format!(", in {file}, {}", bytes(size)));
    row("pairs", matched.pairs, of + &written)?;
    if matched.pairs == 0 { writeln!(out, "{}", nothing_found(args, matched)) } else { Ok(()) }
}

/// Why there is no pair, and with which options there would be one.
fn nothing_found(args: &MatchArgs, matched: &Matched) -> String {
    let Some(Nearest { distance, records }) = matched.nearest else {
        return "nothing was found: no record has a namespace of a query and a fingerprint"
            .to_owned();
    };
    let of = match matched.records - matched.without_fingerprint {
        all if records < all => format!("the first {} records", count(records)),
        _ => "the records".to_owned(),
    };
    let next = if distance <= args.distance {
        "--min-similarity 0 finds it".to_owned()
    } else if distance > Distance::LOOKUP_MAX {
        format!("no --distance reaches it, {} being the largest", Distance::LOOKUP_MAX)
    } else if args.min_similarity > 0.0 {
        format!("--distance {distance} finds it, with --min-similarity 0 if the texts differ more")
    } else {
        format!("--distance {distance} finds it")
    };
    format!("nothing was found: the nearest of {of} is at distance {distance}; {next}")
}

/// An error if not every query and record was read.
fn verdict(failed: u64) -> Result<()> {
    if failed == 0 {
        return Ok(());
    }
    let what = format!("{} records could not be read", count(failed));
    Err(ErrorReport::new(what, "correct them, and run it again").into())
}
