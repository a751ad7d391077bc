//! Stored documents as rows of NDJSON, CSV or Parquet (`docs/export.md`).

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{StringBuilder, TimestampMillisecondBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use nearprint_files::atomic_file::{AtomicFile, Compression};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Rows that are written to Parquet together.
const BATCH: usize = 8_192;

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ExportFormat {
    /// The lines of `GET /v1/documents`
    Ndjson,
    /// A table with a header
    Csv,
    /// Columns with types
    Parquet,
}

impl ExportFormat {
    /// The format that the name of a file says.
    pub(super) fn of(path: &Path) -> Self {
        let inner = match Compression::of(path) {
            Some(_) => path.with_extension(""),
            None => path.to_owned(),
        };
        let ending = inner.extension().unwrap_or_default();
        match &*ending.to_string_lossy().to_ascii_lowercase() {
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
    Open(Box<dyn Write + 'a>),
    File(AtomicFile),
    Parquet(Box<Columns>),
}

/// Rows that are being written.
pub(super) struct ExportRows<'a> {
    format: ExportFormat,
    /// Whether there are metadata, and sketches.
    more: [bool; 2],
    sink: Sink<'a>,
}

impl<'a> ExportRows<'a> {
    /// To an open sink; not Parquet.
    ///
    /// # Errors
    /// Those of the sink.
    pub(super) fn to(
        sink: &'a mut dyn Write,
        format: ExportFormat,
        more: [bool; 2],
    ) -> io::Result<Self> {
        let sink = Sink::Open(Box::new(BufWriter::new(sink)));
        let mut rows = Self { format, more, sink };
        rows.begin()?;
        Ok(rows)
    }

    /// To a file, which is there once it is whole.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(super) fn create(path: &Path, format: ExportFormat, more: [bool; 2]) -> io::Result<Self> {
        let sink = match format {
            ExportFormat::Parquet => {
                Sink::Parquet(Box::new(Columns::new(AtomicFile::create(path, None)?, more)?))
            }
            ExportFormat::Ndjson | ExportFormat::Csv => {
                Sink::File(AtomicFile::create(path, Compression::of(path))?)
            }
        };
        let mut rows = Self { format, more, sink };
        rows.begin()?;
        Ok(rows)
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.format != ExportFormat::Csv {
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
            Sink::Open(sink) => sink.write_all(bytes),
            Sink::File(sink) => sink.write_all(bytes),
            Sink::Parquet(_) => Err(io::Error::other("columns have no lines")),
        }
    }

    /// Adds a document, a line of the stream.
    ///
    /// # Errors
    /// Those of the sink, and `InvalidData` if the line is no document.
    pub(super) fn add(&mut self, line: &[u8]) -> io::Result<()> {
        if self.format == ExportFormat::Ndjson {
            return self.write(line);
        }
        let document: Document<'_> = serde_json::from_slice(line)?;
        if let Sink::Parquet(columns) = &mut self.sink {
            return columns.add(&document);
        }
        let row = self.row(&document);
        self.write(row.as_bytes())
    }

    fn row<'b>(&self, document: &'b Document<'_>) -> String {
        let text = |text: Option<&'b str>| text.map_or(Cow::Borrowed(""), cell);
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
    pub(super) fn finish(self) -> io::Result<u64> {
        match self.sink {
            Sink::Open(mut sink) => sink.flush().map(|()| 0),
            Sink::File(file) => file.finish(),
            Sink::Parquet(columns) => columns.finish()?.finish(),
        }
    }
}

/// A cell of a text. An empty one is quoted, because a missing one is not.
fn cell(text: &str) -> Cow<'_, str> {
    if text.is_empty() { "\"\"".into() } else { nearprint_files::quoted(text, b',') }
}

/// The columns of a Parquet file.
struct Columns {
    writer: ArrowWriter<AtomicFile>,
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
    fn new(file: AtomicFile, more: [bool; 2]) -> io::Result<Self> {
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

    fn finish(mut self) -> io::Result<AtomicFile> {
        self.write()?;
        Ok(self.writer.into_inner()?)
    }
}
