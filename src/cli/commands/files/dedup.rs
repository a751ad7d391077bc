//! `dedup`: the unique documents of files, without a service.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};

use super::collection::Collection;
use crate::bulk::{Documents, Format, ReadOptions, Records, bytes_total, expand};
use crate::cli::client::Credentials;
use crate::cli::document::MethodArgs;
use crate::cli::error_report::ErrorReport;
use crate::cli::import::batch::batches;
use crate::cli::import::interrupt::Interrupt;
use crate::cli::import::options::{OnError, Reading};
use crate::cli::import::progress::Progress;
use crate::cli::measure::arguments::distance;
use crate::cli::measure::numbers::{bytes, count, ratio};
use crate::cli::printable::printable;
use crate::config::Config;
use crate::dedup::choice::{Choice, Keep};
use crate::dedup::copy::{Copied, Copy, CopyError, Stamps, has_fields};
use crate::dedup::grouping::{Criteria, Groups, Index};
use crate::dedup::output::Output;
use crate::dedup::report::{Largest, Report, write_groups, write_pair};
use crate::dedup::scan::{Known, Scanned, Watcher, Wishes};
use crate::fingerprint::Distance;
use crate::sketch::MinResemblance;

/// The exit code of a run that found no document.
const NOTHING_READ: u8 = 3;
/// The exit code of a wrong command line.
const USAGE: u8 = 2;

const EXIT_CODES: &str = "\
Exit codes:
  0  every record was read
  1  some records could not be read or copied and are not in the copy, or there is no copy
  2  the command line makes no sense
  3  nothing was read: the files are empty";

/// The arguments of `dedup`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXIT_CODES,
    group = clap::ArgGroup::new("what").args(["output", "groups", "pairs", "dry_run"]).multiple(true).required(true),
)]
pub(crate) struct Args {
    /// Files, folders and patterns ('*.warc.gz'), as for import. They are read twice, so the standard
    /// input cannot be one
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Write the records that stay into this file, as they are. All inputs must have one format; a
    /// name that ends with .gz or .zst compresses it. The file is there when it is whole
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write all records, each with the fields `duplicate_of`, `distance`, `similarity` and `group`
    #[arg(long, requires = "output")]
    mark: bool,
    /// Write the groups into this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
    /// Write the pairs into this file, one JSON object a line: `id_a`, `id_b`, `distance`, `similarity`
    #[arg(long, value_name = "FILE")]
    pairs: Option<PathBuf>,
    /// Read everything, and write no file
    #[arg(long, conflicts_with_all = ["output", "groups", "pairs"])]
    dry_run: bool,
    /// Drop documents, too, that this collection has nearly: the address of a service, with its
    /// scheme, or the data directory of a stopped one
    #[arg(long, value_name = "URL|DIR")]
    against: Option<String>,
    #[command(flatten)]
    credentials: Credentials,
    /// Which document of a group stays: first, last, longest, max:FIELD (with the largest number in
    /// it), none
    #[arg(long, value_name = "RULE", default_value = "first")]
    keep: KeepRule,
    /// The largest distance of two near-duplicates
    #[arg(long, value_name = "BITS", value_parser = distance, default_value = "3")]
    distance: Distance,
    /// How much of two texts must agree, 0 to 1; 0 does not compare them
    #[arg(long, value_name = "PART", default_value_t = Config::default().query.min_similarity)]
    min_similarity: f64,
    #[command(flatten)]
    method: MethodArgs,
    /// How many threads make fingerprints and search [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
    /// What to do about a record that cannot be read
    #[arg(long, value_enum, default_value_t = OnError::Skip)]
    on_error: OnError,
    /// Print the summary as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
}

/// The value of `--keep`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeepRule {
    keep: Keep,
    field: Option<String>,
}

impl FromStr for KeepRule {
    type Err = &'static str;

    fn from_str(rule: &str) -> Result<Self, Self::Err> {
        let of = |keep| Ok(Self { keep, field: None });
        match rule {
            "first" => of(Keep::First),
            "last" => of(Keep::Last),
            "longest" => of(Keep::Longest),
            "none" => of(Keep::None),
            _ => match rule.strip_prefix("max:") {
                Some(field) if !field.is_empty() => {
                    Ok(Self { keep: Keep::Largest, field: Some(field.to_owned()) })
                }
                _ => Err("it is first, last, longest, max:FIELD or none"),
            },
        }
    }
}

