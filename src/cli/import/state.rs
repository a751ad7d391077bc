//! How far an import has come, so that the same command continues there after it was interrupted.
//!
//! The state is a small file of JSON, written in place after every batch and removed at the end.
//! Without `--state` it lies in `$XDG_STATE_HOME/nearprint`, under a name made of everything that
//! decides which documents are stored, and where. It holds only as long as the files that were read
//! are unchanged, and the collection has every change that the import made.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{self, Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use nearprint_files::{Checkpoint, Stamp, escaped_path};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::sink::Sink;
use crate::cli::error_report::ErrorReport;

/// A file of more bytes is no state.
const BYTES_MAX: u64 = 64 << 10;

/// What the file says.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Saved {
    /// What [`settings`] makes of the command.
    import: String,
    /// The [`Stamp`]s of all paths up to the one that is being read, as one hash.
    inputs: String,
    /// How far these are read.
    upto: Checkpoint,
    /// Documents and bad entries that were read.
    documents: u64,
    /// The last change of the collection then; `None` if it does not say.
    sequence: Option<u64>,
}

/// The state of one import.
pub(crate) struct ImportState {
    path: PathBuf,
    file: File,
    /// The bytes of the file.
    length: usize,
    inputs: Inputs,
    saved: Saved,
}

/// The paths of an import, and the hash of the stamps of the first of them.
struct Inputs {
    paths: Vec<PathBuf>,
    hash: Xxh3,
    stamped: usize,
}

impl Inputs {
    /// The stamps of all paths up to this one. Each is made once, when it is reached.
    fn upto(&mut self, path: usize) -> String {
        while self.stamped < self.paths.len().min(path + 1) {
            let stamp = Stamp::of(&self.paths[self.stamped]).map_or(0, |stamp| stamp.0);
            self.hash.update(&stamp.to_le_bytes());
            self.stamped += 1;
        }
        format!("{:032x}", self.hash.digest128())
    }
}

/// Everything that decides which documents are stored, and where, as 16 hex digits. Another version
/// of the program may count records differently.
pub(crate) fn settings(paths: &[PathBuf], parts: &[&str]) -> String {
    let paths = paths.iter().filter_map(|path| path::absolute(path).ok());
    let paths: Vec<String> = paths.map(|path| escaped_path(&path).into_owned()).collect();
    let all = format!("{:?} {parts:?} {paths:?}", env!("CARGO_PKG_VERSION"));
    format!("{:016x}", xxh3_64(all.as_bytes()))
}

/// The file of the state of an import, unless the user names one; `None` without a home.
pub(crate) fn default_path(settings: &str) -> Option<PathBuf> {
    let named = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let named = named.filter(|folder| folder.is_absolute());
    let folder = named.or_else(|| Some(std::env::home_dir()?.join(".local/state")))?;
    Some(folder.join("nearprint").join(format!("import-{settings}.json")))
}

impl ImportState {
    /// Opens the file, or begins it.
    ///
    /// # Errors
    /// The file cannot be read or written, is no state, or is that of another import.
    pub(crate) fn open(path: PathBuf, settings: String, paths: Vec<PathBuf>) -> Result<Self> {
        let shown = path.display().to_string();
        let cannot = || format!("cannot keep the state of the import in {shown}");
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(cannot)?;
        }
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.with_context(cannot)?;
        let (length, saved) = read(&file, settings).map_err(|why| {
            let next = "name another file with --state, or remove this one";
            ErrorReport::new(cannot(), next).because(why)
        })?;
        Ok(Self {
            path,
            file,
            length,
            inputs: Inputs { paths, hash: Xxh3::new(), stamped: 0 },
            saved,
        })
    }

    /// Where to continue, and what to say about it; `None` to read everything.
    pub(crate) fn resume(&mut self, sink: &Sink) -> (Option<Checkpoint>, Option<String>) {
        let Saved { upto, documents, sequence, .. } = self.saved;
        if documents == 0 {
            return (None, None);
        }
        let since = "since the import was interrupted: reading everything again";
        let lost = |now| sequence.is_some_and(|sequence| now < sequence);
        let why = if self.inputs.upto(upto.path) != self.saved.inputs {
            Some(format!("files have changed {since}"))
        } else if sink.sequence().is_some_and(lost) {
            // It was emptied, or an older backup was restored.
            Some(format!("{} has lost changes {since}", sink.name()))
        } else {
            None
        };
        if why.is_some() {
            self.restart();
            return (None, why);
        }
        let note = format!("continuing after {documents} documents; --restart reads all again");
        (Some(upto), Some(note))
    }

    pub(crate) fn restart(&mut self) {
        (self.saved.upto, self.saved.documents) = (Checkpoint::default(), 0);
    }

    /// Saves that everything up to a checkpoint is stored. It survives the end of the process, not
    /// that of the machine: then an older state may be found, and some documents are sent twice.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn save(
        &mut self,
        upto: Checkpoint,
        documents: u64,
        sequence: Option<u64>,
    ) -> io::Result<()> {
        self.saved.inputs = self.inputs.upto(upto.path);
        self.saved.upto = upto;
        self.saved.documents += documents;
        self.saved.sequence = sequence.or(self.saved.sequence);
        let mut bytes = serde_json::to_vec(&self.saved)?;
        // In place: a whole line at once, over all of the line before.
        bytes.resize(bytes.len().max(self.length), b' ');
        self.length = bytes.len();
        self.file.write_all_at(&bytes, 0)
    }

    /// Removes the file: the import is at its end.
    #[expect(clippy::disallowed_methods, reason = "a file of the user")]
    pub(crate) fn remove(self) {
        drop(fs::remove_file(self.path));
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// The bytes of a file, and what it says; if it is empty, that nothing was read.
fn read(file: &File, settings: String) -> Result<(usize, Saved)> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok((0, Saved { import: settings, ..Saved::default() }));
    }
    let mut bytes = vec![0; usize::try_from(length.min(BYTES_MAX))?];
    file.read_exact_at(&mut bytes, 0)?;
    let saved: Saved =
        serde_json::from_slice(&bytes).context("it is not the state of an import")?;
    ensure!(saved.import == settings, "it is the state of an import with other files or options");
    Ok((bytes.len(), saved))
}
