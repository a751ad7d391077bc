//! `dedup`: the unique documents of files, without a service.

mod against;
mod args;
mod summary;
mod target;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use nearprint_files::dedup::choice::Choice;
use nearprint_files::dedup::copy::{Copied, Copy, CopyError, Stamps};
use nearprint_files::dedup::grouping::{DuplicateGroups, GroupingCriteria, Index, divided};
use nearprint_files::dedup::outputs::WrittenFiles;
use nearprint_files::dedup::report::Report;
use nearprint_files::dedup::revisit;
use nearprint_files::dedup::scan::{
    DIVIDED_DOCUMENT_BYTES, DOCUMENT_BYTES, Known, Scanned, Wishes,
};
use nearprint_files::dedup::tables::{Pairs, write_groups};
use nearprint_files::destination::Destination;
use nearprint_files::{
    Documents, FileRecords, ReadOptions, RecordForm, SavedStreams, batches, expand,
};
use nearprint_fingerprint::Threshold;

use crate::cli::error_report::ErrorReport;
use crate::cli::import::interrupt::Interrupt;
use crate::cli::import::options::OnError;
use crate::cli::import::progress::{ImportProgress, input_bytes};
use crate::cli::measure::numbers::count;
use crate::cli::messages::StandardError;
use crate::cli::outputs::{self, cut_short};
use crate::cli::standard_output::Closed;

pub(crate) use args::DedupArgs;

use super::scanning::{self, ScanDisplay, SearchRule, threads};
use against::Against;
use target::Target;

pub(crate) fn run(mut args: DedupArgs, out: &mut dyn Write) -> Result<()> {
    args.paths = expand(std::mem::take(&mut args.paths));
    scanning::check_memory(args.max_memory)?;
    scanning::check_streams(&args.paths)?;
    input_bytes(&args.paths)?;
    let mut standard_error = StandardError;
    // The summary stays out of what is written to the standard output.
    let out = if is_stdout_used(&args)? { &mut standard_error } else { out };
    let mut options = ReadOptions::from(args.reading.clone());
    if args.output.is_some() || args.against.is_some() {
        // The files are read twice.
        options.saved = SavedStreams::of(&args.paths)?;
    }
    options.is_lenient = true;
    let target = Target::of(&args, &options)?;
    let stamps = Stamps::of(&args.paths)?;
    let interrupt = Interrupt::listen_while_waiting("ending without a copy")?;
    options.mapping.metadata = args.keep.field.iter().cloned().collect();
    if args.revisit {
        options.mapping.metadata.extend(revisit::FIELDS.map(str::to_owned));
    }
    let (mut scanned, memory_max) = scan(&args, options.clone(), &interrupt)?;
    let stopped = args.on_error == OnError::Stop && scanned.bad_count > 0;
    scanning::say_bad(&scanned.bad);
    if stopped {
        let next = "correct it and run it again, or pass --on-error skip";
        return Err(ErrorReport::new("stopped at a record that cannot be read", next).into());
    }
    if let Some(collection) = &args.against {
        scanned.take_out(known(&args, collection, options.clone(), &interrupt)?);
    }
    let (groups, index) = search(&args, (&scanned, memory_max), &interrupt)?;
    let choice = Choice::of(&groups, &scanned, args.keep.keep);
    write_tables(&args, (&scanned, index.as_ref()), (&groups, &choice))?;
    drop(index);
    let copy = match (target, &args.output) {
        (Some(target), Some(path)) => {
            let is_marked = args.mark;
            let copy = Copy {
                scanned: &scanned,
                choice: &choice,
                is_marked,
                revisits: args.revisit,
                drops_unreadable: args.drop_unreadable,
            };
            let (copied, written) = copied(&args, target, copy, (options, &stamps), &interrupt)?;
            Some(summary::CopySummary { path, is_marked, copied, written })
        }
        _ => None,
    };
    let report = Report::of(&scanned, &groups, &choice);
    let printed = if args.json {
        serde_json::to_string(&report)
            .map_err(io::Error::from)
            .and_then(|json| writeln!(out, "{json}"))
    } else {
        summary::show(&report, copy.as_ref(), out)
    };
    verdict(&report, &copy.map(|copy| copy.copied).unwrap_or_default())?;
    Ok(printed?)
}

