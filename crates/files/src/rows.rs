//! Rows of named columns as NDJSON, CSV or Parquet.

use std::io::{self, BufWriter, Write};
use std::mem;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::{
    ArrayRef, Float64Array, RecordBatch, TimestampMillisecondArray, UInt8Array, UInt32Array,
    UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression as PageCompression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::SchemaDescriptor;
use serde::Serialize;

use crate::atomic_file::{AtomicFile, Compression};
use crate::formats::table::write_cell;

/// Rows that are written to Parquet together.
const BATCH: usize = 8_192;

/// The format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum RowFormat {
    /// A JSON object a line
    Ndjson,
    /// A table with a header
    Csv,
    /// Columns with types
    Parquet,
}

impl RowFormat {
    /// The format that the name of a file says.
    pub fn of(path: &Path) -> Self {
        let inner = Compression::of(path).map_or_else(|| path.into(), |_| path.with_extension(""));
        let ending = inner.extension().unwrap_or_default();
        match &*ending.to_string_lossy().to_ascii_lowercase() {
            "csv" => Self::Csv,
            "parquet" => Self::Parquet,
            _ => Self::Ndjson,
        }
    }
}

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// Texts.
    Text,
    /// Numbers up to 255.
    UInt8,
    /// Numbers below 2^32.
    UInt32,
    /// Numbers.
    UInt64,
    /// Numbers with a fraction.
    Float64,
    /// Fingerprints: 16 hex digits, and numbers in Parquet.
    Fingerprint,
    /// Milliseconds since 1970. They are instants in Parquet; elsewhere they are numbers, and the
    /// name of the column ends with `_ms`.
    Millis,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct RowColumn {
    /// Its name.
    pub name: &'static str,
    /// What its cells are.
    pub kind: CellKind,
    /// Whether a cell may be missing.
    pub is_nullable: bool,
}

impl RowColumn {
    /// A column whose cells are all there.
    pub const fn required(name: &'static str, kind: CellKind) -> Self {
        Self { name, kind, is_nullable: false }
    }

    /// A column whose cells may be missing.
    pub const fn optional(name: &'static str, kind: CellKind) -> Self {
        Self { name, kind, is_nullable: true }
    }

    /// The end of its name in NDJSON and CSV.
    const fn ending(&self) -> &'static str {
        if matches!(self.kind, CellKind::Millis) { "_ms" } else { "" }
    }

    fn field(&self) -> Field {
        let kind = match self.kind {
            CellKind::Text => DataType::Utf8,
            CellKind::UInt8 => DataType::UInt8,
            CellKind::UInt32 => DataType::UInt32,
            CellKind::UInt64 | CellKind::Fingerprint => DataType::UInt64,
            CellKind::Float64 => DataType::Float64,
            CellKind::Millis => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        };
        Field::new(self.name, kind, self.is_nullable)
    }
}

/// A cell; it must be of the kind of its column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// It is missing.
    Null,
    /// A text.
    Text(&'a str),
    /// A number, a fingerprint or milliseconds.
    Number(u64),
    /// A number with a fraction.
    Float(f64),
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<f64> for Cell<'_> {
    fn from(number: f64) -> Self {
        Self::Float(number)
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Self::Null, Into::into)
    }
}

/// A row of CSV without the end of its line. An empty text is quoted, because a missing one is not.
pub(crate) fn write_csv<'a>(
    row: impl IntoIterator<Item = (&'a RowColumn, Cell<'a>)>,
    delimiter: u8,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    for (at, (column, cell)) in row.into_iter().enumerate() {
        if at > 0 {
            out.push(delimiter);
        }
        match cell {
            Cell::Null => {}
            Cell::Text("") => out.extend_from_slice(b"\"\""),
            Cell::Text(text) => write_cell(text.as_bytes(), delimiter, out),
            Cell::Number(bits) if column.kind == CellKind::Fingerprint => {
                write!(out, "{bits:016x}")?;
            }
            Cell::Number(number) => write!(out, "{number}")?,
            Cell::Float(number) => write!(out, "{number}")?,
        }
    }
    Ok(())
}

