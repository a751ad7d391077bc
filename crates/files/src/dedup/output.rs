//! The copy of a file, in its format.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::Float64Array;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt8Array, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use serde::Serialize;

use crate::Format;
use crate::atomic_file::{AtomicFile, Compression};

/// What is said of a document in a marked copy.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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

const MARK: [&str; 4] = ["duplicate_of", "distance", "similarity", "group"];

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
    marks: Option<Vec<Mark>>,
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
            for name in MARK {
                line.push(self.delimiter);
                line.extend_from_slice(name.as_bytes());
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
                add_cells(&mut line, mark, self.delimiter);
            }
        }
        if self.format != Format::Json {
            line.push(b'\n');
        }
        self.write(&line)
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
            let writer = ArrowWriter::try_new(file, schema, Some(parquet_properties()))?;
            let marks = self.is_marked.then(Vec::new);
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

/// How all Parquet files of this program are compressed.
pub(super) fn parquet_properties() -> WriterProperties {
    let zstd = parquet::basic::Compression::ZSTD(parquet::basic::ZstdLevel::default());
    WriterProperties::builder().set_compression(zstd).build()
}

/// The bytes of an object with the fields of a mark behind its own.
fn add_fields(line: &mut Vec<u8>, raw: &[u8], mark: &Mark) -> io::Result<()> {
    let end = raw.iter().rposition(|&byte| byte == b'}');
    let end = end.ok_or_else(|| io::Error::other("a record is no object"))?;
    let object = raw[..end].trim_ascii_end();
    line.extend_from_slice(object);
    if object.last() != Some(&b'{') {
        line.push(b',');
    }
    let fields = serde_json::to_vec(mark)?;
    line.extend_from_slice(&fields[1..]);
    line.extend_from_slice(&raw[end + 1..]);
    Ok(())
}

fn add_cells(line: &mut Vec<u8>, mark: &Mark, delimiter: u8) {
    let number = |number: Option<f64>| number.map_or(String::new(), |number| number.to_string());
    let name = crate::quoted(mark.duplicate_of.as_deref().unwrap_or_default(), delimiter);
    let cells = [
        name.into_owned(),
        number(mark.distance.map(f64::from)),
        number(mark.similarity),
        number(mark.group.map(f64::from)),
    ];
    for cell in cells {
        line.push(delimiter);
        line.extend_from_slice(cell.as_bytes());
    }
}

fn schema(batch: &RecordBatch, is_marked: bool) -> SchemaRef {
    if !is_marked {
        return batch.schema();
    }
    let of = batch.schema();
    let kinds = [DataType::Utf8, DataType::UInt8, DataType::Float64, DataType::UInt32];
    let marks = MARK.iter().zip(kinds).map(|(name, kind)| Arc::new(Field::new(*name, kind, true)));
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
        if let Some(marks) = &mut self.marks {
            marks.extend(mark);
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let Some(batch) = self.batch.take() else { return Ok(()) };
        let wanted = BooleanArray::from(std::mem::take(&mut self.wanted));
        let mut kept =
            arrow_select::filter::filter_record_batch(&batch, &wanted).map_err(io::Error::other)?;
        if let Some(marks) = &mut self.marks {
            let marks = std::mem::take(marks);
            let names: StringArray = marks.iter().map(|m| m.duplicate_of.as_deref()).collect();
            let distances: UInt8Array = marks.iter().map(|mark| mark.distance).collect();
            let similarities: Float64Array = marks.iter().map(|mark| mark.similarity).collect();
            let groups: UInt32Array = marks.iter().map(|mark| mark.group).collect();
            let marks: [ArrayRef; 4] =
                [Arc::new(names), Arc::new(distances), Arc::new(similarities), Arc::new(groups)];
            let columns = kept.columns().iter().cloned().chain(marks).collect();
            kept = RecordBatch::try_new(schema(&kept, true), columns).map_err(io::Error::other)?;
        }
        Ok(self.writer.write(&kept)?)
    }

    fn finish(mut self) -> io::Result<AtomicFile> {
        self.write()?;
        Ok(self.writer.into_inner()?)
    }
}
