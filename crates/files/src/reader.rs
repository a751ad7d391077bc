//! Opens a file with the reader that fits it.

use std::io::{self, BufRead as _};
use std::iter;
use std::path::Path;
use std::sync::Arc;

use super::context::{Context, File, FingerprintSample};
use super::detect::names::NameKind;
use super::detect::{Format, content, foreign};
use super::entry::{BadEntry, FileRecord, Item, Place};
use super::formats::array::JsonArray;
use super::formats::document;
use super::formats::lines::{Lines, TextLine};
use super::formats::parquet::Rows;
use super::formats::table::{self, TableRows};
use super::formats::warc::Archive;
use super::mapping::BodyKind;
use super::source::{self, ByteSource, BytesRead, Charset, SavedStreams, Window, is_stream};
use crate::ReadOptions;

/// How many bytes of a file are looked at to learn how its fingerprints are written.
const PROBED_MAX: usize = 64 << 10;
/// The name of the field is within so many bytes.
const NAME_WITHIN: usize = 4 << 10;

/// What a reader yields, boxed because the format is known only at run time.
pub(super) type Items = Box<dyn Iterator<Item = Item> + Send>;

/// Opens files, all with the same options.
#[derive(Clone)]
pub(super) struct Opener {
    pub(super) format: Option<Format>,
    pub(super) context: Arc<Context>,
    /// What came from streams.
    pub(super) saved: SavedStreams,
    pub(super) bytes: BytesRead,
}

impl Opener {
    pub(super) fn of(options: ReadOptions) -> Self {
        Self {
            format: options.format,
            context: Context::of(&options),
            saved: options.saved,
            bytes: BytesRead::default(),
        }
    }

    /// Opens a file. Without a format, its content or else its name decides.
    ///
    /// # Errors
    /// The file cannot be read, or no reader understands it.
    pub(super) fn open(&self, path: &Path) -> Result<Items, BadEntry> {
        let source = source::open(path, &self.saved, &self.bytes);
        self.read(path, source.map_err(|error| Place::file(path).bad(error))?)
    }

    /// Reads a source that is named like `path`.
    ///
    /// # Errors
    /// The source cannot be read, or no reader understands it.
    pub(super) fn read(&self, path: &Path, source: ByteSource) -> Result<Items, BadEntry> {
        let bad = |why: &dyn std::fmt::Display| Place::file(path).bad(why);
        let decoded = in_utf8(source, self.context.charset);
        let (mut source, charset) = decoded.map_err(|error| bad(&error))?;
        let head = source.fill_buf().map_err(|error| bad(&error))?;
        if head.is_empty() {
            return Ok(Box::new(iter::empty()));
        }
        let format = match (self.format, foreign::refused(head)) {
            (Some(_), Some(why)) => Err(why),
            (Some(format), None) => Ok(format),
            (None, _) => Format::of(path, head),
        };
        let format = format.map_err(|why| bad(&why))?;
        if format == Format::Parquet {
            return self.open_rows(path, File::new(&self.context, path, "Parquet", "row"));
        }
        if format == Format::Document {
            return Ok(Box::new(iter::once(one_document(source, path, charset))));
        }
        if let Some(charset) = charset {
            self.context.say(path, &format!("{}, read as UTF-8", charset.name()));
        }
        let begins = head[..head.len().min(PROBED_MAX)].to_vec();
        let mut file = self.file(path, format);
        if let Some(sample) = probed(&file, format, begins) {
            file.sample_fingerprints(&sample);
        }
        let delimiter = delimiter(&self.context, format, head);
        Ok(records(file, format, delimiter, source))
    }

    fn file(&self, path: &Path, format: Format) -> File {
        let (name, unit) = match format {
            Format::Ndjson => ("NDJSON", "line"),
            Format::Hex => ("lines of hex", "line"),
            Format::Lines => ("lines of text", "line"),
            Format::Json => ("a JSON array", "record"),
            Format::Csv => ("CSV", "record"),
            Format::Tsv => ("TSV", "record"),
            Format::Warc => ("a web archive", "record"),
            Format::Parquet => ("Parquet", "row"),
            Format::Document => ("a document", "file"),
        };
        File::new(&self.context, path, name, unit)
    }