/// Shows how far a pass has come.
struct Shown<'a> {
    progress: Progress,
    interrupt: &'a Interrupt,
}

impl Watcher for Shown<'_> {
    fn at(&mut self, documents: u64) {
        self.progress.at(documents);
    }

    fn note(&mut self, note: &str) {
        self.progress.say(note);
    }

    fn goes_on(&self) -> bool {
        !self.interrupt.is_noted()
    }
}

pub(crate) fn run(mut args: Args, out: &mut dyn Write) -> Result<()> {
    args.paths = expand(std::mem::take(&mut args.paths));
    let format = check(&args)?;
    let stamps = Stamps::of(&args.paths)?;
    let interrupt = Interrupt::listen("ending without a copy")?;
    let mut options = ReadOptions::from(args.reading.clone());
    if let Some(field) = &args.keep.field {
        options.mapping.metadata = vec![field.clone()];
    }
    let mut scanned = scan(&args, options.clone(), &interrupt)?;
    let stopped = args.on_error == OnError::Stop && scanned.bad_count > 0;
    for bad in &scanned.bad {
        eprintln!("{bad}");
    }
    if stopped {
        let next = "correct it and run it again, or pass --on-error skip";
        return Err(ErrorReport::new("stopped at a record that cannot be read", next).into());
    }
    if let Some(collection) = &args.against {
        scanned.take_out(known(&args, collection, options.clone(), &interrupt)?);
    }
    let index = Index::of(&scanned, args.distance);
    let groups = search(&args, (&index, &scanned), &interrupt)?;
    let choice = Choice::of(&groups, &scanned, args.keep.keep);
    if let Some(path) = &args.groups {
        write_file(path, &mut |sink| write_groups(&scanned, &groups, &choice, sink))?;
    }
    if let Some(path) = &args.pairs {
        write_file(path, &mut |sink| {
            index.pairs(&scanned, criteria(&args), &mut |pair| write_pair(&scanned, pair, sink))
        })?;
    }
    drop(index);
    let copied = match (&args.output, format) {
        (Some(path), Some(format)) => {
            let copy = Copy { scanned: &scanned, choice: &choice, is_marked: args.mark };
            let options = ReadOptions { keep_raw: true, ..options };
            let copying = Copying { path, format, stamps: &stamps };
            Some(copying.run(copy, Records::new(args.paths.clone(), options), &interrupt)?)
        }
        _ => None,
    };
    let report = Report::of(&scanned, &groups, &choice);
    if args.json {
        serde_json::to_writer(&mut *out, &report)?;
        writeln!(out)?;
    } else {
        show(&report, copied.as_ref().map(|copied| (&args, copied)), out)?;
    }
    verdict(&report, &copied.unwrap_or_default())
}

/// The format of the copy; `None` if there is to be none.
fn check(args: &Args) -> Result<Option<Format>> {
    let usage =
        |what: String, next: &str| Err(ErrorReport::new(what, next).with_code(USAGE).into());
    if args.paths.iter().any(|path| path == Path::new("-")) {
        let next = "save it as a file, and name that";
        return usage("the files are read twice, and the standard input cannot be".into(), next);
    }
    if !(0.0..=1.0).contains(&args.min_similarity) {
        let what = format!("--min-similarity is {}; it must be 0 to 1", args.min_similarity);
        return usage(what, "leave it out for the default");
    }
    if args.output.is_none() {
        return Ok(None);
    }
    let mut known: Option<Format> = None;
    for path in &args.paths {
        let shown = path.display();
        if path.is_dir() {
            let next = "name the files in it ('FOLDER/*.jsonl'), or use --groups FILE";
            return usage(format!("{shown} is a folder, and has no records to copy"), next);
        }
        let format = args.reading.format().map_or_else(|| Format::of_file(path), Ok);
        let format = format.map_err(|bad| {
            let next = "look at its name; --format names a format that is not found";
            ErrorReport::new(format!("{shown} cannot be read"), next).because(bad)
        })?;
        if format == Format::Document {
            let next = "use --groups FILE to see the groups";
            return usage(format!("{shown} is one document, and has no records to copy"), next);
        }
        if known.replace(format).is_some_and(|known| known != format) {
            let next = "run it for each format, or use --groups FILE";
            return usage(format!("{shown} has another format than the files before it"), next);
        }
    }
    if args.mark && known.is_some_and(|format| !has_fields(format)) {
        let next = "leave out --mark, or use --groups FILE";
        return usage("the records of this format have no fields that --mark can add".into(), next);
    }
    Ok(known)
}

