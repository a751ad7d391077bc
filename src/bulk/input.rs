//! The inputs of an import: which reader fits a path, and one stream over all of them.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::iter;
use std::path::{Path, PathBuf};

use super::entry::{BadEntry, Entry, Place};
use super::files::{self, BytesRead, Source};
use super::folder::{self, Folder};
use super::lines::{ByLine, ParseLine};
use super::names::Kind;
use super::{content, foreign, hex, ndjson};

/// What a reader yields, boxed because the format is known only at run time.
type Entries = Box<dyn Iterator<Item = Result<Entry, BadEntry>> + Send>;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A JSON object with id and text, html, features, vector or fingerprint a line.
    Ndjson,
    /// A fingerprint of 16 hex digits a line, optionally a tab and an id.
    Hex,
    /// The whole file is one document.
    Document,
}

impl Format {
    /// The format of the file at `path`, which begins with `head`. The name decides, or else the
    /// first bytes.
    ///
    /// # Errors
    /// No reader understands the file, or its content is not what its name says; the error says
    /// what to do.
    fn of(path: &Path, head: &[u8]) -> Result<Self, String> {
        match Kind::of(path) {
            Kind::Ndjson => Ok(Self::Ndjson),
            Kind::Hex => Ok(Self::Hex),
            Kind::Text => match content::lines_in_text(head) {
                Some(lines) => Err(foreign::misnamed(lines)),
                None => Ok(Self::Document),
            },
            Kind::Html | Kind::Manual => Ok(Self::Document),
            Kind::Foreign(format) => Err(foreign::refusal(format)),
            Kind::Json => match Self::of_content(head)? {
                Self::Ndjson => Ok(Self::Ndjson),
                Self::Hex | Self::Document => Err(foreign::refusal(JSON_DOCUMENT)),
            },
            Kind::Other => Self::of_content(head),
        }
    }

    fn of_content(head: &[u8]) -> Result<Self, String> {
        if content::begins_with_fingerprint(head) {
            return Ok(Self::Hex);
        }
        let text = content::trimmed(head);
        match text {
            [b'{', ..] if content::is_object_a_line(text) => Ok(Self::Ndjson),
            [b'{', ..] => Err(foreign::refusal(JSON_DOCUMENT)),
            [b'[', rest @ ..] if matches!(rest.trim_ascii_start(), [b'{' | b'[' | b'"', ..]) => {
                Err(foreign::refusal(JSON_DOCUMENT))
            }
            _ => Ok(Self::Document),
        }
    }
}

const JSON_DOCUMENT: &str = "a JSON document";

/// The documents of several paths, one path after the other.
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
    /// The documents of files, folders and `-`, the standard input. Without a `format`, the name of
    /// each file decides, or else its first bytes. Opens nothing yet.
    pub fn new(paths: Vec<PathBuf>, format: Option<Format>) -> Self {
        Self { waiting: paths.into(), format, current: None, bytes: BytesRead::default() }
    }

    /// The count of bytes read, which grows while documents are read.
    pub fn bytes_read(&self) -> BytesRead {
        self.bytes.clone()
    }

    fn open(&self, path: &Path) -> io::Result<Entries> {
        if path.is_dir() {
            return Ok(Box::new(Folder::new(path.to_path_buf(), self.bytes.clone())));
        }
        let mut source = files::open(path, &self.bytes)?;
        let head = source.fill_buf()?;
        if head.is_empty() {
            return Ok(Box::new(iter::empty()));
        }
        let format = match (foreign::by_content(head), self.format) {
            (Some(foreign), _) => Err(foreign::refusal(foreign)),
            (None, Some(format)) => Ok(format),
            (None, None) => Format::of(path, head),
        };
        let format = format.map_err(io::Error::other)?;
        let parse: ParseLine = match format {
            Format::Ndjson => ndjson::parse,
            Format::Hex => hex::parse,
            Format::Document => return Ok(Box::new(iter::once(one_document(source, path)))),
        };
        Ok(Box::new(ByLine::new(source, parse, path)))
    }
}

