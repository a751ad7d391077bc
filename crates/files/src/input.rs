//! The inputs of a command: one stream over files, folders and the standard input.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::context::Quoting;
use super::context::{Doubt, RecordForm};
use super::detect::Format;
use super::entry::{BadEntry, Entry, FileRecord, Place};
use super::folder::{self, Folder};
use super::formats::{table, warc};
use super::mapping::{FingerprintFormat, Mapping};
use super::reader::{self, Items, Opener, in_utf8};
use super::source::{self, BytesRead, Charset, SavedStreams, decompressed, is_stream};

/// How files are read.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    /// The format of all files; without one, the content or the name of each file decides.
    pub format: Option<Format>,
    /// Which fields become the parts of documents.
    pub mapping: Mapping,
    /// The form in which records are yielded.
    pub form: RecordForm,
    /// What came from streams, which can be read once only. It is read from its start each time.
    pub saved: SavedStreams,
    /// The encoding of tables, lines and texts; without one, UTF-8, or UTF-16 with its byte order
    /// mark. Texts and pages that are files of their own show theirs.
    pub charset: Option<Charset>,
    /// The byte between the cells of tables; without it, the first line of each decides.
    pub delimiter: Option<u8>,
    /// How cells of tables are quoted; without it, a sample of each TSV decides.
    pub quoting: Option<Quoting>,
    /// How fingerprints in texts are written; without it, a sample of each file decides.
    pub fingerprints: Option<FingerprintFormat>,
    /// A document needs neither an id nor a namespace, and a field for its content that is null has
    /// an empty text. What else is wrong with a record does not end its file.
    pub is_lenient: bool,
}

impl From<Format> for ReadOptions {
    fn from(format: Format) -> Self {
        Self { format: Some(format), ..Self::default() }
    }
}

impl ReadOptions {
    /// The format that a file is read in.
    ///
    /// # Errors
    /// The file cannot be read, or no reader understands it.
    pub fn format_of(&self, path: &Path) -> Result<Format, BadEntry> {
        let bad = |why: &dyn std::fmt::Display| Place::file(path).bad(why);
        if let Some(format) = self.format {
            return Ok(format);
        }
        let source = source::open(path, &self.saved, &BytesRead::default());
        let source = source.and_then(|source| in_utf8(source, self.charset));
        let (mut source, _) = source.map_err(|error| bad(&error))?;
        let head = source.fill_buf().map_err(|error| bad(&error))?;
        let format = Format::of(path, head).map_err(|why| bad(&why))?;
        reader::check_stream(path, format).map(|()| format)
    }
}

/// How far a stream of records has been read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The number of the path that is being read, counted from 0.
    pub path: usize,
    /// How many of its records were read, documents or not; one that cannot be read counts.
    pub records: u64,
}

/// The records of several paths, one path after the other, documents or not.
pub struct FileRecords {
    waiting: VecDeque<PathBuf>,
    /// Paths that are not waiting any more.
    opened: usize,
    /// Records of the last of them that were read.
    read: u64,
    current: Option<Items>,
    opener: Opener,
}

impl std::fmt::Debug for FileRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl FileRecords {
    /// The records of files, folders and `-`, the standard input. Opens nothing yet.
    pub fn new(paths: Vec<PathBuf>, options: ReadOptions) -> Self {
        let opener = Opener::of(options);
        Self { waiting: paths.into(), opened: 0, read: 0, current: None, opener }
    }

    /// The records of a stream, compressed or not, as if it were the standard input.
    ///
    /// # Errors
    /// The stream cannot be read, or no reader understands it.
    pub fn of_stream(
        stream: impl BufRead + Send + 'static,
        options: ReadOptions,
    ) -> Result<Self, BadEntry> {
        let path = Path::new("-");
        let mut records = Self::new(Vec::new(), options);
        let source = decompressed(stream).map_err(|error| Place::file(path).bad(error))?;
        records.current = Some(records.opener.read(path, source)?);
        Ok(records)
    }

    /// The count of bytes read, which grows while records are read.
    pub fn bytes_read(&self) -> BytesRead {
        self.opener.bytes.clone()
    }

    /// What there is to say of the files opened since the last call: how their fields are
    /// understood, each with the first document.
    pub fn notes(&self) -> Vec<String> {
        self.opener.context.notes()
    }