/// Refuses to choose by a field that no document has.
fn check_scores(args: &DedupArgs, scanned: &Scanned) -> Result<()> {
    let is_known = scanned.has_scores() || scanned.is_empty();
    let Some(field) = args.keep.field.as_deref().filter(|_| !is_known) else { return Ok(()) };
    let what = format!("no document has a number in the field `{field}`");
    Err(ErrorReport::usage(what, "name another field, or leave out --keep").into())
}

/// Writes the files of groups and of pairs.
fn write_tables(
    args: &DedupArgs,
    (scanned, index): (&Scanned, Option<&Index>),
    (groups, choice): (&DuplicateGroups, &Choice),
) -> Result<()> {
    let cannot = |path: &Path| format!("cannot write {}", path.display());
    if let Some(path) = &args.groups {
        let written = write_groups(path, scanned, groups, choice).with_context(|| cannot(path));
        written.map_err(|error| cut_short(path, error))?;
    }
    if let Some(path) = &args.pairs {
        let index = index.expect("a scan for pairs ends before an index does not fit");
        let written = Pairs::create(path, scanned).and_then(|mut pairs| {
            index.pairs(scanned, criteria(args), &mut |pair| pairs.add(pair))?;
            pairs.finish()
        });
        written.with_context(|| cannot(path)).map_err(|error| cut_short(path, error))?;
    }
    Ok(())
}

/// Whether an output goes to the standard output. Refuses outputs over inputs and one another.
fn is_stdout_used(args: &DedupArgs) -> Result<bool> {
    // A folder that is there already is refused later.
    let copy = args.output.as_deref().filter(|path| !path.is_dir());
    let copy: Option<PathBuf> = copy.map(|path| path.components().collect());
    let named = [("--output", copy.as_deref()), ("--groups", args.groups.as_deref())];
    let named = named.into_iter().chain([("--pairs", args.pairs.as_deref())]);
    let named: Vec<_> = named.filter_map(|(option, path)| Some((option, path?))).collect();
    let mut inputs = args.paths.clone();
    inputs.extend(args.method.model().map(Path::to_path_buf));
    inputs.extend(args.against.as_ref().filter(|name| !name.contains("://")).map(Into::into));
    Ok(outputs::checked(&named, &inputs)?.contains(&Destination::StandardOutput))
}

/// Scans the documents; also returns the largest memory of the run.
fn scan(args: &DedupArgs, options: ReadOptions, interrupt: &Interrupt) -> Result<(Scanned, u64)> {
    let names = args.mark || args.revisit || args.groups.is_some() || args.pairs.is_some();
    let document = match (args.revisit, names) {
        (true, _) => "a document, its id and three headers",
        (false, true) => "a document and its id",
        (false, false) => "a document",
    };
    // The pairs are found in an index of all documents.
    let divides = args.pairs.is_none();
    let wishes = Wishes {
        method: args.method.method()?,
        sketches: threshold(args).is_some(),
        names,
        metadata: args.revisit,
        score: args.keep.field.clone(),
        threads: threads(args.threads),
        stops_at_errors: args.on_error == OnError::Stop,
        memory_max: scanning::memory_max(args.max_memory, document, divides),
        document_bytes: if divides { DIVIDED_DOCUMENT_BYTES } else { DOCUMENT_BYTES },
    };
    let memory_max = wishes.memory_max;
    let mut documents = Documents::new(args.paths.clone(), options);
    let scanned = scanning::scan(&mut documents, (&args.paths, &wishes), interrupt)?;
    if interrupt.is_noted() {
        return Err(interrupted());
    }
    check_scores(args, &scanned)?;
    Ok((scanned, memory_max))
}

fn interrupted() -> anyhow::Error {
    ErrorReport::new("interrupted", "run it again; it begins anew").into()
}

/// The documents that a collection has nearly, by their numbers.
fn known(
    args: &DedupArgs,
    collection: &str,
    options: ReadOptions,
    interrupt: &Interrupt,
) -> Result<BTreeMap<u32, Known>> {
    let against = Against::open(collection, args)?;
    let mut documents = Documents::new(args.paths.clone(), options);
    let total = input_bytes(&args.paths)?;
    let mut progress = ImportProgress::new(total, documents.records().bytes_read());
    let (mut all, mut number) = (BTreeMap::new(), 0);
    for batch in batches(&mut documents, args.on_error.batches()) {
        if interrupt.is_noted() {
            return Err(interrupted());
        }
        for found in against.find(&batch.documents)? {
            all.extend(found.map(|known| (number, known)));
            number += 1;
        }
        progress.at(number.into());
    }
    drop(progress);
    Ok(all)
}

