//! The inputs of an import: which reader fits a path, and one stream over all of them.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::iter;
use std::path::{Path, PathBuf};

use super::files::{self, Source};
use super::folder::{self, Folder};
use super::lines::{ByLine, ParseLine};
use super::names::Kind;
use super::{BadEntry, BytesRead, Entries, Entry, Place, hex, ndjson};
use crate::fingerprint::Fingerprint;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A JSON object with id and text, html, features or fingerprint a line.
    Ndjson,
    /// A fingerprint of 16 hex digits a line, optionally a tab and an id.
    Hex,
    /// The whole file is one document.
    Document,
}

impl Format {
    /// By the name; `None` where it does not tell.
    fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        match name.rsplit_once('.')?.1 {
            "ndjson" | "jsonl" => Some(Self::Ndjson),
            "hex" => Some(Self::Hex),
            _ if Kind::of(path) != Kind::Other => Some(Self::Document),
            _ => None,
        }
    }

    /// By the first bytes.
    fn of_content(head: &[u8]) -> Self {
        let line = head.split(|&byte| byte == b'\n').next().unwrap_or(head);
        let first = line.split(|&byte| byte == b'\t').next().unwrap_or(line);
        let hex = str::from_utf8(first.trim_ascii()).unwrap_or_default();
        if hex.parse::<Fingerprint>().is_ok() {
            Self::Hex
        } else if head.trim_ascii_start().starts_with(b"{") {
            Self::Ndjson
        } else {
            Self::Document
        }
    }
}

/// The documents of several paths, one after the other.
pub struct Documents {
    waiting: VecDeque<PathBuf>,
    format: Option<Format>,
    current: Option<Entries>,
    bytes: BytesRead,
}

impl std::fmt::Debug for Documents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Documents")
            .field("waiting", &self.waiting)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Documents {
    /// Of files, folders and `-`, the standard input. Without a `format` the names tell, or else
    /// the first bytes. Opens nothing yet.
    pub fn new(paths: Vec<PathBuf>, format: Option<Format>) -> Self {
        Self { waiting: paths.into(), format, current: None, bytes: BytesRead::default() }
    }

    /// The shared count of bytes read.
    pub fn bytes_read(&self) -> BytesRead {
        self.bytes.clone()
    }

    fn open(&self, path: &Path) -> io::Result<Entries> {
        if path.is_dir() {
            return Ok(Box::new(Folder::new(path.to_path_buf(), self.bytes.clone())));
        }
        let mut source = files::open(path, &self.bytes)?;
        let format = match self.format.or_else(|| Format::of_name(path)) {
            Some(format) => format,
            None => Format::of_content(source.fill_buf()?),
        };
        let parse: ParseLine = match format {
            Format::Ndjson => ndjson::parse,
            Format::Hex => hex::parse,
            Format::Document => return Ok(Box::new(iter::once(one_document(source, path)))),
        };
        Ok(Box::new(ByLine::new(source, parse, path)))
    }
}

fn one_document(mut source: Source, path: &Path) -> Result<Entry, BadEntry> {
    let id = (path != Path::new("-")).then(|| path.to_string_lossy().into_owned());
    match files::read_body(source.as_mut(), Kind::of(path)) {
        Ok(Some(body)) => Ok(Entry { place: Place::file(path), id, body }),
        Ok(None) => Err(Place::file(path).bad("is a binary file")),
        Err(error) => Err(Place::file(path).bad(error)),
    }
}

impl Iterator for Documents {
    type Item = Result<Entry, BadEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.current.as_mut().and_then(Iterator::next) {
                return Some(entry);
            }
            let path = self.waiting.pop_front()?;
            match self.open(&path) {
                Ok(entries) => self.current = Some(entries),
                Err(error) => {
                    self.current = None;
                    return Some(Err(Place::file(&path).bad(error)));
                }
            }
        }
    }
}

/// How many bytes [`Documents`] will read of these paths; `None` where the standard input is
/// among them. Walks through folders.
///
/// # Errors
/// A path does not exist or cannot be looked at; it is named.
pub fn bytes_total(paths: &[PathBuf]) -> Result<Option<u64>, BadEntry> {
    let mut total = 0;
    for path in paths {
        if path == Path::new("-") {
            return Ok(None);
        }
        let metadata = path.metadata().map_err(|error| Place::file(path).bad(error))?;
        total += if metadata.is_dir() { folder::bytes(path) } else { metadata.len() };
    }
    Ok(Some(total))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests lay out their own files")]
mod tests {
    use std::fs;

    use super::super::Body;
    use super::*;

    #[test]
    fn the_format_is_told_by_the_name_or_else_by_the_first_bytes() {
        for (name, head, format) in [
            ("a.jsonl.gz", "", Format::Ndjson),
            ("a.hex", "", Format::Hex),
            ("README.md", "{", Format::Document),
            ("-", "{\"id\": \"a\"}\n", Format::Ndjson),
            ("-", "\n {\"id\": \"a\"}\n", Format::Ndjson),
            ("-", "00000000000000ff\ta\n00", Format::Hex),
            ("-", "00000000000000ff\r\n00", Format::Hex),
            ("-", "Some text.\n", Format::Document),
        ] {
            let found = Format::of_name(Path::new(name))
                .unwrap_or_else(|| Format::of_content(head.as_bytes()));
            assert_eq!(found, format, "{name} {head:?}");
        }
    }

    #[test]
    fn several_paths_are_one_stream_and_a_missing_one_is_an_item_of_it() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("a.hex"), "00000000000000ff\n").unwrap();
        fs::write(at("b.ndjson"), "{\"text\": \"t\"}\n").unwrap();
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("folder/c.txt"), "text").unwrap();
        let paths = ["a.hex", "missing", "b.ndjson", "folder"].map(at).to_vec();

        let read: Vec<_> = Documents::new(paths, None).collect();

        assert_eq!(read.len(), 4);
        assert!(matches!(read[0].as_ref().unwrap().body, Body::Fingerprint(_)));
        assert!(read[1].as_ref().unwrap_err().place.path.ends_with("missing"));
        assert!(matches!(read[2].as_ref().unwrap().body, Body::Text(_)));
        assert!(read[3].as_ref().unwrap().id.is_some());
    }
}