    /// How many records of each kind were not documents.
    pub fn left_out(&self) -> BTreeMap<&'static str, u64> {
        self.opener.context.left_out()
    }

    /// What is wrong with records that were read nevertheless.
    pub fn doubts(&self) -> BTreeMap<&'static str, Doubt> {
        self.opener.context.doubts()
    }

    /// How far the records have been read.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint { path: self.opened.saturating_sub(1), records: self.read }
    }

    /// Continues after a checkpoint of the same paths. Paths that were read to their end are not
    /// opened; the records of the next one are read again, and dropped.
    pub fn skip_to(&mut self, checkpoint: Checkpoint) {
        for path in self.waiting.drain(..checkpoint.path.min(self.waiting.len())) {
            self.opened += 1;
            let bytes = bytes_total(&[path]).ok().flatten().unwrap_or(0);
            self.opener.bytes.add(usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        while self.checkpoint() < checkpoint && self.advance().is_some() {}
    }

    /// The next record, which is not counted by its kind.
    fn advance(&mut self) -> Option<Result<FileRecord, BadEntry>> {
        loop {
            if let Some(item) = self.current.as_mut().and_then(Iterator::next) {
                self.read += 1;
                return Some(item);
            }
            let path = self.waiting.pop_front()?;
            (self.opened, self.read) = (self.opened + 1, 0);
            match self.open(&path) {
                Ok(items) => self.current = Some(items),
                Err(bad) => {
                    self.current = None;
                    self.read = 1;
                    return Some(Err(bad));
                }
            }
        }
    }

    fn open(&self, path: &Path) -> Result<Items, BadEntry> {
        if path.is_dir() {
            return Ok(Box::new(Folder::new(path.to_path_buf(), self.opener.clone())));
        }
        self.opener.open(path)
    }
}

impl Iterator for FileRecords {
    type Item = Result<FileRecord, BadEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = self.advance()?;
        if let Ok(FileRecord::Other(other)) = &item
            && ![table::HEADERS, warc::REST].contains(&other.what)
        {
            self.opener.context.leave_out(other.what);
        }
        Some(item)
    }
}

/// The documents of several paths: [`FileRecords`] without those that are not documents.
#[derive(Debug)]
pub struct Documents(FileRecords);

impl Documents {
    /// The documents of files, folders and `-`, the standard input. Opens nothing yet.
    pub fn new(paths: Vec<PathBuf>, options: impl Into<ReadOptions>) -> Self {
        Self(FileRecords::new(paths, options.into()))
    }

    /// The records, which share their counts with the documents.
    pub fn records(&self) -> &FileRecords {
        &self.0
    }

    /// Continues after a checkpoint of the same paths.
    pub fn skip_to(&mut self, checkpoint: Checkpoint) {
        self.0.skip_to(checkpoint);
    }
}

impl Iterator for Documents {
    type Item = Result<Entry, BadEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.0.next()? {
                Ok(FileRecord::Document(entry)) => return Some(Ok(entry)),
                Ok(FileRecord::Other(_)) => {}
                Err(bad) => return Some(Err(bad)),
            }
        }
    }
}

/// The files that patterns such as `*.warc.gz` match, in the order of their names. A path that
/// exists, or that matches nothing, stays as it is. `**` does not lead through symbolic links, as
/// folders are not read through them either: a link may lead back to where it is.
pub fn expand(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let matches = |path: &PathBuf| {
        let pattern = path.to_str().filter(|path| path.contains(['*', '?', '[']));
        let pattern = pattern.filter(|_| !path.exists())?;
        let found = if pattern.contains("**") {
            below(pattern)?
        } else {
            glob::glob_with(pattern, MATCHING).ok()?.filter_map(Result::ok).collect()
        };
        (!found.is_empty()).then_some(found)
    };
    paths.into_iter().flat_map(|path| matches(&path).unwrap_or_else(|| vec![path])).collect()
}

/// The files below a folder that [`FileRecords`] reads, each with its format, in their order. A
/// file that cannot be read, or whose format is unknown, is none of them. Opens each.
pub fn files(folder: &Path) -> Vec<(PathBuf, Format)> {
    folder::files(folder).collect()
}

