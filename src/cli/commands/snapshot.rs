//! `snapshot`: lists and verifies snapshots; exports the whole directory as one file, and restores
//! it.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use nearprint_engine::open::offline::{SnapshotFound, restore, verify_export};
use nearprint_files::atomic_file::AtomicFile;
use nearprint_files::destination::Destination;
use serde_json::{Value, json};

use crate::cli::collection::{ClientArgs, RemoteService, URL_VARIABLE};
use crate::cli::columns::{Column, json_lines, table};
use crate::cli::error_report::ErrorReport;
use crate::cli::offline::{self, bar, damage_report};
use crate::cli::outputs::{self, cut_short};

/// Of all actions, which are most often used one after the other.
const EXAMPLES: &str = "\
Examples:
  nearprint snapshot export backup.np --server http://127.0.0.1:7878
  nearprint snapshot export backup.np --data nearprint-data
  nearprint snapshot verify --export backup.np
  nearprint snapshot verify --data nearprint-data
  nearprint snapshot restore backup.np --data restored
  nearprint snapshot list --data nearprint-data --json";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SnapshotArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List the snapshots of a stopped service's data directory
    #[command(after_help = EXAMPLES)]
    List(offline::ListingArgs),
    /// Read and verify snapshots and records of a stopped service, or an exported file
    #[command(after_help = EXAMPLES)]
    Verify {
        #[command(flatten)]
        data: offline::Data,
        /// Verify this exported file instead of a data directory
        #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "config"])]
        export: Option<PathBuf>,
    },
    /// Write everything into one checksummed file, while the service runs or from a stopped one
    #[command(after_help = EXAMPLES)]
    Export {
        /// The file to write, which must not exist, or a pipe; - is the standard output
        file: PathBuf,
        /// Where the service listens
        #[arg(
            long,
            visible_alias = "url",
            value_name = "URL",
            env = URL_VARIABLE,
            hide_env_values = true,
        )]
        server: Option<String>,
        #[command(flatten)]
        client: ClientArgs,
        #[command(flatten)]
        data: offline::Data,
    },
    /// Put an exported file into an empty data directory
    #[command(after_help = EXAMPLES)]
    Restore {
        /// The exported file
        file: PathBuf,
        #[command(flatten)]
        data: offline::Data,
    },
}

pub(crate) fn run(args: &SnapshotArgs, out: &mut dyn Write) -> Result<()> {
    match &args.action {
        Action::List(listing) => list(listing, out),
        Action::Verify { export: Some(file), .. } => verify_file(file, out),
        Action::Verify { data, export: None } => verify(data, out),
        // The variable may be set for other commands.
        Action::Export { file, server: Some(server), client, data } if !data.is_given() => {
            let service = RemoteService::new(server, client)?;
            let copy = |sink: &mut dyn Write| service.copy("/v1/snapshots/export", sink).map(drop);
            export(file, None, copy, out)
        }
        Action::Export { file, data, .. } => {
            let stopped = data.open()?;
            let copy = |sink: &mut dyn Write| Ok(stopped.export(sink).map(drop)?);
            export(file, Some(&data.directory()?), copy, out)
        }
        Action::Restore { file, data } => restore_file(file, data, out),
    }
}

const COLUMNS: &[Column<SnapshotFound>] = &[
    ("snapshot", |found| found.name.clone()),
    ("sequence", |found| offline::shown(&found.manifest, |m| m.sequence.to_string())),
    ("documents", |found| offline::shown(&found.manifest, |m| m.documents.to_string())),
    ("files", |found| found.files.len().to_string()),
    ("bytes", |found| offline::shown(&found.manifest, |m| m.bytes.to_string())),
    ("taken (ms since 1970)", |found| {
        offline::shown(&found.manifest, |m| m.taken_at_ms.to_string())
    }),
];

/// A snapshot as a line of JSON.
fn line(found: &SnapshotFound) -> Value {
    let manifest = found.manifest.as_ref().ok();
    json!({
        "snapshot": found.name,
        "sequence": manifest.map(|manifest| manifest.sequence.get()),
        "documents": manifest.map(|manifest| manifest.documents),
        "files": found.files.iter().map(|(name, bytes)| json!({"name": name, "bytes": bytes})).collect::<Vec<_>>(),
        "bytes": manifest.map(|manifest| manifest.bytes),
        "taken_at_ms": manifest.map(|manifest| manifest.taken_at_ms),
        "damage": found.manifest.as_ref().err().map(ToString::to_string),
    })
}

/// Prints each snapshot as a line of JSON.
pub(super) fn print_lines(snapshots: &[SnapshotFound], out: &mut dyn Write) -> Result<()> {
    Ok(json_lines(snapshots.iter().map(line), out)?)
}

