//! Inputs that are no regular files: the standard input, pipes (`<(...)`, `/dev/stdin`), terminals.
//! They can be read once only. What needs them twice saves them first.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::open_file;

/// The name of the standard input in the file system.
const STANDARD_INPUT: &str = "/dev/stdin";

/// Whether a path is `-` or leads to what is neither a regular file nor a folder. A path that leads
/// nowhere is no stream.
pub fn is_stream(path: &Path) -> bool {
    let is_other = |metadata: std::fs::Metadata| !metadata.is_file() && !metadata.is_dir();
    is_standard_input(path) || path.metadata().is_ok_and(is_other)
}

/// A stream that a second name leads to, such as `-` and `/dev/stdin`.
pub fn stream_named_twice(paths: &[PathBuf]) -> Option<&Path> {
    let mut seen = HashSet::new();
    let is_seen = |path: &&PathBuf| {
        let place = if is_standard_input(path) { Path::new(STANDARD_INPUT) } else { path };
        is_stream(path)
            && place.metadata().is_ok_and(|found| !seen.insert((found.dev(), found.ino())))
    };
    paths.iter().find(is_seen).map(PathBuf::as_path)
}

fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// Whether a path leads to a socket that is the standard input, as programs that start others give
/// them. A socket cannot be opened by its name.
fn is_socket_of_standard_input(path: &Path) -> bool {
    let socket = |path: &Path| path.metadata().ok().filter(|found| found.file_type().is_socket());
    let [named, own] = [path, Path::new(STANDARD_INPUT)]
        .map(|path| socket(path).map(|found| (found.dev(), found.ino())));
    named.is_some() && named == own
}

/// Streams that were saved in files without names, so that they can be read again.
#[derive(Debug, Clone, Default)]
pub struct SavedStreams(BTreeMap<PathBuf, Arc<File>>);

impl SavedStreams {
    /// Reads the streams among these paths to their ends, in their order.
    ///
    /// # Errors
    /// A stream cannot be read, or a temporary file cannot be written; the error names the stream.
    pub fn of(paths: &[PathBuf]) -> io::Result<Self> {
        let mut saved = BTreeMap::new();
        for path in paths.iter().filter(|path| is_stream(path)) {
            if saved.contains_key(path) {
                continue;
            }
            let file = tempfile::tempfile().and_then(|mut file| {
                io::copy(&mut opened(path)?, &mut file)?;
                Ok(file)
            });
            let file = file.map_err(|error| {
                let what = "cannot be saved in a temporary file (TMPDIR)";
                io::Error::new(error.kind(), format!("{} {what}: {error}", path.display()))
            })?;
            saved.insert(path.clone(), Arc::new(file));
        }
        Ok(Self(saved))
    }

    /// The file with what came from a stream.
    pub fn get(&self, path: &Path) -> Option<&File> {
        self.0.get(path).map(|file| &**file)
    }

    /// What a path leads to, from its start. A stream that was not saved begins where it is.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub(super) fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        match self.0.get(path) {
            Some(file) => Ok(Box::new(FromStart { file: Arc::clone(file), at: 0 })),
            None => opened(path),
        }
    }
}

fn opened(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if is_standard_input(path) || is_socket_of_standard_input(path) {
        return Ok(Box::new(io::stdin()));
    }
    Ok(Box::new(open_file(path)?))
}

/// Reads a file from its start, whoever else reads it.
struct FromStart {
    file: Arc<File>,
    at: u64,
}

impl Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}
