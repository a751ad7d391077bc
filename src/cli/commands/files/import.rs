//! `import`: many documents into a running service, or straight into a data directory.
//!
//! A thread of its own reads the files. Documents are stored in batches of bounded size, one after
//! the other, so that they take effect in the order of the files (the later of two documents with
//! one id stays). Memory is a few batches, whatever the input; `--groups` adds a name for each
//! document that has a near-duplicate.
//!
//! How the fields of files are understood goes to standard error before the first of their
//! documents is stored.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use nearprint_files::{
    Checkpoint, DocumentBatch, Documents, ReadOptions, batches, expand, is_stream,
};
use nearprint_wire::answer::{Answer, ProblemReply};

use crate::cli::collection::CollectionArgs;
use crate::cli::commands::files::scanning;
use crate::cli::configuration;
use crate::cli::error_report::ErrorReport;
use crate::cli::exit_code;
use crate::cli::import::changes::ChangeTable;
use crate::cli::import::groups::ImportGroups;
use crate::cli::import::interrupt::Interrupt;
use crate::cli::import::options::{ImportOptions, OnError, ReadingArgs};
use crate::cli::import::progress::{ImportProgress, input_bytes};
use crate::cli::import::sink::Sink;
use crate::cli::import::state::{self, ImportState};
use crate::cli::import::summary::Summary;
use crate::cli::outputs;
use crate::config::Sources;

/// How many batches wait while one is being stored.
const BATCHES_WAITING_MAX: usize = 2;

/// How often the import looks for Ctrl-C while it waits for its input.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(100);

/// What to do after an interruption, with a state and without one.
const CONTINUE: &str = "run the same command again: it continues there";
const REPEAT: &str = "repeat it: documents with an id that are already there are not stored twice";

const AFTER_HELP: &str = "\
Exit codes:
  0  every document was read and stored, or was found to be a duplicate or present already
  1  some documents failed, or the import was interrupted or ended early
  2  invalid arguments
  3  nothing was read: the files are empty, or the folders contain no documents
  130  the service did not answer within five seconds of the interruption

Examples:
  nearprint import --check --groups 10 crawl/
  nearprint import --id sku --text description --metadata name,price products.csv
  curl -s https://a.example/CC-MAIN.warc.wet.gz | nearprint import -
  nearprint import --data nearprint-data dump.jsonl";

#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    // The options of the check require one of these.
    group = clap::ArgGroup::new("checking").args(["check", "groups"]).multiple(true),
)]
pub(crate) struct ImportArgs {
    /// Files, folders and patterns ('*.warc.gz'); - is standard input. NDJSON, JSON arrays, CSV,
    /// TSV, Parquet, WARC and WET, lines of hex, texts and HTML; compressed with gzip, zstd, bzip2,
    /// xz or not
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
    /// The fields that are kept as metadata [found: metadata, an object]
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', help_heading = "Fields and formats")]
    metadata: Vec<String>,
    /// What to do about a record that cannot be read or stored
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = OnError::Skip)]
    on_error: OnError,
    /// Read and check everything and report what fails, but store nothing. The limits and the
    /// recipe are those of the configuration (`nearprint check-config`), not those of a service
    #[arg(long, conflicts_with_all = ["data", "groups", "check"])]
    dry_run: bool,
    #[command(flatten)]
    collection: CollectionArgs,
    #[command(flatten)]
    options: ImportOptions,
    /// Keep in this file how far the import has come. The same command continues there after it was
    /// interrupted [default: a file in `$XDG_STATE_HOME/nearprint`, or in
    /// `~/.local/state/nearprint`]
    #[arg(long, value_name = "FILE", conflicts_with = "groups")]
    state: Option<PathBuf>,
    /// Read everything, also what an interrupted import has stored
    #[arg(long)]
    restart: bool,
    /// Print a line for each document that has changed since it was stored under its id the last
    /// time: distance, similarity, the share of its numbers that are the same, and when that was
    #[arg(long, conflicts_with = "dry_run")]
    show_previous: bool,
    /// Print this many of the largest groups of near-duplicates, by the ids of their members;
    /// implies --check
    #[arg(long, value_name = "COUNT", conflicts_with = "id_from")]
    groups: Option<usize>,
}

