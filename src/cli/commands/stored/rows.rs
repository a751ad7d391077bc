//! Stored documents as rows of NDJSON, CSV or Parquet (`docs/export.md`).

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{StringBuilder, TimestampMillisecondBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use flate2::Compression;
use flate2::write::GzEncoder;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Rows that are written to Parquet together.
const BATCH: usize = 8_192;

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// The lines of `GET /v1/documents`
    Ndjson,
    /// A table with a header
    Csv,
    /// Columns with types
    Parquet,
}

impl Format {
    /// The format that the name of a file says.
    pub(super) fn of(path: &Path) -> Self {
        let ending = |path: &Path| {
            let ending = path.extension().unwrap_or_default();
            ending.to_string_lossy().to_ascii_lowercase()
        };
        let inner = match &*ending(path) {
            "gz" | "zst" => path.with_extension(""),
            _ => path.to_owned(),
        };
        match &*ending(&inner) {
            "csv" => Self::Csv,
            "parquet" => Self::Parquet,
            _ => Self::Ndjson,
        }
    }
}

/// A document as the stream of the service has it.
#[derive(Debug, Deserialize)]
struct Document<'a> {
    namespace: Option<String>,
    id: Option<String>,
    fingerprint: String,
    sequence: u64,
    stored_at_ms: u64,
    expires_at: Option<u32>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    sketch: Option<String>,
}