fn one_document(mut source: Source, path: &Path) -> Result<Entry, BadEntry> {
    let entry = files::read_entry(path, source.as_mut(), Kind::of(path))?;
    entry.ok_or_else(|| Place::file(path).bad("is a binary file"))
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

/// How many bytes [`Documents`] will read of these paths; `None` if one is the standard input.
/// Walks through folders.
///
/// # Errors
/// The metadata of a path cannot be read; the error names the path.
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
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use std::fs;

    use super::super::entry::Body;
    use super::*;

    #[test]
    fn the_name_or_else_the_first_bytes_decide_the_format() {
        for (name, head, format) in [
            ("a.jsonl.gz", "", Format::Ndjson),
            ("a.hex", "", Format::Hex),
            ("README.md", "{", Format::Document),
            ("-", "{\"id\": \"a\"}\n", Format::Ndjson),
            ("-", "\n {\"id\": \"a\"}\n", Format::Ndjson),
            ("-", "00000000000000ff\ta\n00", Format::Hex),
            ("-", "\n00000000000000ff,a\n00", Format::Hex),
            ("-", "00000000000000ff\r\n00", Format::Hex),
            ("-", "Some text.\n", Format::Document),
        ] {
            assert_eq!(Format::of(Path::new(name), head.as_bytes()), Ok(format), "{name} {head:?}");
        }
    }

    #[test]
    fn a_file_that_no_reader_understands_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let csv = ("table.csv", &b"id,text\n1,a text\n"[..]);
        let foreign: &[(&str, &[u8])] = &[
            csv,
            ("table.tsv", b"id\ttext\n1\ta text\n"),
            ("array.json", b"[\n  {\"text\": \"a\"}\n]\n"),
            ("object.json", b"{\n  \"text\": \"a\"\n}\n"),
            ("number.json", b"7\n"),
            ("array", b"[{\"text\": \"a\"},\n {\"text\": \"b\"}]\n"),
            ("crawl.wet", b"WARC/1.0\r\n"),
            ("crawl", b"WARC/1.0\r\n"),
            ("rows.parquet", b"PAR1"),
            ("packed.txt.zst", b"\x28\xb5\x2f\xfd\x04\x00"),
            ("packed.bz2", b"BZh91AY"),
            ("packed.xz", b"\xfd7zXZ\0"),
            ("program.txt", b"\x7fELF\0\0"),
        ];
        for (name, content) in foreign {
            let path = root.path().join(name);
            fs::write(&path, content).unwrap();
            let read: Vec<_> = Documents::new(vec![path], None).collect();
            assert_eq!(read.len(), 1, "{name}");
            let why = &read[0].as_ref().unwrap_err().why;
            assert!(why.starts_with("looks like ") && why.contains("NDJSON"), "{name}: {why}");
        }

        let path = root.path().join(csv.0);
        let read: Vec<_> = Documents::new(vec![path], Some(Format::Document)).collect();
        assert!(read[0].is_ok(), "an explicit format wins");
    }

    #[test]
    fn a_text_file_with_a_document_a_line_is_refused_and_a_format_lets_it_in() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("folder")).unwrap();
        let at = |name: &str| root.path().join("folder").join(name);
        fs::write(at("dump.txt"), "{\"url\": \"u\", \"text\": \"t\"}\n").unwrap();
        fs::write(at("hashes.txt"), "00000000000000ff\ta\n").unwrap();
        let whys = |paths: Vec<PathBuf>| {
            let bad = Documents::new(paths, None).filter_map(Result::err);
            bad.map(|bad| bad.why).collect::<Vec<_>>()
        };
        let [dump, hashes] = &whys(vec![at("dump.txt"), at("hashes.txt")])[..] else { panic!() };
        assert!(dump.contains("looks like NDJSON; import it with --format ndjson"), "{dump}");
        assert!(hashes.contains("--format hex"), "{hashes}");
        assert_eq!(whys(vec![root.path().join("folder")]), [dump.as_str(), hashes.as_str()]);

        let mut hex = Documents::new(vec![at("hashes.txt")], Some(Format::Hex));
        assert_eq!(hex.next().unwrap().unwrap().id.as_deref(), Some("a"));
    }

    #[test]
    fn a_byte_order_mark_hides_no_lines() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("dump");
        fs::write(&path, "\u{feff}{\"id\": \"a\", \"text\": \"t\"}\n").unwrap();
        let mut read = Documents::new(vec![path], None);
        assert_eq!(read.next().unwrap().unwrap().id.as_deref(), Some("a"));
    }

    #[test]
    fn an_empty_file_has_no_document() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a.txt", "a.ndjson", "a"] {
            let path = root.path().join(name);
            fs::write(&path, "").unwrap();
            assert_eq!(Documents::new(vec![path], None).count(), 0, "{name}");
        }
    }

    #[test]
    fn a_json_file_with_an_object_a_line_is_ndjson() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("dump.json");
        fs::write(&path, "{\"text\": \"a\"}\n{\"text\": \"b\"}\n").unwrap();
        assert_eq!(Documents::new(vec![path], None).flatten().count(), 2);
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