fn list(listing: &offline::ListingArgs, out: &mut dyn Write) -> Result<()> {
    let stopped = listing.data.open()?;
    let snapshots = stopped.snapshots()?;
    if listing.json {
        return print_lines(&snapshots, out);
    }
    if snapshots.is_empty() {
        writeln!(out, "no snapshot; the records lead to the same state")?;
        return Ok(());
    }
    write!(out, "{}", table(COLUMNS, &snapshots))?;
    Ok(())
}

fn verify(data: &offline::Data, out: &mut dyn Write) -> Result<()> {
    let stopped = data.open()?;
    let mut bad = 0;
    for SnapshotFound { name, .. } in stopped.snapshots()? {
        match stopped.verify_snapshot(&name) {
            Ok(()) => writeln!(out, "{name}: whole")?,
            Err(error) => {
                bad += usize::from(!error.is_of_other_version());
                writeln!(out, "{name}: {error}")?;
            }
        }
    }
    let progress = bar("verifying records", stopped.bytes()?);
    for file in stopped.journal(&mut |bytes| progress.inc(bytes))? {
        let name = file.name.as_deref().unwrap_or("a missing file");
        match &file.damage {
            None => writeln!(out, "{name}: whole")?,
            Some(error) => {
                bad += 1;
                writeln!(out, "{error}")?;
            }
        }
    }
    progress.finish_and_clear();
    match bad {
        0 => Ok(()),
        bad => Err(damage_report(data, offline::damaged_files(bad)).into()),
    }
}

fn verify_file(file: &Path, out: &mut dyn Write) -> Result<()> {
    let mut source = BufReader::new(open(file)?);
    let exported = verify_export(&mut source).map_err(|error| not_whole(file).because(error))?;
    writeln!(out, "{}: whole; {} files, {} bytes", file.display(), exported.files, exported.bytes)?;
    Ok(())
}

fn export(
    file: &Path,
    read: Option<&Path>,
    copy: impl FnOnce(&mut dyn Write) -> Result<()>,
    out: &mut dyn Write,
) -> Result<()> {
    let read: Vec<PathBuf> = read.map(Path::to_path_buf).into_iter().collect();
    let destinations = outputs::checked(&[("FILE", file)], &read)?;
    if destinations.iter().any(|one| matches!(one, Destination::File(path) if path.exists())) {
        let what = format!("{} exists already", file.display());
        return Err(ErrorReport::new(what, "choose a name that is not taken").into());
    }
    let cannot = |error: io::Error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            cut_short(file, error.into())
        } else {
            cannot_write(file).because(error).into()
        }
    };
    let mut sink = AtomicFile::create(file, None).map_err(cannot)?;
    copy(&mut sink).map_err(|error| cut_short(file, error))?;
    if !destinations.iter().all(|one| matches!(one, Destination::File(_))) {
        let bytes = sink.finish().map_err(cannot)?;
        say!(
            "{bytes} bytes written; verify the saved file: nearprint snapshot verify --export FILE"
        );
        return Ok(());
    }
    let mut whole = None;
    // An export counts once it has been verified, as it may come over the network.
    sink.finish_if(|partial| -> Result<()> {
        let mut source = BufReader::new(open(partial)?);
        whole = Some(verify_export(&mut source).map_err(|error| not_whole(file).because(error))?);
        Ok(())
    })?;
    if let Some(whole) = whole {
        writeln!(out, "{}: {} files, {} bytes", file.display(), whole.files, whole.bytes)?;
    }
    Ok(())
}

fn restore_file(file: &Path, data: &offline::Data, out: &mut dyn Write) -> Result<()> {
    let source = open(file)?;
    let progress = bar("restoring", source.metadata()?.len());
    let mut source = BufReader::new(progress.wrap_read(source));
    let directory = data.directory()?;
    let restored = restore(&mut source, &directory).map_err(|error| {
        let next = "choose an empty directory with --data DIR, or another export";
        ErrorReport::new(format!("{} is not restored", file.display()), next).because(error)
    })?;
    progress.finish_and_clear();
    writeln!(
        out,
        "restored {} files, {} bytes; start it: nearprint serve --data {}",
        restored.files,
        restored.bytes,
        directory.display()
    )?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the user's file, not one of the data directory")]
fn open(file: &Path) -> Result<File, ErrorReport> {
    File::open(file).map_err(|error| {
        let what = format!("cannot read {}", file.display());
        ErrorReport::new(what, "look at the name and its rights").because(error)
    })
}

fn cannot_write(file: &Path) -> ErrorReport {
    let what = format!("cannot write {}", file.display());
    ErrorReport::new(what, "look at the free space of the disk and at the rights")
}

fn not_whole(file: &Path) -> ErrorReport {
    let what = format!("{} is not whole", file.display());
    ErrorReport::new(what, "export again, or use an older export")
}