fn threads(args: &Args) -> usize {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    args.threads.map_or_else(cores, usize::from)
}

fn scan(args: &Args, options: ReadOptions, interrupt: &Interrupt) -> Result<Scanned> {
    let wishes = Wishes {
        method: args.method.method()?,
        sketches: MinResemblance::of_similarity(args.min_similarity).is_some(),
        names: args.mark || args.groups.is_some() || args.pairs.is_some(),
        scores: args.keep.field.is_some(),
        threads: threads(args),
        stops_at_errors: args.on_error == OnError::Stop,
    };
    let mut documents = Documents::new(args.paths.clone(), options);
    let total = bytes_total(&args.paths)?;
    let progress = Progress::new(total, documents.records().bytes_read());
    let mut shown = Shown { progress, interrupt };
    let scanned = Scanned::of(&mut documents, wishes, &mut shown);
    shown.progress.end();
    let scanned = scanned.context("the temporary file of sketches (TMPDIR) cannot be written")?;
    if interrupt.is_noted() {
        return Err(interrupted());
    }
    if scanned.is_empty() && scanned.bad_count == 0 {
        let next = "name files with documents";
        return Err(ErrorReport::new("nothing was read", next).with_code(NOTHING_READ).into());
    }
    Ok(scanned)
}

fn interrupted() -> anyhow::Error {
    ErrorReport::new("interrupted", "run it again; it begins anew").into()
}

/// The documents that a collection has nearly, by their numbers.
fn known(
    args: &Args,
    collection: &str,
    options: ReadOptions,
    interrupt: &Interrupt,
) -> Result<BTreeMap<u32, Known>> {
    let near = (args.distance, args.min_similarity);
    let collection = Collection::open(collection, &args.credentials, near)?;
    let mut documents = Documents::new(args.paths.clone(), options);
    let total = bytes_total(&args.paths)?;
    let mut progress = Progress::new(total, documents.records().bytes_read());
    let (mut all, mut number) = (BTreeMap::new(), 0);
    let mut look_up = || -> Result<()> {
        for batch in batches(&mut documents, args.on_error) {
            if interrupt.is_noted() {
                return Err(interrupted());
            }
            for found in collection.find(&batch.documents)? {
                all.extend(found.map(|known| (number, known)));
                number += 1;
            }
            progress.at(number.into());
        }
        Ok(())
    };
    let looked_up = look_up();
    collection.close();
    progress.end();
    looked_up.map(|()| all)
}

fn criteria(args: &Args) -> Criteria {
    Criteria {
        distance: args.distance,
        min_resemblance: MinResemblance::of_similarity(args.min_similarity),
        threads: threads(args),
    }
}

fn search(
    args: &Args,
    (index, scanned): (&Index, &Scanned),
    interrupt: &Interrupt,
) -> Result<Groups> {
    let template = "searching  {bar:30} {percent:>3}%, {eta} left";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    let bar = ProgressBar::new(0).with_style(style.progress_chars("=> "));
    let watch = |done: u64, all: u64| {
        bar.set_length(all);
        bar.set_position(done);
        !interrupt.is_noted()
    };
    let groups = index.groups(scanned, criteria(args), &watch);
    bar.finish_and_clear();
    if interrupt.is_noted() {
        return Err(interrupted());
    }
    groups.context("the temporary file of sketches cannot be read")
}

/// The second pass.
struct Copying<'a> {
    path: &'a Path,
    format: Format,
    stamps: &'a Stamps,
}

