//! The copy of a file, in its format.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{ArrayRef, BinaryArray, BooleanArray, RecordBatch};
use arrow_schema::Schema;
use bytes::Bytes;
use flate2::write::GzEncoder;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter, encode_arrow_schema};
use parquet::file::metadata::KeyValue;

use crate::Format;
use crate::atomic_file::{AtomicFile, Compression};
use crate::context::Quoting;
use crate::dedup::layout::mark::{MARK, Mark, repeated_in_object};
use crate::dedup::layout::{Fit, Layout, RowLayout};
use crate::formats::parquet::as_bytes;
use crate::mapping::JsonFields;
use crate::rows::{self, Cells};

/// The level of the frames of Zstandard in a web archive.
const FRAME_LEVEL: i32 = 3;

/// A file that is being written, and is there once it is whole.
pub struct Output {
    path: PathBuf,
    format: Format,
    is_marked: bool,
    /// How each record of a web archive is compressed, which is by itself.
    members: Option<Compression>,
    /// `None` for Parquet without a file that could be read, and so without columns.
    sink: Option<Sink>,
    layout: Layout,
    has_header: bool,
    /// How the records of the current file get into the copy.
    fit: Fit,
    records: u64,
    /// The pieces of a long record, until it is known to be whole.
    pieces: Option<File>,
}

/// Where the records go.
enum Sink {
    Bytes(AtomicFile),
    Rows(Box<Rows>),
}

/// Rows of a Parquet file. Those of one batch are written together.
struct Rows {
    writer: ArrowWriter<AtomicFile>,
    layout: Arc<RowLayout>,
    /// With the columns of marks, and with bytes for texts.
    schema: Arc<Schema>,
    batch: Option<Arc<RecordBatch>>,
    wanted: Vec<bool>,
    marks: Option<Cells>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Output {
    /// Begins a copy in this format with these columns, compressed as its name says. Nothing is at
    /// `path` until [`Self::finish`].
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(
        path: &Path,
        format: Format,
        is_marked: bool,
        layout: Layout,
    ) -> io::Result<Self> {
        let compression = Compression::of(path);
        let by_record = matches!(compression, Some(Compression::Gzip | Compression::Zstd));
        let members = compression.filter(|_| format == Format::Warc && by_record);
        let mut output = Self {
            path: path.to_owned(),
            format,
            is_marked,
            members,
            sink: None,
            layout,
            has_header: false,
            fit: Fit::AsTheyAre,
            records: 0,
            pieces: None,
        };
        if let Layout::Rows(layout) = &output.layout {
            let rows = Rows::create(path, layout, is_marked)?;
            output.sink = Some(Sink::Rows(Box::new(rows)));
        } else if format != Format::Parquet {
            let whole = compression.filter(|_| members.is_none());
            output.sink = Some(Sink::Bytes(AtomicFile::create(path, whole)?));
        }
        if format == Format::Json {
            output.write(b"[")?;
        }
        Ok(output)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(Sink::Bytes(file)) = &mut self.sink else {
            return Err(io::Error::other("rows have no bytes"));
        };
        match self.members {
            Some(Compression::Gzip) => {
                let mut member = GzEncoder::new(file, flate2::Compression::default());
                member.write_all(bytes)?;
                member.finish().map(drop)
            }
            Some(_) => file.write_all(&zstd::bulk::compress(bytes, FRAME_LEVEL)?),
            None => file.write_all(bytes),
        }
    }

    /// The first line of a table, which the copy has once.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn header(&mut self, header: &Bytes, file: &Path) -> io::Result<()> {
        let Layout::Table(layout) = &self.layout else { return Ok(()) };
        self.fit = layout.fit(file);
        if std::mem::replace(&mut self.has_header, true) {
            return Ok(());
        }
        let fitted = self.fit.fitted(header);
        let mut line = fitted.map_or_else(|| header.to_vec(), std::borrow::Cow::into_owned);
        if self.is_marked {
            let delimiter = layout.dialect().delimiter;
            for column in &MARK {
                line.push(delimiter);
                line.extend_from_slice(column.name.as_bytes());
            }
        }
        line.push(b'\n');
        self.write(&line)
    }

