//! Reads a folder and everything below it: one document a file of text or HTML, with its path as
//! id, and the documents of each file of records.
//!
//! The name of a file decides whether it is read ([`NameKind`]). Other files, empty ones and binary
//! ones are records that are not documents, and so are by-products of other programs; symbolic
//! links, and folders such as `.git`, are skipped. Names are sorted within each folder, so that two
//! runs give the same order.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};

use nearprint_wire::offer::Content;
use walkdir::{DirEntry, FilterEntry, WalkDir};

use super::detect::names::{self, NameKind};
use super::detect::{Format, content, foreign};
use super::entry::{BadEntry, Entry, FileRecord, Item, Other, Place, Raw};
use super::formats::document;
use super::reader::{Items, Opener};
use super::source::{self, Charset, SavedStreams};
use crate::ReadOptions;

const UNKNOWN: &str = "files in unknown formats";
const EMPTY: &str = "empty or binary files";
const WITHOUT_TEXT: &str = "files of records without a text (--text FIELD names another field)";
const BY_PRODUCT: &str = "by-products of other programs (._*, _SUCCESS, dataset cards ...)";

/// Reads the documents of a folder.
pub(super) struct Folder {
    walk: Walk,
    /// The file of records that is being read.
    records: Option<Items>,
    /// Whether the first of its records, which shows whether they are documents, is still to come.
    is_first: bool,
    root: PathBuf,
    opener: Opener,
}

impl Folder {
    pub(super) fn new(root: PathBuf, opener: Opener) -> Self {
        let walk = walk(&root);
        Self { walk, records: None, is_first: false, root, opener }
    }

    /// The document of a file; `None` for a file of records, which is opened now.
    fn read(&mut self, file: &DirEntry) -> Option<Item> {
        let path = file.path();
        let other = |what| {
            Some(Ok(FileRecord::Other(Other { place: Place::file(path), raw: Raw::None, what })))
        };
        if names::is_by_product(path) {
            return other(BY_PRODUCT);
        }
        match NameKind::of(path) {
            kind @ (NameKind::Text | NameKind::Html) => match self.document(path, kind) {
                Ok(Found::Document(entry)) => Some(Ok(FileRecord::Document(entry))),
                Ok(Found::Nothing(what)) => other(what),
                Ok(Found::Records) => self.open(path),
                Err(bad) => Some(Err(bad)),
            },
            NameKind::Foreign(_) | NameKind::Other => other(UNKNOWN),
            // Many programs write JSON and hex digits that are not documents.
            NameKind::Json | NameKind::Hex if !Self::is_of_records(path) => other(UNKNOWN),
            NameKind::Ndjson
            | NameKind::Json
            | NameKind::Csv
            | NameKind::Tsv
            | NameKind::Parquet
            | NameKind::Warc
            | NameKind::Hex => self.open(path),
        }
    }

    fn open(&mut self, path: &Path) -> Option<Item> {
        match self.opener.open(path) {
            Ok(records) => {
                self.is_first = !self.opener.context.is_lenient;
                self.records = Some(records);
                None
            }
            Err(bad) => Some(Err(bad)),
        }
    }

    /// A record; if it is the first of its file and has no text, the file is left out, as a file of
    /// another format is.
    fn unless_without_text(&mut self, item: Item) -> Item {
        let is_first = self.is_first;
        self.is_first &= matches!(item, Ok(FileRecord::Other(_)));
        match item {
            Err(bad) if is_first && self.opener.context.is_without_content(&bad.place.path) => {
                self.records = None;
                let place = Place::file(&bad.place.path);
                Ok(FileRecord::Other(Other { place, raw: Raw::None, what: WITHOUT_TEXT }))
            }
            item => item,
        }
    }

    fn is_of_records(path: &Path) -> bool {
        // It is opened, and counted, again.
        let source = source::open(path, &SavedStreams::default(), &source::BytesRead::default());
        source.is_ok_and(|mut source| {
            source.fill_buf().is_ok_and(|head| content::certain(head).is_some())
        })
    }

