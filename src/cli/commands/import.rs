//! `import`: many documents into a running service, or straight into a data directory.
//!
//! A thread of its own reads the files. Documents are stored in batches of bounded size, one after
//! the other, so that they take effect in the order of the files (the later of two documents with
//! one id stays). Memory is a few batches, whatever the input; `--groups` adds a name for each
//! document that has a near-duplicate.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use anyhow::Result;

use crate::bulk::{Documents, Format, bytes_total};
use crate::cli::client::{Client, Credentials, DEFAULT_SERVER};
use crate::cli::error_report::ErrorReport;
use crate::cli::import::batch::{Batch, batches};
use crate::cli::import::directory::Directory;
use crate::cli::import::groups::Groups;
use crate::cli::import::options::Options;
use crate::cli::import::progress::Progress;
use crate::cli::import::sink::{Destination, Sink};
use crate::cli::import::summary::Summary;

/// How many batches wait while one is being stored.
const BATCHES_WAITING_MAX: usize = 2;

/// The exit code of a run that found nothing to import.
const NOTHING_READ: u8 = 3;
/// The exit code of a wrong command line.
const USAGE: u8 = 2;

const EXIT_CODES: &str = "\
Exit codes:
  0  every document was read and stored, or was found to be a duplicate or present already
  1  some documents failed, or the import could not go on
  2  the command line makes no sense
  3  nothing was read: the files are empty, or the folders contain no documents";

/// The arguments of `import`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXIT_CODES,
    // The options of the check require one of these.
    group = clap::ArgGroup::new("checking").args(["check", "groups"]).multiple(true),
)]
pub(crate) struct Args {
    /// Files and folders; - is standard input. In folders, texts, HTML, manual pages and NDJSON
    /// files are read
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The format of the files, whatever their names and first bytes say
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// The service to store them in
    #[arg(
        long,
        visible_alias = "url",
        value_name = "URL",
        default_value = DEFAULT_SERVER,
        conflicts_with = "data"
    )]
    server: String,
    #[command(flatten)]
    credentials: Credentials,
    /// Store them in this data directory instead; no service may be running on it
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The configuration of the data directory
    #[arg(long, value_name = "FILE", requires = "data")]
    config: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
    /// Print the N largest groups of near-duplicates, by the ids of their members; implies --check
    #[arg(long, value_name = "N", conflicts_with = "id_from")]
    groups: Option<usize>,
}

pub(crate) fn run(mut args: Args, out: &mut dyn Write) -> Result<()> {
    if args.groups.is_some() {
        args.options.check = true;
        args.options.limit = 10;
    }
    if args.format.is_some()
        && let Some(folder) = args.paths.iter().find(|path| path.is_dir())
    {
        let what = format!("--format is for files, and {} is a folder", folder.display());
        let next = "leave out --format, or name the files";
        return Err(ErrorReport::new(what, next).with_code(USAGE).into());
    }
    let total = bytes_total(&args.paths)?;
    let sink = open(&args)?;
    let documents = Documents::new(args.paths, args.format);
    let mut progress = Progress::new(total, documents.bytes_read());
    let mut summary = Summary::new(args.options.id_from);
    let mut groups = args.groups.map(|_| Groups::default());

    let (sender, received) = mpsc::sync_channel(BATCHES_WAITING_MAX);
    let reader = thread::spawn(move || {
        for batch in batches(documents) {
            if sender.send(batch).is_err() {
                // The other side has stopped storing, and reports why.
                return;
            }
        }
    });
    let outcome = received.iter().try_for_each(|batch: Batch| {
        let replies = sink.store(&batch.documents)?;
        summary.add(&batch, &replies);
        if let Some(groups) = &mut groups {
            groups.add(&batch.documents, &replies);
        }
        progress.at(summary.read());
        anyhow::Ok(())
    });
    if outcome.is_ok() {
        // After a failure the reader may block on standard input; the process ends without it.
        reader.join().expect("the reader does not panic");
    }
    sink.finish();
    progress.end();

    write!(out, "{summary}")?;
    if let (Some(groups), Some(count)) = (groups, args.groups) {
        groups.print(count, out)?;
    }
    outcome?;
    verdict(&summary)
}

/// An error if not every document that was read is stored, or if there was none.
fn verdict(summary: &Summary) -> Result<()> {
    match (summary.read(), summary.failed()) {
        (0, _) => {
            let next = "name files with documents, or folders with texts, HTML, manual pages or \
                        NDJSON files";
            Err(ErrorReport::new("nothing was read", next).with_code(NOTHING_READ).into())
        }
        (_, 0) => Ok(()),
        (read, failed) => {
            let what = format!("{failed} of {read} documents failed");
            let next = "correct them, and repeat the import: documents with an id that are stored \
                        already are not stored twice";
            Err(ErrorReport::new(what, next).into())
        }
    }
}

fn open(args: &Args) -> Result<Sink> {
    let destination = if let Some(data) = &args.data {
        Destination::Directory(Directory::open(data, args.config.as_deref())?)
    } else {
        let client = Client::new(&args.server, &args.credentials)?;
        client.copy("/readyz", &mut io::sink())?;
        Destination::Service(client)
    };
    Ok(Sink::new(destination, &args.options))
}