/// The fields of a JSON object, without its braces.
pub(crate) fn write_json<'a>(
    row: impl IntoIterator<Item = (&'a RowColumn, Cell<'a>)>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    for (at, (column, cell)) in row.into_iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        write!(out, "{comma}\"{}{}\":", column.name, column.ending())?;
        match cell {
            Cell::Null => out.extend_from_slice(b"null"),
            Cell::Text(text) => serde_json::to_writer(&mut *out, text)?,
            Cell::Number(bits) if column.kind == CellKind::Fingerprint => {
                write!(out, "\"{bits:016x}\"")?;
            }
            Cell::Number(number) => write!(out, "{number}")?,
            Cell::Float(number) => serde_json::to_writer(&mut *out, &number)?,
        }
    }
    Ok(())
}

/// Cells that become arrays of Arrow.
pub(crate) struct Cells(Vec<(CellKind, Values)>);

enum Values {
    Texts(StringBuilder),
    Numbers(Vec<Option<u64>>),
    Floats(Vec<Option<f64>>),
}

impl Cells {
    pub(crate) fn new(columns: &[RowColumn]) -> Self {
        let values = |kind| match kind {
            CellKind::Text => Values::Texts(StringBuilder::new()),
            CellKind::Float64 => Values::Floats(Vec::new()),
            CellKind::UInt8
            | CellKind::UInt32
            | CellKind::UInt64
            | CellKind::Fingerprint
            | CellKind::Millis => Values::Numbers(Vec::new()),
        };
        Self(columns.iter().map(|column| (column.kind, values(column.kind))).collect())
    }

    pub(crate) fn add<'a>(&mut self, row: impl IntoIterator<Item = Cell<'a>>) {
        for ((_, values), cell) in self.0.iter_mut().zip(row) {
            match (values, cell) {
                (Values::Texts(texts), Cell::Text(text)) => texts.append_value(text),
                (Values::Texts(texts), _) => texts.append_null(),
                (Values::Numbers(numbers), Cell::Number(number)) => numbers.push(Some(number)),
                (Values::Numbers(numbers), _) => numbers.push(None),
                (Values::Floats(numbers), Cell::Float(number)) => numbers.push(Some(number)),
                (Values::Floats(numbers), _) => numbers.push(None),
            }
        }
    }

    /// Takes all rows, an array a column.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = ArrayRef> {
        self.0.iter_mut().map(|(kind, values)| -> ArrayRef {
            match values {
                Values::Texts(texts) => Arc::new(texts.finish()),
                Values::Floats(numbers) => Arc::new(Float64Array::from(mem::take(numbers))),
                Values::Numbers(numbers) => array(*kind, mem::take(numbers)),
            }
        })
    }
}

fn array(kind: CellKind, numbers: Vec<Option<u64>>) -> ArrayRef {
    let all = numbers.into_iter();
    match kind {
        CellKind::UInt8 => Arc::new(all.map(|n| n.map(|n| n as u8)).collect::<UInt8Array>()),
        CellKind::UInt32 => Arc::new(all.map(|n| n.map(|n| n as u32)).collect::<UInt32Array>()),
        CellKind::Millis => {
            let instants: TimestampMillisecondArray = all.map(|n| n.map(|n| n as i64)).collect();
            Arc::new(instants.with_timezone("UTC"))
        }
        CellKind::Text | CellKind::Float64 | CellKind::UInt64 | CellKind::Fingerprint => {
            Arc::new(all.collect::<UInt64Array>())
        }
    }
}

/// The fields of columns.
pub(crate) fn fields(columns: &[RowColumn]) -> impl Iterator<Item = Field> {
    columns.iter().map(RowColumn::field)
}