impl Copying<'_> {
    fn run(&self, copy: Copy<'_>, mut records: Records, interrupt: &Interrupt) -> Result<Copied> {
        let path = self.path.display();
        let failed = |error: CopyError| {
            let next = match &error {
                CopyError::Changed(_) => "run it again when nothing writes to the files",
                CopyError::Interrupted => "run it again; it begins anew",
                CopyError::Write(_) => "look at its folder, the space there, and its permissions",
            };
            ErrorReport::new(format!("{path} was not written"), next).because(error)
        };
        self.stamps.check().map_err(failed)?;
        let output = Output::create(self.path, self.format, copy.is_marked);
        let mut output = output.map_err(|error| failed(error.into()))?;
        let progress = Progress::new(Some(self.stamps.bytes()), records.bytes_read());
        let mut shown = Shown { progress, interrupt };
        let written = copy.write(&mut records, &mut output, &mut shown);
        shown.progress.end();
        let written = written.and_then(|copied| self.stamps.check().map(|()| copied));
        match written {
            Ok(copied) => {
                let bytes = output.finish().map_err(|error| failed(error.into()))?;
                Ok(Copied { bytes, ..copied })
            }
            Err(error) => {
                output.abandon();
                Err(failed(error).into())
            }
        }
    }
}

/// Writes a file that is there when it is whole.
#[expect(clippy::disallowed_methods, reason = "a file of the user")]
fn write_file(path: &Path, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let written = File::create(&partial).and_then(|file| {
        let mut sink = BufWriter::new(file);
        write(&mut sink)?;
        sink.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        std::fs::rename(&partial, path)
    });
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn show(report: &Report, copied: Option<(&Args, &Copied)>, out: &mut dyn Write) -> Result<()> {
    let part = |of: u64, all: u64| 100.0 * ratio(of, all.max(1));
    let dropped = part(report.dropped, report.documents);
    let saved = part(report.dropped_bytes, report.content_bytes);
    writeln!(out, "documents   {:>14}", count(report.documents))?;
    writeln!(
        out,
        "groups      {:>14}  with {} documents",
        count(report.groups),
        count(report.in_groups)
    )?;
    writeln!(
        out,
        "dropped     {:>14}  {dropped:.1} % of the documents, {} ({saved:.1} %) of their content",
        count(report.dropped),
        bytes(report.dropped_bytes)
    )?;
    if report.in_collection > 0 {
        let what = "of them are in the collection";
        writeln!(out, "            {:>14}  {what}", count(report.in_collection))?;
    }
    writeln!(out, "kept        {:>14}", count(report.kept))?;
    if report.without_fingerprint > 0 {
        let what = "have no letter or number, and stay";
        writeln!(out, "            {:>14}  {what}", count(report.without_fingerprint))?;
    }
    if report.failed > 0 {
        writeln!(out, "failed      {:>14}  could not be read", count(report.failed))?;
    }
    show_largest(&report.largest, out)?;
    if let Some((Args { output: Some(path), mark, .. }, copied)) = copied {
        let what = if *mark { "marked documents" } else { "documents" };
        writeln!(
            out,
            "written     {:>14}  {what} in {}, {}",
            count(copied.documents),
            path.display(),
            bytes(copied.bytes)
        )?;
        if copied.others > 0 {
            let what = "other records, copied as they are";
            writeln!(out, "            {:>14}  {what}", count(copied.others))?;
        }
    }
    Ok(())
}

/// The largest groups, by the names of their documents if these were kept.
fn show_largest(largest: &[Largest], out: &mut dyn Write) -> io::Result<()> {
    let sizes: Vec<String> = largest.iter().map(|group| count(group.documents)).collect();
    if !sizes.is_empty() && largest.iter().all(|group| group.original.is_none()) {
        return writeln!(out, "the largest groups have {} documents", sizes.join(", "));
    }
    for (group, size) in largest.iter().zip(sizes) {
        let name = group.original.as_deref().unwrap_or_default();
        writeln!(out, "            {size:>14}  documents are near {}", printable(name))?;
    }
    Ok(())
}

/// An error if not every record was read, or copied.
fn verdict(report: &Report, copied: &Copied) -> Result<()> {
    if let Some(place) = &copied.first_left_out {
        let left_out = count(copied.left_out);
        let what = format!("{left_out} records of more than 8 MiB are not in the copy");
        let next = "a record has to fit into the memory of a reader; copy them by other means";
        return Err(ErrorReport::new(format!("{what}; the first is {place}"), next).into());
    }
    if report.failed == 0 {
        return Ok(());
    }
    let what = format!("{} records could not be read", report.failed);
    Err(ErrorReport::new(what, "correct them, and run it again").into())
}