/// Where the rows go.
enum Sink<'a> {
    Plain(Box<dyn Write + 'a>),
    File(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
    Zstd(Box<zstd::Encoder<'static, BufWriter<File>>>),
    Parquet(Box<Columns>),
}

/// Rows that are being written.
pub(super) struct Rows<'a> {
    format: Format,
    /// Whether there are metadata, and sketches.
    more: [bool; 2],
    sink: Sink<'a>,
    /// The file that gets a name in the end, and its name.
    file: Option<(PathBuf, PathBuf)>,
}

impl<'a> Rows<'a> {
    /// To an open sink; not Parquet.
    ///
    /// # Errors
    /// Those of the sink.
    pub(super) fn to(sink: &'a mut dyn Write, format: Format, more: [bool; 2]) -> io::Result<Self> {
        let sink = Sink::Plain(Box::new(BufWriter::new(sink)));
        let mut rows = Self { format, more, sink, file: None };
        rows.begin()?;
        Ok(rows)
    }

    /// To a file, which is there once it is whole.
    ///
    /// # Errors
    /// The file cannot be created.
    #[expect(clippy::disallowed_methods, reason = "a file of the user")]
    pub(super) fn create(path: &Path, format: Format, more: [bool; 2]) -> io::Result<Self> {
        let mut partial = path.as_os_str().to_owned();
        partial.push(".partial");
        let file = BufWriter::with_capacity(1 << 20, File::create(&partial)?);
        let ending = path.extension().and_then(|ending| ending.to_str());
        let sink = match (format, ending) {
            (Format::Parquet, _) => Sink::Parquet(Box::new(Columns::new(file, more)?)),
            (_, Some("gz")) => Sink::Gzip(Box::new(GzEncoder::new(file, Compression::default()))),
            (_, Some("zst")) => Sink::Zstd(Box::new(zstd::Encoder::new(file, 3)?)),
            _ => Sink::File(file),
        };
        let file = Some((partial.into(), path.to_owned()));
        let mut rows = Self { format, more, sink, file };
        rows.begin()?;
        Ok(rows)
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.format != Format::Csv {
            return Ok(());
        }
        let mut header = "namespace,id,fingerprint,sequence,stored_at_ms,expires_at".to_owned();
        let [metadata, sketch] = self.more;
        header.push_str(if metadata { ",metadata" } else { "" });
        header.push_str(if sketch { ",sketch\n" } else { "\n" });
        self.write(header.as_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.sink {
            Sink::Plain(sink) => sink.write_all(bytes),
            Sink::File(sink) => sink.write_all(bytes),
            Sink::Gzip(sink) => sink.write_all(bytes),
            Sink::Zstd(sink) => sink.write_all(bytes),
            Sink::Parquet(_) => Err(io::Error::other("columns have no lines")),
        }
    }

    /// Adds a document, a line of the stream.
    ///
    /// # Errors
    /// Those of the sink, and `InvalidData` if the line is no document.
    pub(super) fn add(&mut self, line: &[u8]) -> io::Result<()> {
        if self.format == Format::Ndjson {
            return self.write(line);
        }
        let document: Document<'_> = serde_json::from_slice(line)?;
        if let Sink::Parquet(columns) = &mut self.sink {
            return columns.add(&document);
        }
        let row = self.row(&document);
        self.write(row.as_bytes())
    }

    fn row(&self, document: &Document<'_>) -> String {
        let text = |text: Option<&str>| text.map_or_else(String::new, quoted);
        let mut row = format!(
            "{},{},{},{},{},{}",
            text(document.namespace.as_deref()),
            text(document.id.as_deref()),
            document.fingerprint,
            document.sequence,
            document.stored_at_ms,
            document.expires_at.map_or_else(String::new, |second| second.to_string()),
        );
        let [metadata, sketch] = self.more;
        if metadata {
            row.push(',');
            row.push_str(&text(document.metadata.map(RawValue::get)));
        }
        if sketch {
            row.push(',');
            row.push_str(document.sketch.as_deref().unwrap_or_default());
        }
        row.push('\n');
        row
    }

    /// Makes the file whole, and gives it its name. Returns its bytes.
    ///
    /// # Errors
    /// The file cannot be written.
    #[expect(clippy::disallowed_methods, reason = "a file of the user")]
    pub(super) fn finish(self) -> io::Result<u64> {
        let file = match self.sink {
            Sink::Plain(mut sink) => return sink.flush().map(|()| 0),
            Sink::File(file) => file,
            Sink::Gzip(file) => file.finish()?,
            Sink::Zstd(file) => file.finish()?,
            Sink::Parquet(columns) => columns.finish()?,
        };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        let bytes = file.metadata()?.len();
        if let Some((partial, path)) = self.file {
            fs::rename(partial, path)?;
        }
        Ok(bytes)
    }

    /// Removes what was written.
    #[expect(clippy::disallowed_methods, reason = "a file of the user")]
    pub(super) fn abandon(self) {
        drop(self.file.map(|(partial, _)| fs::remove_file(partial)));
    }
}

/// A cell, in quotes if it needs them (RFC 4180). An empty text is quoted: a missing one is not.
fn quoted(cell: &str) -> String {
    if !cell.is_empty() && !cell.contains([',', '"', '\r', '\n']) {
        return cell.to_owned();
    }
    format!("\"{}\"", cell.replace('"', "\"\""))
}

/// The columns of a Parquet file.
struct Columns {
    writer: ArrowWriter<BufWriter<File>>,
    schema: SchemaRef,
    rows: usize,
    namespaces: StringBuilder,
    ids: StringBuilder,
    fingerprints: UInt64Builder,
    sequences: UInt64Builder,
    stored: TimestampMillisecondBuilder,
    expires: UInt64Builder,
    metadata: Option<StringBuilder>,
    sketches: Option<StringBuilder>,
}

impl Columns {
    fn new(file: BufWriter<File>, more: [bool; 2]) -> io::Result<Self> {
        let utc = DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
        let mut fields = vec![
            Field::new("namespace", DataType::Utf8, true),
            Field::new("id", DataType::Utf8, true),
            Field::new("fingerprint", DataType::UInt64, false),
            Field::new("sequence", DataType::UInt64, false),
            Field::new("stored_at", utc, false),
            Field::new("expires_at", DataType::UInt64, true),
        ];
        let [metadata, sketch] = more;
        fields.extend(metadata.then(|| Field::new("metadata", DataType::Utf8, true)));
        fields.extend(sketch.then(|| Field::new("sketch", DataType::Utf8, true)));
        let schema = Arc::new(Schema::new(fields));
        let zstd = parquet::basic::Compression::ZSTD(parquet::basic::ZstdLevel::default());
        let properties = WriterProperties::builder().set_compression(zstd).build();
        Ok(Self {
            writer: ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties))?,
            schema,
            rows: 0,
            namespaces: StringBuilder::new(),
            ids: StringBuilder::new(),
            fingerprints: UInt64Builder::new(),
            sequences: UInt64Builder::new(),
            stored: TimestampMillisecondBuilder::new().with_timezone("UTC"),
            expires: UInt64Builder::new(),
            metadata: metadata.then(StringBuilder::new),
            sketches: sketch.then(StringBuilder::new),
        })
    }

    fn add(&mut self, document: &Document<'_>) -> io::Result<()> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let bits = u64::from_str_radix(&document.fingerprint, 16)
            .map_err(|_| invalid("a document has no fingerprint"))?;
        let stored =
            i64::try_from(document.stored_at_ms).map_err(|_| invalid("a document has no time"))?;
        self.namespaces.append_option(document.namespace.as_deref());
        self.ids.append_option(document.id.as_deref());
        self.fingerprints.append_value(bits);
        self.sequences.append_value(document.sequence);
        self.stored.append_value(stored);
        self.expires.append_option(document.expires_at.map(u64::from));
        if let Some(metadata) = &mut self.metadata {
            metadata.append_option(document.metadata.map(RawValue::get));
        }
        if let Some(sketches) = &mut self.sketches {
            sketches.append_option(document.sketch.as_deref());
        }
        self.rows += 1;
        if self.rows == BATCH { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        self.rows = 0;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.namespaces.finish()),
            Arc::new(self.ids.finish()),
            Arc::new(self.fingerprints.finish()),
            Arc::new(self.sequences.finish()),
            Arc::new(self.stored.finish()),
            Arc::new(self.expires.finish()),
        ];
        for more in [&mut self.metadata, &mut self.sketches].into_iter().flatten() {
            columns.push(Arc::new(more.finish()));
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        Ok(self.writer.write(&batch.map_err(io::Error::other)?)?)
    }

    fn finish(mut self) -> io::Result<BufWriter<File>> {
        self.write()?;
        Ok(self.writer.into_inner()?)
    }
}
