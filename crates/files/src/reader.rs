//! Opens a file with the reader that fits it.

use std::io::BufRead as _;
use std::iter;
use std::path::Path;
use std::sync::Arc;

use super::context::{Context, File};
use super::detect::names::NameKind;
use super::detect::{Format, content, foreign};
use super::entry::{BadEntry, FileRecord, Item, Place};
use super::formats::array::JsonArray;
use super::formats::document;
use super::formats::lines::{Lines, TextLine};
use super::formats::parquet::Rows;
use super::formats::table::{self, TableRows};
use super::formats::warc::Archive;
use super::source::{self, ByteSource, BytesRead, Window};

/// What a reader yields, boxed because the format is known only at run time.
pub(super) type Items = Box<dyn Iterator<Item = Item> + Send>;

/// Opens files, all with the same options.
#[derive(Clone)]
pub(super) struct Opener {
    pub(super) format: Option<Format>,
    pub(super) context: Arc<Context>,
    /// What came from the standard input.
    pub(super) saved_input: Option<Arc<std::fs::File>>,
    pub(super) bytes: BytesRead,
}

impl Opener {
    /// Opens a file. Without a format, its content or else its name decides.
    ///
    /// # Errors
    /// The file cannot be read, or no reader understands it.
    pub(super) fn open(&self, path: &Path) -> Result<Items, BadEntry> {
        let source = source::open(path, self.saved_input.as_ref(), &self.bytes);
        self.read(path, source.map_err(|error| Place::file(path).bad(error))?)
    }

    /// Reads a source that is named like `path`.
    ///
    /// # Errors
    /// The source cannot be read, or no reader understands it.
    pub(super) fn read(&self, path: &Path, mut source: ByteSource) -> Result<Items, BadEntry> {
        let bad = |why: &dyn std::fmt::Display| Place::file(path).bad(why);
        let head = source.fill_buf().map_err(|error| bad(&error))?;
        if head.is_empty() {
            return Ok(Box::new(iter::empty()));
        }
        let format = match (self.format, foreign::by_content(head)) {
            (Some(_), Some(foreign)) => Err(foreign::refusal(foreign)),
            (Some(format), None) => Ok(format),
            (None, _) => Format::of(path, head),
        };
        let format = format.map_err(|why| bad(&why))?;
        let delimiter = table::delimiter(content::trimmed(head));
        let file = |format, unit| File::new(&self.context, path, format, unit);
        let lines = |format, line, source| {
            Box::new(Lines::new(file(format, "line"), Window::new(source), line))
        };
        Ok(match format {
            Format::Ndjson => lines("NDJSON", TextLine::Object, source),
            Format::Hex => lines("lines of hex", TextLine::Hex, source),
            Format::Lines => lines("lines of text", TextLine::Text, source),
            Format::Json => {
                Box::new(JsonArray::new(file("a JSON array", "record"), Window::new(source)))
            }
            Format::Csv => {
                Box::new(TableRows::new(file("CSV", "record"), Window::new(source), delimiter))
            }
            Format::Tsv => {
                Box::new(TableRows::new(file("TSV", "record"), Window::new(source), b'\t'))
            }
            Format::Warc => {
                Box::new(Archive::new(file("a web archive", "record"), Window::new(source)))
            }
            Format::Parquet => self.open_rows(path, file("Parquet", "row"))?,
            Format::Document => Box::new(iter::once(one_document(source, path))),
        })
    }

    fn open_rows(&self, path: &Path, file: File) -> Result<Items, BadEntry> {
        let bad = |why: &dyn std::fmt::Display| Place::file(path).bad(why);
        if path == Path::new("-") {
            return Err(bad(&"Parquet is read from its end: save it as a file, and name that"));
        }
        match Rows::open(file, path, self.bytes.clone()) {
            Ok(rows) => Ok(Box::new(rows)),
            Err(error) => Err(bad(&format!(
                "is Parquet that cannot be read: broken, cut off, or compressed as a whole: {error}"
            ))),
        }
    }
}

fn one_document(mut source: ByteSource, path: &Path) -> Item {
    let head = source.fill_buf().map_err(|error| Place::file(path).bad(error))?;
    let mut kind = NameKind::of(path);
    if kind == NameKind::Other && content::begins_like_html(head) {
        kind = NameKind::Html;
    }
    let entry = document::read_entry(path, source.as_mut(), kind)?;
    entry.map(FileRecord::Document).ok_or_else(|| Place::file(path).bad("is a binary file"))
}