    /// The records of a table whose shape is wanted before they are read.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn table(&self, path: &Path, format: Format) -> io::Result<TableRows> {
        let source = source::open(path, &self.saved, &self.bytes)?;
        let (mut source, _) = in_utf8(source, self.context.charset)?;
        let delimiter = delimiter(&self.context, format, source.fill_buf()?);
        Ok(TableRows::new(self.file(path, format), Window::new(source), delimiter))
    }

    fn open_rows(&self, path: &Path, file: File) -> Result<Items, BadEntry> {
        let bad = |why: &dyn std::fmt::Display| Place::file(path).bad(why);
        check_stream(path, Format::Parquet)?;
        match Rows::open(file, path, self.bytes.clone()) {
            Ok(rows) => Ok(Box::new(rows)),
            Err(error) => Err(bad(&format!(
                "is Parquet that cannot be read: broken, cut off, or compressed as a whole: {error}"
            ))),
        }
    }
}

/// Refuses Parquet from a stream.
///
/// # Errors
/// It is that.
pub(super) fn check_stream(path: &Path, format: Format) -> Result<(), BadEntry> {
    if format == Format::Parquet && is_stream(path) {
        let why = "is a stream, and Parquet is read from its end: save it as a file, and name that";
        return Err(Place::file(path).bad(why));
    }
    Ok(())
}

/// The readers of text.
fn records(file: File, format: Format, delimiter: u8, source: ByteSource) -> Items {
    let window = Window::new(source);
    match format {
        Format::Ndjson => Box::new(Lines::new(file, window, TextLine::Object)),
        Format::Hex => Box::new(Lines::new(file, window, TextLine::Hex)),
        Format::Lines => Box::new(Lines::new(file, window, TextLine::Text)),
        Format::Json => Box::new(JsonArray::new(file, window)),
        Format::Csv | Format::Tsv => Box::new(TableRows::new(file, window, delimiter)),
        Format::Warc => Box::new(Archive::new(file, window)),
        Format::Parquet | Format::Document => Box::new(iter::empty()),
    }
}

fn delimiter(context: &Context, format: Format, head: &[u8]) -> u8 {
    let is_tsv = format == Format::Tsv;
    let found = || if is_tsv { b'\t' } else { table::delimiter(content::trimmed(head)) };
    context.delimiter.unwrap_or_else(found)
}

/// A source of UTF-8, and the encoding that it was in before, if it was another one. Web archives
/// and Parquet have their own rules.
///
/// # Errors
/// The source cannot be read.
pub(super) fn in_utf8(
    mut source: ByteSource,
    named: Option<Charset>,
) -> io::Result<(ByteSource, Option<Charset>)> {
    let head = source.fill_buf()?;
    if let Some(name) = Charset::utf_32(head) {
        let why = format!("is {name}: convert it with iconv -f {name} -t UTF-8, and read that");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let is_own = head.starts_with(b"PAR1") || head.starts_with(b"WARC/");
    let charset = Charset::of_mark(head).or(named).filter(|_| !is_own);
    Ok(match charset {
        Some(charset) => (charset.decoded(source), Some(charset)),
        None => (source, None),
    })
}

/// What the records at the beginning of a file show of how its fingerprints are written; `None` if
/// they have none.
fn probed(file: &File, format: Format, begins: Vec<u8>) -> Option<FingerprintSample> {
    let is_named = matches!(file.mapping().body, Some((BodyKind::Fingerprint, _)));
    let name = b"fingerprint";
    let start = &begins[..begins.len().min(NAME_WITHIN)];
    let has_name = || start.windows(name.len()).any(|word| word.eq_ignore_ascii_case(name));
    let has_fields = matches!(format, Format::Ndjson | Format::Json | Format::Csv | Format::Tsv);
    if !has_fields || !is_named && !has_name() {
        return None;
    }
    let (probe, sample) = file.probe();
    let delimiter = delimiter(&file.context, format, &begins);
    records(probe, format, delimiter, Box::new(io::Cursor::new(begins))).for_each(drop);
    Arc::into_inner(sample)?.into_inner().ok()
}

fn one_document(mut source: ByteSource, path: &Path, charset: Option<Charset>) -> Item {
    let head = source.fill_buf().map_err(|error| Place::file(path).bad(error))?;
    let mut kind = NameKind::of(path);
    if kind == NameKind::Other && content::begins_like_html(head) {
        kind = NameKind::Html;
    }
    // It was decoded already: what a page declares does not count.
    let label = charset.map(|_| "utf-8");
    let entry = document::read_entry(path, source.as_mut(), (kind, label))?;
    entry.map(FileRecord::Document).ok_or_else(|| Place::file(path).bad("is a binary file"))
}