    /// A field of a mark that a record has already.
    pub(super) fn repeated_field(&self, raw: &[u8]) -> Option<&'static str> {
        let is_object = matches!(self.format, Format::Ndjson | Format::Json);
        is_object.then(|| repeated_in_object(raw)).flatten()
    }

    /// A record that could not be read, as its file has it. Returns whether the copy has it: a
    /// record with other cells than its table cannot get the order of another one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn unreadable(&mut self, raw: &Bytes) -> io::Result<bool> {
        if self.fit.fitted(raw).is_none() {
            return Ok(false);
        }
        let is_object = || str::from_utf8(raw).is_ok_and(|raw| JsonFields::parse(raw).is_ok());
        let is_markable = match self.format {
            Format::Csv | Format::Tsv => true,
            Format::Ndjson | Format::Json => is_object(),
            Format::Parquet | Format::Warc | Format::Hex | Format::Lines | Format::Document => {
                false
            }
        };
        let mark = (self.is_marked && is_markable).then(Mark::default);
        self.record(raw, mark.as_ref())?;
        Ok(true)
    }

    /// A record as its file has it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn record(&mut self, raw: &Bytes, mark: Option<&Mark>) -> io::Result<()> {
        let is_first = self.records == 0;
        self.records += 1;
        self.pieces = None;
        if self.format == Format::Warc {
            return self.write(raw);
        }
        let fitted = self.fit.fitted(raw);
        let raw = fitted.as_deref().ok_or_else(|| io::Error::other("a record has changed"))?;
        let mut line = Vec::with_capacity(raw.len() + 80);
        if self.format == Format::Json {
            line.extend_from_slice(if is_first { b"\n" } else { b",\n" });
        }
        match (self.format, mark) {
            (_, None) => line.extend_from_slice(raw),
            (Format::Ndjson | Format::Json, Some(mark)) => mark.add_to_object(raw, &mut line)?,
            (_, Some(mark)) => {
                line.extend_from_slice(raw);
                self.add_cells(mark, &mut line)?;
            }
        }
        if self.format != Format::Json {
            line.push(b'\n');
        }
        self.write(&line)
    }

    /// A piece of a long record of a web archive. A record whose last piece never comes is not
    /// written.
    ///
    /// # Errors
    /// The file, or a temporary one, cannot be written.
    pub fn piece(&mut self, piece: &Bytes, is_last: bool) -> io::Result<()> {
        let mut pieces = match self.pieces.take() {
            Some(pieces) => pieces,
            None => tempfile::tempfile()?,
        };
        pieces.write_all(piece)?;
        if !is_last {
            self.pieces = Some(pieces);
            return Ok(());
        }
        pieces.rewind()?;
        self.records += 1;
        let Some(Sink::Bytes(file)) = &mut self.sink else {
            return Err(io::Error::other("rows have no pieces"));
        };
        match self.members {
            Some(Compression::Gzip) => {
                let mut member = GzEncoder::new(file, flate2::Compression::default());
                io::copy(&mut pieces, &mut member)?;
                member.finish().map(drop)
            }
            Some(_) => zstd::stream::copy_encode(pieces, file, FRAME_LEVEL),
            None => io::copy(&mut pieces, file).map(drop),
        }
    }

    /// The cells of a mark after those of a record.
    fn add_cells(&self, mark: &Mark, line: &mut Vec<u8>) -> io::Result<()> {
        let Layout::Table(layout) = &self.layout else {
            return Err(io::Error::other("other records have no cells"));
        };
        let dialect = layout.dialect();
        line.push(dialect.delimiter);
        if dialect.quoting == Some(Quoting::None)
            && let Some(name) = &mark.duplicate_of
        {
            // Nothing is quoted; a name that is no cell of such a table loses what ends one.
            let plain = name.replace(['\t', '\n', '\r'], " ");
            line.extend_from_slice(plain.as_bytes());
            let unnamed = Mark { duplicate_of: None, ..mark.clone() };
            return rows::write_csv(MARK.iter().zip(unnamed.cells()), dialect.delimiter, line);
        }
        rows::write_csv(MARK.iter().zip(mark.cells()), dialect.delimiter, line)
    }

    /// A row of a batch. Batches must come one after the other.
    ///
    /// # Errors
    /// The file cannot be written, or has other columns than those of the copy.
    pub fn row(
        &mut self,
        batch: &Arc<RecordBatch>,
        row: usize,
        mark: Option<Mark>,
    ) -> io::Result<()> {
        self.records += 1;
        let Some(Sink::Rows(rows)) = &mut self.sink else {
            return Err(io::Error::other("rows and other records do not fit into one file"));
        };
        rows.add(batch, row, mark)
    }

    /// Makes the file whole, and gives it its name. Returns its bytes.
    ///
    /// # Errors
    /// The file cannot be written. Nothing is at its path then.
    pub fn finish(mut self) -> io::Result<u64> {
        if self.format == Format::Json {
            self.write(if self.records == 0 { b"]\n" } else { b"\n]\n" })?;
        }
        match self.sink.take() {
            Some(Sink::Bytes(file)) => file.finish(),
            Some(Sink::Rows(rows)) => rows.finish()?.finish(),
            // No file could be read, so there are no columns either.
            None => AtomicFile::create(&self.path, None)?.finish(),
        }
    }
}