    /// Reads a file that is named like a text or a page.
    fn document(&self, path: &Path, kind: NameKind) -> Result<Found, BadEntry> {
        let bad = |why: &dyn std::fmt::Display| Place::file(path).bad(why);
        let mut source = source::open(path, &self.opener.saved, &self.opener.bytes)
            .map_err(|error| bad(&error))?;
        let head = source.fill_buf().map_err(|error| bad(&error))?;
        if foreign::is_binary(head) && content::certain(head).is_none() {
            return Ok(Found::Nothing(EMPTY));
        }
        if names::is_data_card(path, head) {
            return Ok(Found::Nothing(BY_PRODUCT));
        }
        if Format::of(path, head).map_err(|why| bad(&why))? != Format::Document {
            return Ok(Found::Records);
        }
        let is_blank = |entry: &Entry| match &entry.content {
            Content::Text(text) | Content::Html(text) => text.trim().is_empty(),
            Content::Features(_) | Content::Vector(_) | Content::Fingerprint(_) => false,
        };
        let label = self.opener.context.charset.map(Charset::name);
        let entry = document::read_entry(path, source.as_mut(), (kind, label))?;
        Ok(entry.filter(|entry| !is_blank(entry)).map_or(Found::Nothing(EMPTY), Found::Document))
    }
}

type Walk = FilterEntry<walkdir::IntoIter, fn(&DirEntry) -> bool>;

/// Everything below a folder but what is passed over. The folder itself may have any name.
fn walk(root: &Path) -> Walk {
    let is_read: fn(&DirEntry) -> bool = |entry| {
        let is_below = entry.depth() > 0 && entry.file_type().is_dir();
        !(is_below && names::is_passed_over(entry.file_name()))
    };
    WalkDir::new(root).sort_by_file_name().into_iter().filter_entry(is_read)
}

/// What a file that is named like a text or a page holds.
enum Found {
    Document(Entry),
    /// It is blank, binary or about other files.
    Nothing(&'static str),
    /// Its content is that of a web archive or of Parquet.
    Records,
}

impl Iterator for Folder {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.records.as_mut().and_then(Iterator::next) {
                return Some(self.unless_without_text(item));
            }
            match self.walk.next()? {
                Ok(file) if file.file_type().is_file() => {
                    if let Some(item) = self.read(&file) {
                        return Some(item);
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    let path = error.path().unwrap_or(&self.root);
                    return Some(Err(Place::file(path).bad(&error)));
                }
            }
        }
    }
}

/// The files that [`Folder`] reads, with their formats. Opens each.
pub(super) fn files(root: &Path) -> impl Iterator<Item = (PathBuf, Format)> {
    let is_read = |path: &Path| match NameKind::of(path) {
        NameKind::Foreign(_) | NameKind::Other => false,
        NameKind::Json | NameKind::Hex => Folder::is_of_records(path),
        NameKind::Text
        | NameKind::Html
        | NameKind::Ndjson
        | NameKind::Csv
        | NameKind::Tsv
        | NameKind::Parquet
        | NameKind::Warc => true,
    };
    let is_read = move |path: &Path| !names::is_by_product(path) && is_read(path);
    let files = walk(root).filter_map(Result::ok);
    let files = files.filter(|file| file.file_type().is_file()).map(DirEntry::into_path);
    files.filter(move |path| is_read(path)).filter_map(|path| {
        let format = ReadOptions::default().format_of(&path).ok()?;
        Some((path, format))
    })
}

