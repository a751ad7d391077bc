//! The copy: one file in the format of its input.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use arrow_array::Float64Array;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt8Array, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use serde::Serialize;
use std::sync::Arc;

use crate::bulk::{self, Format};

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

const MARK: [&str; 4] = ["duplicate_of", "distance", "similarity", "group"];

/// Where the bytes go.
enum Sink {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
    Zstd(Box<zstd::Encoder<'static, BufWriter<File>>>),
    Parquet(Box<Rows>),
}

/// Rows of a Parquet file. Those of one batch are written together.
struct Rows {
    writer: ArrowWriter<BufWriter<File>>,
    batch: Option<Arc<RecordBatch>>,
    wanted: Vec<bool>,
    marks: Option<Vec<Mark>>,
}

/// A file that is being written.
pub struct Output {
    path: PathBuf,
    partial: PathBuf,
    format: Format,
    is_marked: bool,
    /// Each record of a web archive is compressed by itself.
    is_archive_of_members: bool,
    /// Not open yet: a Parquet file needs the schema of its first batch.
    sink: Option<Sink>,
    header: Option<Bytes>,
    delimiter: u8,
    records: u64,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Output {
    /// Begins a copy in this format. Nothing is at `path` until [`Self::finish`].
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path, format: Format, is_marked: bool) -> io::Result<Self> {
        let mut partial = OsString::from(path);
        partial.push(".partial");
        let mut output = Self {
            path: path.to_owned(),
            partial: partial.into(),
            format,
            is_marked,
            is_archive_of_members: false,
            sink: None,
            header: None,
            delimiter: b',',
            records: 0,
        };
        if format != Format::Parquet {
            let file = output.open()?;
            let ending = path.extension().and_then(|ending| ending.to_str());
            output.sink = Some(match ending {
                Some("gz") if format == Format::Warc => {
                    output.is_archive_of_members = true;
                    Sink::Plain(file)
                }
                Some("gz") => Sink::Gzip(Box::new(GzEncoder::new(file, Compression::default()))),
                Some("zst") => Sink::Zstd(Box::new(zstd::Encoder::new(file, 3)?)),
                _ => Sink::Plain(file),
            });
        }
        if format == Format::Json {
            output.write(b"[")?;
        }
        Ok(output)
    }

    /// A leftover of a run that was killed is overwritten.
    #[expect(clippy::disallowed_methods, reason = "a file of the user")]
    fn open(&self) -> io::Result<BufWriter<File>> {
        File::create(&self.partial).map(|file| BufWriter::with_capacity(1 << 20, file))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.sink {
            Some(Sink::Plain(file)) if self.is_archive_of_members => {
                let mut member = GzEncoder::new(file, Compression::default());
                member.write_all(bytes)?;
                member.finish().map(drop)
            }
            Some(Sink::Plain(file)) => file.write_all(bytes),
            Some(Sink::Gzip(file)) => file.write_all(bytes),
            Some(Sink::Zstd(file)) => file.write_all(bytes),
            Some(Sink::Parquet(_)) | None => Err(io::Error::other("rows have no bytes")),
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
        self.delimiter = if self.format == Format::Tsv { b'\t' } else { bulk::delimiter(header) };
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
            let properties = WriterProperties::builder()
                .set_compression(parquet::basic::Compression::ZSTD(
                    parquet::basic::ZstdLevel::default(),
                ))
                .build();
            let writer = ArrowWriter::try_new(self.open()?, schema, Some(properties))?;
            let marks = self.is_marked.then(Vec::new);
            let rows = Rows { writer, batch: None, wanted: Vec::new(), marks };
            self.sink = Some(Sink::Parquet(Box::new(rows)));
        }
        let Some(Sink::Parquet(rows)) = &mut self.sink else {
            return Err(io::Error::other("rows and other records do not fit into one file"));
        };
        rows.add(batch, row, mark)
    }

    /// Makes the file whole, and gives it its name.
    ///
    /// # Errors
    /// The file cannot be written. Nothing is at its path then.
    #[expect(clippy::disallowed_methods, reason = "a file of the user")]
    pub fn finish(mut self) -> io::Result<u64> {
        if self.format == Format::Json {
            self.write(if self.records == 0 { b"]\n" } else { b"\n]\n" })?;
        }
        let file = match self.sink.take() {
            Some(Sink::Plain(file)) => file,
            Some(Sink::Gzip(file)) => file.finish()?,
            Some(Sink::Zstd(file)) => file.finish()?,
            Some(Sink::Parquet(rows)) => rows.finish()?,
            // No row came, so there is no schema either.
            None => self.open()?,
        };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        fs::rename(&self.partial, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(bytes)
    }

    /// Removes what was written.
    #[expect(clippy::disallowed_methods, reason = "a file of the user")]
    pub fn abandon(self) {
        drop(fs::remove_file(&self.partial));
    }
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
    let name = mark.duplicate_of.as_deref().unwrap_or_default();
    let name = if name.bytes().any(|byte| byte == delimiter || b"\"\r\n".contains(&byte)) {
        format!("\"{}\"", name.replace('"', "\"\""))
    } else {
        name.to_owned()
    };
    let cells = [
        name,
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

    fn finish(mut self) -> io::Result<BufWriter<File>> {
        self.write()?;
        Ok(self.writer.into_inner()?)
    }
}
