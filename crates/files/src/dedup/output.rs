//! The copy of a file, in its format.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;

use crate::Format;
use crate::atomic_file::{AtomicFile, Compression};
use crate::rows::{self, Cell, CellKind, Cells, RowColumn};

/// What is said of a document in a marked copy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mark {
    /// The name of the document that stands for its group; `None` for that one, and for a document
    /// without near-duplicates.
    pub duplicate_of: Option<Box<str>>,
    /// The distance to it.
    pub distance: Option<u8>,
    /// The similarity to it, 0 to 1, if both are texts that were compared.
    pub similarity: Option<f64>,
    /// The number of its group, counted from 1, the largest first.
    pub group: Option<u32>,
}

/// The level of the frames of Zstandard in a web archive.
const FRAME_LEVEL: i32 = 3;

static MARK: [RowColumn; 4] = [
    RowColumn::optional("duplicate_of", CellKind::Text),
    RowColumn::optional("distance", CellKind::UInt8),
    RowColumn::optional("similarity", CellKind::Float64),
    RowColumn::optional("group", CellKind::UInt32),
];

impl Mark {
    fn cells(&self) -> [Cell<'_>; 4] {
        let (distance, group) = (self.distance.map(u64::from), self.group.map(u64::from));
        let name = self.duplicate_of.as_deref();
        [name.into(), distance.into(), self.similarity.into(), group.into()]
    }
}

/// A file that is being written, and is there once it is whole.
pub struct Output {
    path: PathBuf,
    format: Format,
    is_marked: bool,
    /// How each record of a web archive is compressed, which is by itself.
    members: Option<Compression>,
    /// Not open yet: a Parquet file needs the schema of its first batch.
    sink: Option<Sink>,
    header: Option<Bytes>,
    delimiter: u8,
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
    /// Begins a copy in this format, compressed as its name says. Nothing is at `path` until
    /// [`Self::finish`].
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path, format: Format, is_marked: bool) -> io::Result<Self> {
        let compression = Compression::of(path);
        let by_record = matches!(compression, Some(Compression::Gzip | Compression::Zstd));
        let members = compression.filter(|_| format == Format::Warc && by_record);
        let mut output = Self {
            path: path.to_owned(),
            format,
            is_marked,
            members,
            sink: None,
            header: None,
            delimiter: b',',
            records: 0,
            pieces: None,
        };
        if format != Format::Parquet {
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

    /// The first line of a table. All tables of one copy must have the same.
    ///
    /// # Errors
    /// The file cannot be written, or the header is another one.
    pub fn header(&mut self, header: &Bytes) -> io::Result<()> {
        if let Some(known) = &self.header {
            if known == header {
                return Ok(());
            }
            let why = "the files have different headers, so they do not fit into one table";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        self.delimiter = if self.format == Format::Tsv { b'\t' } else { crate::delimiter(header) };
        self.header = Some(header.clone());
        let mut line = header.to_vec();
        if self.is_marked {
            for column in &MARK {
                line.push(self.delimiter);
                line.extend_from_slice(column.name.as_bytes());
            }
        }
        line.push(b'\n');
        self.write(&line)
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
        let mut line = Vec::with_capacity(raw.len() + 80);
        if self.format == Format::Json {
            line.extend_from_slice(if is_first { b"\n" } else { b",\n" });
        }
        match (self.format, mark) {
            (_, None) => line.extend_from_slice(raw),
            (Format::Ndjson | Format::Json, Some(mark)) => add_fields(&mut line, raw, mark)?,
            (_, Some(mark)) => {
                line.extend_from_slice(raw);
                line.push(self.delimiter);
                rows::write_csv(MARK.iter().zip(mark.cells()), self.delimiter, &mut line)?;
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

    /// A row of a batch. Batches must come one after the other.
    ///
    /// # Errors
    /// The file cannot be written, or has another schema.
    pub fn row(
        &mut self,
        batch: &Arc<RecordBatch>,
        row: usize,
        mark: Option<Mark>,
    ) -> io::Result<()> {
        self.records += 1;
        if self.sink.is_none() {
            let schema = schema(batch, self.is_marked);
            let file = AtomicFile::create(&self.path, None)?;
            let writer = rows::parquet_writer(file, schema)?;
            let marks = self.is_marked.then(|| Cells::new(&MARK));
            let rows = Rows { writer, batch: None, wanted: Vec::new(), marks };
            self.sink = Some(Sink::Rows(Box::new(rows)));
        }
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
            // No row came, so there is no schema either.
            None => AtomicFile::create(&self.path, None)?.finish(),
        }
    }
}

/// The bytes of an object with the fields of a mark after its own.
fn add_fields(line: &mut Vec<u8>, raw: &[u8], mark: &Mark) -> io::Result<()> {
    let end = raw.iter().rposition(|&byte| byte == b'}');
    let end = end.ok_or_else(|| io::Error::other("a record is no object"))?;
    let object = raw[..end].trim_ascii_end();
    line.extend_from_slice(object);
    if object.last() != Some(&b'{') {
        line.push(b',');
    }
    rows::write_json(MARK.iter().zip(mark.cells()), line)?;
    line.extend_from_slice(&raw[end..]);
    Ok(())
}

fn schema(batch: &RecordBatch, is_marked: bool) -> SchemaRef {
    if !is_marked {
        return batch.schema();
    }
    let of = batch.schema();
    let marks = rows::fields(&MARK).map(Arc::new);
    let fields: Vec<_> = of.fields().iter().cloned().chain(marks).collect();
    Arc::new(Schema::new_with_metadata(fields, of.metadata().clone()))
}

impl Rows {
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
        let mut kept =
            arrow_select::filter::filter_record_batch(&batch, &wanted).map_err(io::Error::other)?;
        if let Some(marks) = &mut self.marks {
            let columns = kept.columns().iter().cloned().chain(marks.take()).collect();
            kept = RecordBatch::try_new(schema(&kept, true), columns).map_err(io::Error::other)?;
        }
        Ok(self.writer.write(&kept)?)
    }

    fn finish(mut self) -> io::Result<AtomicFile> {
        self.write()?;
        Ok(self.writer.into_inner()?)
    }
}