impl Rows {
    fn create(path: &Path, layout: &Arc<RowLayout>, is_marked: bool) -> io::Result<Self> {
        let of = layout.schema();
        let marks = is_marked.then(|| rows::fields(&MARK).map(Arc::new)).into_iter().flatten();
        let fields: Vec<_> = of.fields().iter().cloned().chain(marks).collect();
        let declared = Schema::new_with_metadata(fields, of.metadata().clone());
        let mut metadata = layout.metadata();
        let types = encode_arrow_schema(&declared);
        metadata.push(KeyValue::new(ARROW_SCHEMA_META_KEY.to_owned(), types));
        let footer = (Some(layout.stored(&declared)?), metadata);
        let schema = Arc::new(Schema::new(as_bytes(declared.fields())));
        let file = AtomicFile::create(path, None)?;
        Ok(Self {
            writer: rows::parquet_writer(file, Arc::clone(&schema), footer)?,
            layout: Arc::clone(layout),
            schema,
            batch: None,
            wanted: Vec::new(),
            marks: is_marked.then(|| Cells::new(&MARK)),
        })
    }

    fn add(&mut self, batch: &Arc<RecordBatch>, row: usize, mark: Option<Mark>) -> io::Result<()> {
        if self.batch.as_ref().is_none_or(|known| !Arc::ptr_eq(known, batch)) {
            self.write()?;
            self.batch = Some(Arc::clone(batch));
            self.wanted = vec![false; batch.num_rows()];
        }
        self.wanted[row] = true;
        if let (Some(marks), Some(mark)) = (&mut self.marks, mark) {
            marks.add(mark.cells());
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(batch) = self.batch.take() else { return Ok(()) };
        let wanted = BooleanArray::from(std::mem::take(&mut self.wanted));
        let kept =
            arrow_select::filter::filter_record_batch(&batch, &wanted).map_err(io::Error::other)?;
        let mut kept = self.layout.fitted(kept)?;
        if let Some(marks) = &mut self.marks {
            // The names of documents are bytes, too.
            let marks = marks.take().map(|cells| match cells.as_string_opt::<i32>() {
                Some(names) => Arc::new(BinaryArray::from(names.clone())) as ArrayRef,
                None => cells,
            });
            let columns = kept.columns().iter().cloned().chain(marks).collect();
            kept = RecordBatch::try_new(Arc::clone(&self.schema), columns)
                .map_err(io::Error::other)?;
        }
        Ok(self.writer.write(&kept)?)
    }

    fn finish(mut self) -> io::Result<AtomicFile> {
        self.write()?;
        Ok(self.writer.into_inner()?)
    }
}