/// Begins a file of Parquet with a footer that has this metadata. `stored` are the types of its
/// columns, if they are not those that Arrow chooses; the metadata then has those of Arrow, too.
/// All of this program are compressed in the same way.
pub(crate) fn parquet_writer(
    file: AtomicFile,
    schema: SchemaRef,
    (stored, metadata): (Option<SchemaDescriptor>, Vec<KeyValue>),
) -> io::Result<ArrowWriter<AtomicFile>> {
    let zstd = PageCompression::ZSTD(ZstdLevel::default());
    let properties = WriterProperties::builder()
        .set_compression(zstd)
        .set_key_value_metadata((!metadata.is_empty()).then_some(metadata));
    let mut options = ArrowWriterOptions::new().with_properties(properties.build());
    if let Some(stored) = stored {
        options = options.with_parquet_schema(stored).with_skip_arrow_metadata(true);
    }
    Ok(ArrowWriter::try_new_with_options(file, schema, options)?)
}

/// Where the rows go.
enum Sink<'a> {
    Open(Box<dyn Write + 'a>),
    File(AtomicFile),
    Parquet(Box<ParquetRows>),
}

struct ParquetRows {
    writer: ArrowWriter<AtomicFile>,
    schema: SchemaRef,
    cells: Cells,
    rows: usize,
}

/// Rows that are being written.
pub struct RowWriter<'a> {
    format: RowFormat,
    columns: Vec<RowColumn>,
    sink: Sink<'a>,
}

impl std::fmt::Debug for RowWriter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowWriter").field("format", &self.format).finish_non_exhaustive()
    }
}

impl<'a> RowWriter<'a> {
    /// To an open sink; not Parquet.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn to(
        sink: &'a mut dyn Write,
        format: RowFormat,
        columns: Vec<RowColumn>,
    ) -> io::Result<Self> {
        if format == RowFormat::Parquet {
            return Err(io::Error::other("Parquet is written to files only"));
        }
        let sink = Sink::Open(Box::new(BufWriter::new(sink)));
        Self { format, columns, sink }.begin()
    }

    /// To a file, which is there once it is whole; compressed as its name says, but for Parquet.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path, format: RowFormat, columns: Vec<RowColumn>) -> io::Result<Self> {
        let sink = if format == RowFormat::Parquet {
            let schema = Arc::new(Schema::new(fields(&columns).collect::<Vec<_>>()));
            let file = AtomicFile::create(path, None)?;
            let writer = parquet_writer(file, Arc::clone(&schema), (None, Vec::new()))?;
            let cells = Cells::new(&columns);
            Sink::Parquet(Box::new(ParquetRows { writer, schema, cells, rows: 0 }))
        } else {
            Sink::File(AtomicFile::create(path, Compression::of(path))?)
        };
        Self { format, columns, sink }.begin()
    }

    fn begin(mut self) -> io::Result<Self> {
        if self.format == RowFormat::Csv {
            let name = |column: &RowColumn| format!("{}{}", column.name, column.ending());
            let names: Vec<String> = self.columns.iter().map(name).collect();
            self.line(format!("{}\n", names.join(",")).as_bytes())?;
        }
        Ok(self)
    }

    /// The format.
    pub const fn format(&self) -> RowFormat {
        self.format
    }

    /// Adds lines as they are; not to Parquet.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn line(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.text()?.write_all(bytes)
    }

    /// Adds a line of JSON; not to Parquet.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn json(&mut self, line: &impl Serialize) -> io::Result<()> {
        let sink = self.text()?;
        serde_json::to_writer(&mut *sink, line)?;
        sink.write_all(b"\n")
    }

    fn text(&mut self) -> io::Result<&mut dyn Write> {
        match &mut self.sink {
            Sink::Open(sink) => Ok(sink),
            Sink::File(sink) => Ok(sink),
            Sink::Parquet(_) => Err(io::Error::other("columns have no lines")),
        }
    }

    /// Adds a row with a cell for each column.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        if let Sink::Parquet(rows) = &mut self.sink {
            rows.cells.add(cells.iter().copied());
            rows.rows += 1;
            return if rows.rows == BATCH { rows.write() } else { Ok(()) };
        }
        let (row, mut line) = (self.columns.iter().zip(cells.iter().copied()), Vec::new());
        if self.format == RowFormat::Csv {
            write_csv(row, b',', &mut line)?;
        } else {
            line.push(b'{');
            write_json(row, &mut line)?;
            line.push(b'}');
        }
        line.push(b'\n');
        self.line(&line)
    }

    /// Makes the file whole, and gives it its name. Returns its bytes.
    ///
    /// # Errors
    /// The file cannot be written. Nothing is at its path then.
    pub fn finish(self) -> io::Result<u64> {
        match self.sink {
            Sink::Open(mut sink) => sink.flush().map(|()| 0),
            Sink::File(file) => file.finish(),
            Sink::Parquet(mut rows) => {
                rows.write()?;
                rows.writer.into_inner()?.finish()
            }
        }
    }
}