pub(crate) fn run(mut args: ImportArgs, out: &mut dyn Write) -> Result<()> {
    if args.groups.is_some() {
        args.options.check = true;
        args.options.limit = 10;
    }
    if args.reading.format().is_some()
        && let Some(folder) = args.paths.iter().find(|path| path.is_dir())
    {
        let what = format!("--format is for files, and {} is a folder", folder.display());
        let next = "leave out --format, or name the files";
        return Err(ErrorReport::usage(what, next).into());
    }
    let named = std::mem::take(&mut args.paths);
    args.paths = expand(named.clone());
    scanning::check_streams(&args.paths)?;
    if let Some(state) = &args.state {
        outputs::check_file("--state", state, &args.paths)?;
    }
    let total = input_bytes(&args.paths)?;
    let interrupt = args.collection.listen("ending after this batch")?;
    let sink = open(&args)?;
    let mut state = open_state(&args, &named, &sink)?;
    let (from, note) = state.as_mut().map_or((None, None), |state| state.resume(&sink));
    let documents = Documents::new(args.paths.clone(), read_options(&args));
    let progress = ImportProgress::new(total, documents.records().bytes_read());
    if let Some(note) = note {
        progress.say(&note);
    }
    let mut import = Import {
        progress,
        state,
        summary: if args.dry_run {
            Summary::of_dry_run().of(args.paths.clone())
        } else {
            Summary::new(args.options.id_from).of(args.paths.clone())
        },
        groups: args.groups.map(|_| ImportGroups::default()),
        changes: args.show_previous.then(ChangeTable::default),
        unprinted: None,
        on_error: args.on_error,
        interrupt,
    };
    let (batches, reader) = read(documents, from, args.on_error);
    let outcome = import.store(&batches, &sink, out);
    drop(batches);
    if outcome.is_ok() {
        // After a failure the reader may block on standard input; the process ends without it.
        let documents = reader.join().expect("the reader does not panic");
        import.summary.leave_out(documents.records().left_out());
        import.summary.doubt(documents.records().doubts());
        if let Some(state) = import.state.take() {
            state.remove();
        }
    }
    drop(sink);
    drop(import.progress);
    import.interrupt.end_at_once();

    let mut printed = import.unprinted.map_or(Ok(()), Err);
    printed = printed.and_then(|()| write!(out, "{}", import.summary));
    if let (Some(groups), Some(count)) = (import.groups, args.groups) {
        printed = printed.and_then(|()| groups.print(count, out));
    }
    outcome?;
    verdict(&import.summary, from.is_some())?;
    // Whether everything is stored matters more than whether somebody reads that.
    Ok(printed?)
}

/// Reads documents after a checkpoint on a thread of its own, which returns them when it has read
/// all, or when the receiver is gone.
fn read(
    mut documents: Documents,
    from: Option<Checkpoint>,
    on_error: OnError,
) -> (Receiver<DocumentBatch>, thread::JoinHandle<Documents>) {
    let (sender, received) = mpsc::sync_channel(BATCHES_WAITING_MAX);
    let reader = thread::spawn(move || {
        documents.skip_to(from.unwrap_or_default());
        for batch in batches(&mut documents, on_error.batches()) {
            if sender.send(batch).is_err() {
                // The other side has stopped storing, and reports why.
                break;
            }
        }
        documents
    });
    (received, reader)
}

/// An import that is running.
struct Import {
    progress: ImportProgress,
    /// `None` if this import cannot be continued.
    state: Option<ImportState>,
    summary: Summary,
    groups: Option<ImportGroups>,
    changes: Option<ChangeTable>,
    /// Why changes are not printed any more. The import goes on.
    unprinted: Option<io::Error>,
    on_error: OnError,
    interrupt: Interrupt,
}

