//! Reads a folder and everything below it: one document a file, with its path as id, and one
//! document a line of each NDJSON file.
//!
//! The name of a file decides whether it is read ([`Kind`]); binary files, empty files and symbolic
//! links are skipped. Names are sorted within each folder, so that two runs give the same order.

use std::io::BufRead as _;
use std::path::{Path, PathBuf};

use walkdir::{DirEntry, WalkDir};

use super::entry::{BadEntry, Body, Entry, Place};
use super::files::{self, BytesRead};
use super::lines::ByLine;
use super::names::Kind;
use super::{content, foreign, ndjson};

/// Reads the documents of a folder.
pub(super) struct Folder {
    walk: walkdir::IntoIter,
    /// The NDJSON file that is being read.
    lines: Option<ByLine>,
    root: PathBuf,
    bytes: BytesRead,
}

impl Folder {
    pub(super) fn new(root: PathBuf, bytes: BytesRead) -> Self {
        let walk = WalkDir::new(&root).sort_by_file_name().into_iter();
        Self { walk, lines: None, root, bytes }
    }

    /// The document of a file, or the first one of an NDJSON file.
    fn read(&mut self, file: &DirEntry, kind: Kind) -> Option<Result<Entry, BadEntry>> {
        let path = file.path();
        let mut source = match files::open(path, &self.bytes) {
            Ok(source) => source,
            Err(error) => return Some(Err(Place::file(path).bad(error))),
        };
        if kind == Kind::Ndjson {
            return self.lines.insert(ByLine::new(source, ndjson::parse, path)).next();
        }
        if kind == Kind::Text
            && let Ok(head) = source.fill_buf()
            && let Some(lines) = content::lines_in_text(head)
        {
            return Some(Err(Place::file(path).bad(foreign::misnamed(lines))));
        }
        let is_blank = |entry: &Entry| match &entry.body {
            Body::Text(text) | Body::Html(text) => text.trim().is_empty(),
            Body::Features(_) | Body::Vector(_) | Body::Fingerprint(_) => false,
        };
        let entry = files::read_entry(path, source.as_mut(), kind).transpose()?;
        Some(entry).filter(|entry| !entry.as_ref().is_ok_and(is_blank))
    }
}

impl Iterator for Folder {
    type Item = Result<Entry, BadEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.lines.as_mut().and_then(Iterator::next) {
                return Some(entry);
            }
            match self.walk.next()? {
                Ok(file) => {
                    if let Some(kind) = kind_of(&file)
                        && let Some(entry) = self.read(&file, kind)
                    {
                        return Some(entry);
                    }
                }
                Err(error) => {
                    let path = error.path().unwrap_or(&self.root);
                    return Some(Err(Place::file(path).bad(&error)));
                }
            }
        }
    }
}

/// The bytes of all files that [`Folder`] would read. Reads the metadata of each file.
pub(super) fn bytes(root: &Path) -> u64 {
    WalkDir::new(root)
        .into_iter()
        .filter_map(Result::ok)
        .filter(|file| kind_of(file).is_some())
        .filter_map(|file| file.metadata().ok())
        .map(|metadata| metadata.len())
        .sum()
}

fn kind_of(file: &DirEntry) -> Option<Kind> {
    let kind = Kind::of(file.path());
    let is_read = match kind {
        Kind::Text | Kind::Html | Kind::Manual | Kind::Ndjson => true,
        // Other programs write files of hex lines too, and those are no fingerprints.
        Kind::Hex | Kind::Json | Kind::Foreign(_) | Kind::Other => false,
    };
    (file.file_type().is_file() && is_read).then_some(kind)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

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
        fs::write(at("table.csv"), "id,text\n").unwrap();
        symlink(at("a.md"), at("link.md")).unwrap();
        symlink(root.path(), at("b/loop")).unwrap();

        let bytes = BytesRead::default();
        let read: Vec<_> = Folder::new(root.path().to_path_buf(), bytes)
            .map(|entry| entry.unwrap().id.unwrap())
            .collect();

        let expected =
            ["a.md", "b/deep/LICENSE", "page.html"].map(|name| at(name).display().to_string());
        assert_eq!(read, expected);
    }

    #[test]
    fn ndjson_files_are_read_line_by_line() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::write(at("a.txt"), "a text").unwrap();
        fs::write(at("b.jsonl"), "{\"id\": \"1\", \"text\": \"t\"}\nnonsense\n").unwrap();
        fs::write(at("c.ndjson"), "{\"id\": \"2\", \"text\": \"t\"}\n").unwrap();
        fs::write(at("d.ndjson"), "").unwrap();
        fs::write(at("e.txt"), "another text").unwrap();

        let bytes = BytesRead::default();
        let read: Vec<_> = Folder::new(root.path().to_path_buf(), bytes).collect();

        let ids: Vec<_> = read.iter().flatten().filter_map(|entry| entry.id.as_deref()).collect();
        let (a, e) = (at("a.txt").display().to_string(), at("e.txt").display().to_string());
        assert_eq!(ids, [a.as_str(), "1", "2", e.as_str()]);
        assert_eq!(read[2].as_ref().unwrap_err().place.line, Some(2));
    }

    #[test]
    fn the_progress_ends_at_the_total() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), "one text").unwrap();
        fs::write(root.path().join("b.md"), "another text").unwrap();
        fs::write(root.path().join("c.bin"), "not counted").unwrap();

        let read = BytesRead::default();
        let count = Folder::new(root.path().to_path_buf(), read.clone()).count();

        assert_eq!((count, read.get()), (2, bytes(root.path())));
    }
}