fn threshold(args: &DedupArgs) -> Option<Threshold> {
    let threshold = Threshold::of_similarity(args.min_similarity);
    threshold.map(|threshold| threshold.with_numbers(args.min_numbers))
}

fn criteria(args: &DedupArgs) -> GroupingCriteria {
    GroupingCriteria {
        distance: args.distance,
        threshold: threshold(args),
        is_likely: args.search == SearchRule::Likely,
        threads: threads(args.threads),
    }
}

/// The groups, and the index that found them, unless that does not fit into memory.
fn search(
    args: &DedupArgs,
    (scanned, memory_max): (&Scanned, u64),
    interrupt: &Interrupt,
) -> Result<(DuplicateGroups, Option<Index>)> {
    let template = "{msg}  {bar:30} {percent:>3}%";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    let bar = ProgressBar::new(0).with_style(style.progress_chars("=> "));
    let watch = |done: u64, all: u64| {
        bar.set_length(all);
        bar.set_position(done);
        !interrupt.is_noted()
    };
    let found = if scanned.fits(memory_max) {
        bar.set_message("indexing ");
        let all = scanned.len() as u64;
        Index::of(scanned, criteria(args), &|documents| watch(documents, all)).and_then(|index| {
            bar.reset();
            bar.set_message("searching");
            Ok((index.groups(scanned, criteria(args), &watch)?, Some(index)))
        })
    } else {
        say!("searching one part of the documents after the other: they do not fit at once");
        bar.set_message("searching");
        let groups = divided::groups(scanned, criteria(args), memory_max, &watch);
        groups.map(|groups| (groups, None))
    };
    bar.finish_and_clear();
    if interrupt.is_noted() {
        return Err(interrupted());
    }
    found.map_err(|error| {
        let next = if error.kind() == io::ErrorKind::OutOfMemory {
            "raise --max-memory"
        } else {
            "look at the folder for temporary files (TMPDIR)"
        };
        ErrorReport::new("the documents cannot be searched", next).because(error).into()
    })
}

/// The second pass: writes what stays.
fn copied(
    args: &DedupArgs,
    target: Target,
    copy: Copy<'_>,
    (options, stamps): (ReadOptions, &Stamps),
    interrupt: &Interrupt,
) -> Result<(Copied, WrittenFiles)> {
    let path = args.output.as_deref().unwrap_or(Path::new(""));
    let failed = |error: CopyError| {
        let next = match error {
            CopyError::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                return cut_short(path, error.into());
            }
            CopyError::Unreadable(_) => "repair the file, or leave the damaged column out of it",
            CopyError::Changed(_) => "run it again when nothing writes to the files",
            CopyError::Interrupted => "run it again; it begins anew",
            CopyError::Repeated(..) => "rename it, or leave out --mark and use --groups FILE",
            CopyError::Write(ref error) if error.raw_os_error().is_some() => {
                "look at its folder, the space there, and its permissions"
            }
            CopyError::Write(_) => "run it again, or copy into a folder: -o FOLDER/",
        };
        ErrorReport::new(format!("{} was not written", path.display()), next).because(error).into()
    };
    stamps.check().map_err(failed)?;
    let mut outputs =
        target.open(copy.is_marked, &options).map_err(|error| failed(error.into()))?;
    let total = input_bytes(&args.paths)?;
    let options = ReadOptions { form: RecordForm::Raw, ..options };
    let mut records = FileRecords::new(args.paths.clone(), options);
    let progress = ImportProgress::new(total, records.bytes_read());
    let mut shown = ScanDisplay { progress, interrupt, closed: Closed::default() };
    let written = copy.write(&mut records, &mut outputs, &mut shown);
    drop(shown);
    let copied = written.and_then(|copied| stamps.check().map(|()| copied)).map_err(failed)?;
    let written = outputs.finish().map_err(|error| failed(error.into()))?;
    Ok((copied, written))
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
    let next = match copied.unreadable {
        0 => "correct them, and run it again",
        _ => {
            "the copy has them as they are: correct them, and run it again, or leave them out with \
             --drop-unreadable"
        }
    };
    Err(ErrorReport::new(what, next).into())
}