impl Import {
    /// Stores batches to the last one. An error means that the import ended before that.
    fn store(
        &mut self,
        received: &Receiver<DocumentBatch>,
        sink: &Sink,
        out: &mut dyn Write,
    ) -> Result<()> {
        loop {
            let received = received.recv_timeout(INTERRUPT_INTERVAL);
            if self.interrupt.is_noted() {
                let next = if self.state.is_some() { CONTINUE } else { REPEAT };
                return Err(ErrorReport::new("the import was interrupted", next).into());
            }
            let batch = match received {
                Ok(batch) => batch,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            for note in &batch.notes {
                self.progress.say(note);
            }
            let replies = sink.store(&batch.documents)?;
            if let Some(changes) = &mut self.changes
                && let Err(error) = changes.print(&batch.documents, &replies, out)
            {
                (self.changes, self.unprinted) = (None, Some(error));
            }
            self.summary.add(&batch, &replies);
            if let Some(groups) = &mut self.groups {
                groups.add(&batch.documents, &replies);
            }
            self.progress.at(self.summary.read());
            let is_over = self.on_error == OnError::Stop && self.summary.failed() > 0;
            if !is_over {
                self.save(&batch, &replies);
            }
            if is_over {
                let what = "the import stopped at a document that failed";
                let next = "correct it and repeat the import, or pass --on-error skip";
                return Err(ErrorReport::new(what, next).into());
            }
        }
    }
}

impl Import {
    /// Saves that a batch is stored. The import goes on without a state if that fails.
    fn save(&mut self, batch: &DocumentBatch, replies: &[Result<Answer, ProblemReply<'static>>]) {
        let Some(mut state) = self.state.take() else { return };
        let sequence = replies.iter().flatten().filter_map(|reply| reply.sequence).max();
        match state.save(batch.upto, (batch.documents.len() + batch.bad.len()) as u64, sequence) {
            Ok(()) => self.state = Some(state),
            Err(error) => {
                let path = state.path().display();
                let after = "the import goes on, and cannot be continued if it is interrupted";
                self.progress.say(&format!("cannot write {path}: {error}; {after}"));
                state.remove();
            }
        }
    }
}

/// An error if not every document that was read is stored, or if there was none, now or before.
fn verdict(summary: &Summary, is_continued: bool) -> Result<()> {
    match (summary.read(), summary.failed()) {
        (0, _) if !is_continued => {
            let next = "name files with documents, or folders with such files";
            Err(ErrorReport::new("nothing was read", next)
                .with_code(exit_code::NOTHING_READ)
                .into())
        }
        (_, 0) => Ok(()),
        (read, failed) => {
            let what = format!("{failed} of {read} documents failed");
            let next = "correct them, and repeat the import: documents with an id that are stored \
                        already are not stored twice";
            let report = ErrorReport::new(what, next);
            Err(match summary.commonest_reason() {
                Some(why) => report.because(anyhow::anyhow!(why.to_owned())).into(),
                None => report.into(),
            })
        }
    }
}

/// The state of an import that can be continued: its files can be read again, it stores something,
/// and reports of nothing that was before.
fn open_state(args: &ImportArgs, named: &[PathBuf], sink: &Sink) -> Result<Option<ImportState>> {
    let has_stream = args.paths.iter().any(|path| is_stream(path));
    if args.dry_run || args.groups.is_some() || has_stream {
        return Ok(None);
    }
    let address = args.collection.address()?;
    let reading = format!("{:?}", read_options(args));
    let settings = state::settings(named, &[&address, &sink.path(), &reading]);
    let opened = match &args.state {
        Some(path) => Some(ImportState::open(path.clone(), settings, args.paths.clone())?),
        // Without a place for it, a continued import is too much to ask for.
        None => state::default_path(&settings)
            .and_then(|path| ImportState::open(path, settings, args.paths.clone()).ok()),
    };
    Ok(opened.map(|mut state| {
        if args.restart {
            state.restart();
        }
        state
    }))
}

/// How the files are read.
fn read_options(args: &ImportArgs) -> ReadOptions {
    let mut options = ReadOptions::from(args.reading.clone());
    options.mapping.metadata.clone_from(&args.metadata);
    options
}

fn open(args: &ImportArgs) -> Result<Sink> {
    if args.dry_run {
        let (_, settings) = configuration::load(&Sources::of_process(None))?;
        let http = settings.http;
        return Sink::of_dry_run(http.service.defaults, http.line_bytes_max, &args.options);
    }
    let collection = args.collection.open_or_create()?;
    collection.check_ready()?;
    Ok(Sink::new(collection, &args.options, args.show_previous))
}