/// As in a shell, `*` does not find `._a.jsonl` and other hidden files.
const MATCHING: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// What a pattern with `**` matches. Links to folders are left out.
fn below(pattern: &str) -> Option<Vec<PathBuf>> {
    let is_literal = |part: &std::path::Component<'_>| {
        part.as_os_str().to_str().is_some_and(|part| !part.contains(['*', '?', '[']))
    };
    let root: PathBuf = Path::new(pattern).components().take_while(is_literal).collect();
    let is_here = root.as_os_str().is_empty();
    let walk = WalkDir::new(if is_here { Path::new(".") } else { &root });
    let pattern = glob::Pattern::new(pattern).ok()?;
    let found = walk.follow_root_links(true).sort_by_file_name().into_iter().flatten();
    let found = found.filter(|entry| !(entry.path_is_symlink() && entry.path().is_dir()));
    let paths = found.map(|entry| match entry.path().strip_prefix(".") {
        Ok(path) if is_here => path.to_path_buf(),
        _ => entry.into_path(),
    });
    Some(paths.filter(|path| pattern.matches_path_with(path, MATCHING)).collect())
}

/// How many bytes [`FileRecords`] will read of these paths; `None` if one is a stream.
/// Walks through folders.
///
/// # Errors
/// The metadata of a path cannot be read; the error names the path.
pub fn bytes_total(paths: &[PathBuf]) -> Result<Option<u64>, BadEntry> {
    let mut total = 0;
    for path in paths {
        if is_stream(path) {
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

    use super::*;
    use nearprint_wire::offer::Content;

    /// The ids of the documents, or why they cannot be read.
    fn read(paths: Vec<PathBuf>, options: impl Into<ReadOptions>) -> Vec<String> {
        let shown = |item: Result<Entry, BadEntry>| match item {
            Ok(entry) => entry.id.unwrap_or_default(),
            Err(bad) => bad.why,
        };
        Documents::new(paths, options).map(shown).collect()
    }

    #[test]
    fn an_explicit_format_wins_but_over_binary_content() {
        let root = tempfile::tempdir().unwrap();
        let (table, program) = (root.path().join("table.csv"), root.path().join("program"));
        fs::write(&table, "id,text\n1,a text\n").unwrap();
        fs::write(&program, b"\x7fELF\0\0").unwrap();
        let paths = vec![table.clone(), program];
        let documents = read(paths.clone(), Format::Document);
        assert_eq!(documents[0], table.display().to_string());
        assert!(documents[1].starts_with("looks like a binary file"), "{documents:?}");
        assert_eq!(read(vec![table.clone()], Format::Lines), ["", ""]);
        assert_eq!(read(vec![table], ReadOptions::default()), ["1"]);
    }

    #[test]
    fn patterns_are_expanded_in_order_unless_a_file_has_their_name() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["b.csv", "a.csv", "c.txt", "[d].txt"] {
            fs::write(at(name), "").unwrap();
        }
        let paths = vec![at("*.csv"), at("[d].txt"), at("*.parquet"), at("c.???")];
        let expected = ["a.csv", "b.csv", "[d].txt", "*.parquet", "c.txt"].map(at);
        assert_eq!(expand(paths), expected);
    }

    #[test]
    fn a_text_file_with_a_document_a_line_is_refused_and_a_format_lets_it_in() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("folder")).unwrap();
        let at = |name: &str| root.path().join("folder").join(name);
        fs::write(at("dump.txt"), "{\"url\": \"u\", \"text\": \"t\"}\n").unwrap();
        fs::write(at("hashes.txt"), "00000000000000ff\ta\n").unwrap();
        let whys = |paths: Vec<PathBuf>| {
            let bad = Documents::new(paths, ReadOptions::default()).filter_map(Result::err);
            bad.map(|bad| bad.why).collect::<Vec<_>>()
        };
        let [dump, hashes] = &whys(vec![at("dump.txt"), at("hashes.txt")])[..] else { panic!() };
        assert!(dump.contains("looks like NDJSON; read it with --format ndjson"), "{dump}");
        assert!(hashes.contains("--format hex"), "{hashes}");
        assert_eq!(whys(vec![root.path().join("folder")]), [dump.as_str(), hashes.as_str()]);

        let mut hex = Documents::new(vec![at("hashes.txt")], Format::Hex);
        assert_eq!(hex.next().unwrap().unwrap().id.as_deref(), Some("a"));
    }

    #[test]
    fn a_byte_order_mark_hides_no_lines() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("dump");
        fs::write(&path, "\u{feff}{\"id\": \"a\", \"text\": \"t\"}\n").unwrap();
        let mut read = Documents::new(vec![path], ReadOptions::default());
        assert_eq!(read.next().unwrap().unwrap().id.as_deref(), Some("a"));
    }

    #[test]
    fn reading_continues_behind_any_checkpoint() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("a.ndjson"), "{\"id\": \"1\", \"text\": \"t\"}\nbroken\n").unwrap();
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("folder/b.csv"), "id,text\n2,t\n3,t\n").unwrap();
        fs::write(at("folder/c.bin"), "unknown").unwrap();
        fs::write(at("d.hex"), "00000000000000ff\t4\n").unwrap();
        let paths = ["a.ndjson", "missing", "folder", "empty", "d.hex"].map(at);
        fs::write(at("empty"), "").unwrap();
        let new = || Documents::new(paths.to_vec(), ReadOptions::default());
        let shown = |item: Result<Entry, BadEntry>| item.map_or_else(|b| b.why, |e| e.id.unwrap());

        let mut whole = new();
        let mut rests = vec![whole.records().checkpoint()];
        let mut items = Vec::new();
        while let Some(item) = whole.next() {
            items.push(shown(item));
            rests.push(whole.records().checkpoint());
        }
        assert_eq!(items.len(), 6, "{items:?}");
        for (done, checkpoint) in rests.into_iter().enumerate() {
            let mut rest = new();
            rest.skip_to(checkpoint);
            let bytes = rest.records().bytes_read();
            assert_eq!(rest.map(shown).collect::<Vec<_>>(), items[done..], "{checkpoint:?}");
            let total = ["a.ndjson", "folder/b.csv", "d.hex"].map(|name| bytes_of(&at(name)));
            assert_eq!(bytes.get(), total.iter().sum::<u64>(), "{checkpoint:?}");
        }
    }

    fn bytes_of(path: &Path) -> u64 {
        path.metadata().unwrap().len()
    }

    #[test]
    fn an_empty_file_has_no_document() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a.txt", "a.ndjson", "a"] {
            let path = root.path().join(name);
            fs::write(&path, "").unwrap();
            assert_eq!(Documents::new(vec![path], ReadOptions::default()).count(), 0, "{name}");
        }
    }

    #[test]
    fn a_pattern_of_any_depth_does_not_lead_through_links() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("in/deep/er")).unwrap();
        for name in ["in/a.jsonl", "in/deep/b.jsonl", "in/deep/er/c.jsonl", "in/deep/.d.jsonl"] {
            fs::write(at(name), "").unwrap();
        }
        // Two links that lead back make more paths than anybody can wait for.
        for (link, to) in
            [("in/deep/x", "../.."), ("in/deep/y", ".."), ("in/z.jsonl", "a.jsonl"), ("link", "in")]
        {
            std::os::unix::fs::symlink(to, at(link)).unwrap();
        }
        for (pattern, found) in [
            (
                "in/**/*.jsonl",
                &["in/a.jsonl", "in/deep/b.jsonl", "in/deep/er/c.jsonl", "in/z.jsonl"][..],
            ),
            ("in/deep/**/*", &["in/deep/b.jsonl", "in/deep/er", "in/deep/er/c.jsonl"]),
            ("link/**/c.*", &["link/deep/er/c.jsonl"]),
            ("in/**/nothing", &["in/**/nothing"]),
        ] {
            assert_eq!(
                expand(vec![at(pattern)]),
                found.iter().map(|name| at(name)).collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn a_json_file_with_an_object_a_line_is_ndjson() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("dump.json");
        fs::write(&path, "{\"text\": \"a\"}\n{\"text\": \"b\"}\n").unwrap();
        assert_eq!(Documents::new(vec![path], ReadOptions::default()).flatten().count(), 2);
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

        let read: Vec<_> = Documents::new(paths, ReadOptions::default()).collect();

        assert_eq!(read.len(), 4);
        assert!(matches!(read[0].as_ref().unwrap().content, Content::Fingerprint(_)));
        assert!(read[1].as_ref().unwrap_err().place.path.ends_with("missing"));
        assert!(matches!(read[2].as_ref().unwrap().content, Content::Text(_)));
        assert!(read[3].as_ref().unwrap().id.is_some());
    }

    #[test]
    fn utf_16_is_read_by_its_mark_or_by_its_name() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, mark: &[u8], text: &str| {
            let bytes = text.encode_utf16().flat_map(u16::to_le_bytes);
            let path = root.path().join(name);
            fs::write(&path, [mark, &bytes.collect::<Vec<u8>>()].concat()).unwrap();
            path
        };
        let (table, line) = ("id,text\n\u{e9},t\n", "{\"id\": \"\u{e9}\", \"text\": \"t\"}\n");
        for (name, text) in [
            ("a.csv", table),
            ("a.tsv", &*table.replace(',', "\t")),
            ("a.jsonl", line),
            ("a", line),
        ] {
            let marked = write(name, b"\xff\xfe", text);
            assert_eq!(read(vec![marked], ReadOptions::default()), ["\u{e9}"], "{name}");
            let path = write(name, b"", text);
            let refused = read(vec![path.clone()], ReadOptions::default());
            assert!(refused[0].contains("pass --charset UTF-16LE"), "{name}: {refused:?}");
            let charset = Some("UTF-16LE".parse().unwrap());
            let named = ReadOptions { charset, ..ReadOptions::default() };
            assert_eq!(read(vec![path], named), ["\u{e9}"], "{name}");
        }
    }

    #[test]
    fn a_charset_that_is_named_is_that_of_tables_and_texts() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let page = b"<html><meta charset=utf-8><p>caf\xe9";
        let text = |name: &str, bytes: &[u8]| {
            fs::write(folder.join(name), bytes).unwrap();
            let options =
                ReadOptions { charset: Some("latin1".parse().unwrap()), ..ReadOptions::default() };
            let read = |path| Documents::new(vec![path], options.clone()).next().unwrap().unwrap();
            let one = read(folder.join(name)).content;
            assert_eq!(read(folder.clone()).content, one, "{name} in a folder");
            fs::remove_file(folder.join(name)).unwrap();
            one
        };
        assert_eq!(text("a.csv", b"text\ncaf\xe9\n"), Content::Text("caf\u{e9}".into()));
        assert_eq!(text("a.txt", b"caf\xe9"), Content::Text("caf\u{e9}".into()));
        let Content::Html(html) = text("a.html", page) else { panic!() };
        assert!(html.ends_with("caf\u{e9}"), "{html}");
    }

    #[test]
    fn one_rule_reads_all_fingerprints_of_a_file() {
        let root = tempfile::tempdir().unwrap();
        let read = |name: &str, content: &str, fingerprints| {
            let path = root.path().join(name);
            fs::write(&path, content).unwrap();
            let options = ReadOptions { fingerprints, ..ReadOptions::default() };
            let mut documents = Documents::new(vec![path], options);
            let read = documents.by_ref().map(|item| match item.map(|entry| entry.content) {
                Ok(Content::Fingerprint(fingerprint)) => fingerprint.bits(),
                other => panic!("{name}: {other:?}"),
            });
            (read.collect::<Vec<u64>>(), documents.records().notes())
        };
        let decimal = [1_234_567_890_123_456, 123_456_789_012_345, 12_345_678_901_234_567];
        let table = "id,fingerprint\na,1234567890123456\nb,123456789012345\nc,12345678901234567\n";
        assert_eq!(read("a.csv", table, None).0, decimal);
        let lines: String =
            decimal.map(|number| format!("{{\"fingerprint\": \"{number}\"}}\n")).concat();
        assert_eq!(read("a.jsonl", &lines, None).0, decimal);
        let hex = "fingerprint\n1234567890123456\n00000000000000ff\n";
        assert_eq!(read("a.csv", hex, None).0, [0x1234_5678_9012_3456, 0xff]);
        let either = "fingerprint\n1234567890123456\n";
        let (bits, notes) = read("a.csv", either, None);
        assert_eq!(bits, [0x1234_5678_9012_3456]);
        assert!(notes[0].contains("--fingerprint-format decimal"), "{notes:?}");
        let (bits, notes) = read("a.csv", either, Some(FingerprintFormat::Decimal));
        assert_eq!(bits, decimal[..1]);
        assert!(!notes.concat().contains("--fingerprint-format"), "{notes:?}");
    }
}