impl ParquetRows {
    fn write(&mut self) -> io::Result<()> {
        self.rows = 0;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), self.cells.take().collect());
        Ok(self.writer.write(&batch.map_err(io::Error::other)?)?)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use std::fs;

    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{TimestampMillisecondType, UInt8Type, UInt64Type};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;

    #[test]
    fn all_formats_have_the_same_rows() {
        let columns = vec![
            RowColumn::optional("name", CellKind::Text),
            RowColumn::required("print", CellKind::Fingerprint),
            RowColumn::required("at", CellKind::Millis),
            RowColumn::optional("part", CellKind::Float64),
            RowColumn::optional("of", CellKind::UInt8),
        ];
        let of = |name, of| [name, Cell::Number(255), Cell::Number(1_500), Cell::Float(0.5), of];
        let rows = [
            of(Cell::Text("a,\"b"), Cell::Number(3)),
            [Cell::Null, Cell::Number(1), Cell::Number(0), Cell::Null, Cell::Null],
            of(Cell::Text(""), Cell::Number(0)),
        ];
        let folder = tempfile::tempdir().unwrap();
        let written = |name| {
            let path = folder.path().join(name);
            let mut writer =
                RowWriter::create(&path, RowFormat::of(&path), columns.clone()).unwrap();
            for row in &rows {
                writer.row(row).unwrap();
            }
            assert_eq!(writer.finish().unwrap(), fs::metadata(&path).unwrap().len());
            path
        };
        assert_eq!(
            fs::read_to_string(written("a.CSV")).unwrap(),
            "name,print,at_ms,part,of\n\"a,\"\"b\",00000000000000ff,1500,0.5,3\n\
             ,0000000000000001,0,,\n\"\",00000000000000ff,1500,0.5,0\n"
        );
        assert_eq!(
            fs::read_to_string(written("a.jsonl")).unwrap(),
            "{\"name\":\"a,\\\"b\",\"print\":\"00000000000000ff\",\"at_ms\":1500,\"part\":0.5,\"of\":3}\n\
             {\"name\":null,\"print\":\"0000000000000001\",\"at_ms\":0,\"part\":null,\"of\":null}\n\
             {\"name\":\"\",\"print\":\"00000000000000ff\",\"at_ms\":1500,\"part\":0.5,\"of\":0}\n"
        );
        let file = fs::File::open(written("a.parquet")).unwrap();
        let mut reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let batch = reader.next().unwrap().unwrap();
        let names: Vec<_> = batch["name"].as_string::<i32>().iter().collect();
        assert_eq!(names, [Some("a,\"b"), None, Some("")]);
        assert_eq!(batch["print"].as_primitive::<UInt64Type>().values(), &[255, 1, 255]);
        let instants = batch["at"].as_primitive::<TimestampMillisecondType>();
        assert_eq!((instants.values()[0], instants.timezone()), (1_500, Some("UTC")));
        assert_eq!(batch["part"].null_count(), 1);
        let of: Vec<_> = batch["of"].as_primitive::<UInt8Type>().iter().collect();
        assert_eq!(of, [Some(3), None, Some(0)]);
        assert!(!batch.schema().field(1).is_nullable() && reader.next().is_none());
    }
}