/// The bytes of all files that [`Folder`] would read. Reads the metadata of each file.
pub(super) fn bytes(root: &Path) -> u64 {
    let is_read = |file: &DirEntry| {
        file.file_type().is_file()
            && !names::is_by_product(file.path())
            && !matches!(NameKind::of(file.path()), NameKind::Foreign(_) | NameKind::Other)
    };
    walk(root)
        .filter_map(Result::ok)
        .filter(is_read)
        .filter_map(|file| file.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::context::{Context, RecordForm};
    use super::super::mapping::{BodyKind, Mapping};
    use super::super::source::BytesRead;
    use super::*;

    fn folder(root: &Path, bytes: BytesRead) -> Folder {
        let context = Context::new(Mapping::default(), RecordForm::Parsed);
        Folder::new(
            root.to_path_buf(),
            Opener { format: None, context, saved: SavedStreams::default(), bytes },
        )
    }

    #[test]
    fn documents_are_found_at_any_depth_and_everything_else_is_skipped() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir_all(at("b/deep")).unwrap();
        fs::write(at("b/deep/LICENSE"), "the licence").unwrap();
        fs::write(at("a.md"), "a text").unwrap();
        fs::write(at("page.html"), "<p>a page").unwrap();
        fs::write(at("empty.txt"), " \n").unwrap();
        fs::write(at("binary.txt"), b"\0\x01\x02").unwrap();
        fs::write(at("program.rs"), "fn main() {}").unwrap();
        fs::write(at("package.json"), "{\n}").unwrap();
        fs::write(at("other.hex"), ":10010000214601360121470136007EFE09D2190140\n").unwrap();
        symlink(at("a.md"), at("link.md")).unwrap();
        symlink(root.path(), at("b/loop")).unwrap();

        let (mut read, mut others) = (Vec::new(), Vec::new());
        for item in folder(root.path(), BytesRead::default()) {
            match item.unwrap() {
                FileRecord::Document(entry) => read.push(entry.id.unwrap()),
                FileRecord::Other(other) => others.push((other.place.to_string(), other.what)),
            }
        }

        let expected =
            ["a.md", "b/deep/LICENSE", "page.html"].map(|name| at(name).display().to_string());
        assert_eq!(read, expected);
        let expected = [
            ("binary.txt", EMPTY),
            ("empty.txt", EMPTY),
            ("other.hex", UNKNOWN),
            ("package.json", UNKNOWN),
            ("program.rs", UNKNOWN),
        ];
        assert_eq!(others, expected.map(|(name, what)| (at(name).display().to_string(), what)));
    }

    #[test]
    fn by_products_are_left_out_and_what_is_named_is_read() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for folder in [".git", "_delta_log", "a/.ipynb_checkpoints"] {
            fs::create_dir_all(at(folder)).unwrap();
            fs::write(at(folder).join("b.jsonl"), "{\"text\": \"t\"}\n").unwrap();
        }
        for name in ["._c.jsonl", "_SUCCESS", "dataset_info.json", "state.json"] {
            fs::write(at(name), "{\"text\": \"t\"}\n").unwrap();
        }
        fs::write(at("README.md"), "---\nlicense: mit\n---\nA data set.\n").unwrap();
        let items: Vec<Item> = folder(root.path(), BytesRead::default()).collect();
        let what = items.into_iter().map(|item| match item.unwrap() {
            FileRecord::Other(other) => other.what,
            FileRecord::Document(entry) => panic!("{entry:?}"),
        });
        assert_eq!(what.collect::<Vec<_>>(), [BY_PRODUCT; 5]);
        assert_eq!(folder(&at(".git"), BytesRead::default()).count(), 1);
        // A card was opened to be known.
        assert_eq!(files(root.path()).count(), 1);
    }

    #[test]
    fn names_that_are_not_utf_8_are_read_like_others() {
        use std::os::unix::ffi::OsStrExt as _;
        let root = tempfile::tempdir().unwrap();
        let at = |name: &[u8]| root.path().join(std::ffi::OsStr::from_bytes(name));
        fs::create_dir(at(b"d\xe9")).unwrap();
        fs::write(at(b"d\xe9/caf\xe8.txt"), "a text").unwrap();
        fs::write(at(b"caf\xe9.txt"), "a text").unwrap();
        fs::write(at(b"caf\xe9.jsonl"), "{\"id\": \"1\", \"text\": \"t\"}\nbad\n").unwrap();
        let shown = folder(root.path(), BytesRead::default()).map(|item| match item {
            Ok(FileRecord::Document(entry)) => entry.id.unwrap(),
            other => format!("{}", other.unwrap_err().place),
        });
        let shown: Vec<String> = shown.collect();
        let root = root.path().display();
        let expected = [
            "1".to_owned(),
            format!("{root}/caf%E9.jsonl line 2 (byte 25)"),
            format!("{root}/caf%E9.txt"),
            format!("{root}/d%E9/caf%E8.txt"),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn files_of_records_are_read_record_by_record() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("a.txt"), "a text").unwrap();
        fs::write(at("b.jsonl"), "{\"id\": \"1\", \"text\": \"t\"}\nnonsense\n").unwrap();
        fs::write(at("c.csv"), "id,text\n2,t\n").unwrap();
        fs::write(at("d.ndjson"), "").unwrap();
        fs::write(at("e.json"), "[{\"id\": 3, \"text\": \"t\"}]").unwrap();
        fs::write(at("f.hex"), "00000000000000ff\t4\n").unwrap();
        fs::write(at("g.parquet"), "nonsense").unwrap();
        fs::write(at("h.txt"), "another text").unwrap();

        let shown = folder(root.path(), BytesRead::default()).filter_map(|item| match item {
            Ok(FileRecord::Document(entry)) => Some(entry.id.unwrap()),
            Ok(FileRecord::Other(_)) => None,
            Err(bad) => Some(bad.place.to_string()),
        });
        let shown: Vec<String> = shown.collect();

        let at = |name: &str| at(name).display().to_string();
        let (a, g, h) = (at("a.txt"), at("g.parquet"), at("h.txt"));
        let bad = format!("{} line 2 (byte 25)", at("b.jsonl"));
        assert_eq!(shown, [&a, "1", &bad, "2", "3", "4", &g, &h]);
    }

    #[test]
    fn a_file_whose_first_record_has_no_text_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        let text = "{\"id\": \"1\", \"text\": \"t\"}\n";
        fs::write(at("a.json"), format!("[{{\"name\": \"a\"}}, {text}]")).unwrap();
        fs::write(at("b.csv"), "name,size\na,1\nb,2\n").unwrap();
        fs::write(at("c.jsonl"), format!("{{\"features\": [\"default\"]}}\n{text}")).unwrap();
        // These are documents, and one of them is broken.
        fs::write(at("d.jsonl"), format!("{{\"text\": null}}\n{text}")).unwrap();
        fs::write(at("e.jsonl"), format!("nonsense\n{text}")).unwrap();
        fs::write(at("f.jsonl"), format!("{text}{{\"name\": \"a\"}}\n")).unwrap();
        fs::write(at("g.jsonl"), "{\"id\": \"2\", \"features\": [[\"a\", 1]]}\n").unwrap();
        let shown = |options: ReadOptions| {
            let opener = Opener::of(options);
            let shown = Folder::new(root.path().to_path_buf(), opener).filter_map(|item| {
                Some(match item {
                    Ok(FileRecord::Document(entry)) => entry.id.unwrap_or_default(),
                    Ok(FileRecord::Other(other)) if other.what == WITHOUT_TEXT => "-".to_owned(),
                    Ok(FileRecord::Other(_)) => return None,
                    Err(bad) => bad.place.path.file_name()?.to_str()?.to_owned(),
                })
            });
            shown.collect::<Vec<_>>()
        };
        let documents = ["d.jsonl", "1", "e.jsonl", "1", "1", "f.jsonl", "2"];
        assert_eq!(shown(ReadOptions::default()), [&["-"; 3][..], &documents].concat());
        // Whoever names the field is told of each record that lacks it.
        let mapping =
            Mapping { body: Some((BodyKind::Text, "text".to_owned())), ..Mapping::default() };
        let named = shown(ReadOptions { mapping, ..ReadOptions::default() });
        assert_eq!(named[..4], ["a.json", "1", "b.csv", "c.jsonl"]);
    }

    #[test]
    fn the_progress_ends_at_the_total() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), "one text").unwrap();
        fs::write(root.path().join("b.md"), "another text").unwrap();
        fs::write(root.path().join("c.bin"), "not counted").unwrap();

        let read = BytesRead::default();
        let items = folder(root.path(), read.clone());
        let is_document = |item: &Item| matches!(item, Ok(FileRecord::Document(_)));
        let count = items.filter(is_document).count();

        assert_eq!((count, read.get()), (2, bytes(root.path())));
    }
}
