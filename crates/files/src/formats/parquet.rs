//! Parquet: the rows of a file, in batches.
//!
//! Only the columns that a document may need are read, unless the rows themselves are asked for. A
//! batch has about [`BATCH_BYTES`] of cells; in addition, a page of each column is in memory. Texts
//! are read as bytes, so that one that is not UTF-8 costs its cell alone. A row group that cannot
//! be read is reported, and reading goes on with the next one.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, FieldRef, Fields as Columns, Schema};
use nearprint_wire::offer::Content;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::basic::{ConvertedType, LogicalType, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::schema::types::{BasicTypeInfo, ColumnDescPtr, SchemaDescriptor, Type, TypePtr};

use super::cell;
use crate::context::{File, FingerprintSample, RecordForm, too_long};
use crate::entry::{DOCUMENT_BYTES_MAX, Item, Parsed, Place, Raw};
use crate::mapping::{Fields, RecordValue, is_wanted, within};
use crate::source::{self, BytesRead};

/// About how many bytes of cells a batch has.
const BATCH_BYTES: u64 = 16 << 20;
/// The most rows of a batch.
const BATCH_ROWS_MAX: u64 = 8_192;

/// The rows of a file.
pub(crate) struct Rows {
    file: File,
    source: std::fs::File,
    metadata: ArrowReaderMetadata,
    mask: ProjectionMask,
    names: Arc<[String]>,
    /// The columns of a batch.
    columns: Arc<[FieldRef]>,
    is_sampled: bool,
    /// The row group that is read next.
    group: usize,
    reader: Option<ParquetRecordBatchReader>,
    batch: Option<(Arc<RecordBatch>, usize)>,
    /// The number of the next row, from 1.
    number: u64,
    /// The number of the first row of the next row group.
    next_group: u64,
    bytes: BytesRead,
}

/// The footer of a file.
///
/// # Errors
/// The file cannot be read, or has no valid footer.
pub(crate) fn footer(path: &Path) -> Result<ArrowReaderMetadata, ParquetError> {
    let source = source::open_file(path)?;
    guarded(|| ArrowReaderMetadata::load(&source, ArrowReaderOptions::new()))
}

/// The same file, whose texts are bytes: the crate would refuse all rows of a page, or of a row
/// group, with a text that is not UTF-8. Without `keeps_types`, texts and bytes are views of its
/// pages: a text is not copied for each row that has it from a dictionary, nor a long one out of
/// its page.
fn with_bytes(
    source: &std::fs::File,
    metadata: &ArrowReaderMetadata,
    keeps_types: bool,
) -> Result<ArrowReaderMetadata, ParquetError> {
    let stored = without_texts(&metadata.parquet_schema().root_schema_ptr())?;
    let schema = metadata.schema();
    let columns = as_bytes(schema.fields());
    let columns = if keeps_types { columns } else { columns.iter().map(with_view).collect() };
    let schema = Arc::new(Schema::new_with_metadata(columns, schema.metadata().clone()));
    let stored = Arc::new(SchemaDescriptor::new(stored));
    let options = ArrowReaderOptions::new().with_parquet_schema(stored).with_schema(schema);
    guarded(|| ArrowReaderMetadata::load(source, options))
}

/// A type of Parquet, in which texts are bytes without a meaning.
fn without_texts(stored: &TypePtr) -> Result<TypePtr, ParquetError> {
    Ok(Arc::new(match stored.as_ref() {
        Type::GroupType { basic_info, fields } => {
            let fields = fields.iter().map(without_texts).collect::<Result<_, _>>()?;
            Type::GroupType { basic_info: basic_info.clone(), fields }
        }
        Type::PrimitiveType { basic_info, physical_type: PhysicalType::BYTE_ARRAY, .. }
            if !is_decimal(basic_info) =>
        {
            let bytes = Type::primitive_type_builder(basic_info.name(), PhysicalType::BYTE_ARRAY);
            let id = basic_info.has_id().then(|| basic_info.id());
            bytes.with_repetition(basic_info.repetition()).with_id(id).build()?
        }
        Type::PrimitiveType { .. } => return Ok(Arc::clone(stored)),
    }))
}

/// Whether the bytes of a column are numbers.
fn is_decimal(column: &BasicTypeInfo) -> bool {
    column.converted_type() == ConvertedType::DECIMAL
        || matches!(column.logical_type_ref(), Some(LogicalType::Decimal { .. }))
}

/// The same columns with bytes for texts.
pub(crate) fn as_bytes(columns: &Columns) -> Columns {
    columns.iter().map(bytes_of).collect()
}

fn bytes_of(column: &FieldRef) -> FieldRef {
    Arc::new(column.as_ref().clone().with_data_type(type_as_bytes(column.data_type())))
}

#[expect(clippy::wildcard_enum_match_arm, reason = "no other type holds texts")]
fn type_as_bytes(kind: &DataType) -> DataType {
    match kind {
        DataType::Utf8 => DataType::Binary,
        DataType::LargeUtf8 => DataType::LargeBinary,
        DataType::Utf8View => DataType::BinaryView,
        DataType::Dictionary(key, words) => {
            DataType::Dictionary(key.clone(), Box::new(type_as_bytes(words)))
        }
        kind => with_columns(kind, &mut bytes_of).unwrap_or_else(|| kind.clone()),
    }
}

/// A type with columns of its own, each replaced by another one; `None` for all other types.
#[expect(clippy::wildcard_enum_match_arm, reason = "all other types are stored in one column")]
fn with_columns(
    kind: &DataType,
    replaced: &mut dyn FnMut(&FieldRef) -> FieldRef,
) -> Option<DataType> {
    Some(match kind {
        DataType::Struct(columns) => DataType::Struct(columns.iter().map(replaced).collect()),
        DataType::List(item) => DataType::List(replaced(item)),
        DataType::LargeList(item) => DataType::LargeList(replaced(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(replaced(item), *length),
        DataType::ListView(item) => DataType::ListView(replaced(item)),
        DataType::LargeListView(item) => DataType::LargeListView(replaced(item)),
        DataType::Map(entry, is_sorted) => DataType::Map(replaced(entry), *is_sorted),
        _ => return None,
    })
}

fn with_view(column: &FieldRef) -> FieldRef {
    let kind = column.data_type();
    let kind = if let DataType::Dictionary(_, words) = kind { words.as_ref() } else { kind };
    if !matches!(kind, DataType::Binary | DataType::LargeBinary) {
        return Arc::clone(column);
    }
    Arc::new(column.as_ref().clone().with_data_type(DataType::BinaryView))
}

/// The columns that are read of a file; those with UUIDs and those with texts are marked.
fn columns(metadata: &ArrowReaderMetadata, read: &ArrowReaderMetadata) -> Vec<FieldRef> {
    let mut leaves = metadata.parquet_schema().columns().iter();
    marked(read.schema().fields(), &mut leaves).iter().cloned().collect()
}

fn marked(columns: &Columns, leaves: &mut std::slice::Iter<'_, ColumnDescPtr>) -> Columns {
    columns.iter().map(|column| Arc::new(with_mark(column, leaves))).collect()
}

fn with_mark(column: &FieldRef, leaves: &mut std::slice::Iter<'_, ColumnDescPtr>) -> Field {
    let kind = column.data_type();
    if let Some(kind) = with_columns(kind, &mut |inner| Arc::new(with_mark(inner, leaves))) {
        return column.as_ref().clone().with_data_type(kind);
    }
    let leaf = leaves.next();
    match (kind, leaf.and_then(|leaf| leaf.logical_type_ref())) {
        (DataType::FixedSizeBinary(16), Some(LogicalType::Uuid)) => cell::uuid(column),
        _ if leaf.is_some_and(is_text) => cell::text(column),
        _ => column.as_ref().clone(),
    }
}

/// Whether a column of bytes is declared to be text.
fn is_text(leaf: &ColumnDescPtr) -> bool {
    let is_converted = matches!(
        leaf.converted_type(),
        ConvertedType::UTF8 | ConvertedType::JSON | ConvertedType::ENUM
    );
    let kind = leaf.logical_type_ref();
    is_converted
        || matches!(kind, Some(LogicalType::String | LogicalType::Json | LogicalType::Enum))
}

impl Rows {
    /// # Errors
    /// The file cannot be read, or has no valid footer.
    pub(crate) fn open(file: File, path: &Path, bytes: BytesRead) -> Result<Self, ParquetError> {
        let source = source::open_file(path)?;
        let stored = guarded(|| ArrowReaderMetadata::load(&source, ArrowReaderOptions::new()))?;
        let names: Arc<[String]> =
            stored.schema().fields().iter().map(|field| field.name().clone()).collect();
        let mapping = &file.context.mapping;
        let is_raw = file.context.form.has_raw();
        // Rows that are written elsewhere keep the types of their file.
        let metadata = with_bytes(&source, &stored, is_raw)?;
        let is_read = |name: &str| is_raw || is_wanted(name, mapping);
        let wanted = (0..).zip(names.iter()).filter(|(_, name)| is_read(name));
        let mask = if is_raw {
            ProjectionMask::all()
        } else {
            ProjectionMask::roots(metadata.parquet_schema(), wanted.map(|(index, _)| index))
        };
        let columns = columns(&stored, &metadata);
        let columns = columns.into_iter().filter(|column| is_read(column.name())).collect();
        Ok(Self {
            file,
            source,
            metadata,
            mask,
            names,
            columns,
            is_sampled: false,
            group: 0,
            reader: None,
            batch: None,
            number: 1,
            next_group: 1,
            bytes,
        })
    }

    fn place(&self) -> Place {
        self.file.place(self.number, None)
    }

    /// Opens the next row group; `None` after the last one.
    fn next_group(&mut self) -> Option<Result<ParquetRecordBatchReader, ParquetError>> {
        let groups = self.metadata.metadata().row_groups();
        let group = groups.get(self.group)?;
        let rows = u64::try_from(group.num_rows()).unwrap_or(0);
        // A dictionary has each text once; a batch of rows may have it for each.
        let bytes = |column: &ColumnChunkMetaData| {
            let unpacked = column.unencoded_byte_array_data_bytes().unwrap_or(0);
            u64::try_from(unpacked.max(column.uncompressed_size())).unwrap_or(0)
        };
        let bytes = group.columns().iter().map(bytes).fold(0, u64::saturating_add);
        let packed = usize::try_from(group.compressed_size()).unwrap_or(0);
        let fitting = BATCH_BYTES / bytes.checked_div(rows).unwrap_or(1).max(1);
        let batch = usize::try_from(fitting.clamp(1, BATCH_ROWS_MAX)).unwrap_or(1);
        self.bytes.add(packed);
        self.number = self.next_group;
        self.next_group = self.next_group.saturating_add(rows);
        self.group += 1;
        Some(self.source.try_clone().map_err(ParquetError::from).and_then(|source| {
            guarded(|| {
                ParquetRecordBatchReaderBuilder::new_with_metadata(source, self.metadata.clone())
                    .with_row_groups(vec![self.group - 1])
                    .with_projection(self.mask.clone())
                    .with_batch_size(batch)
                    .build()
            })
        }))
    }

    /// Reads no more.
    fn end(&mut self) {
        self.reader = None;
        self.batch = None;
        self.group = usize::MAX;
    }

    fn broken(&mut self, error: &dyn std::fmt::Display) -> Item {
        let place = self.place();
        self.reader = None;
        let (group, last) = (self.group, self.next_group.saturating_sub(1));
        Err(place.bad(format!(
            "row group {group} cannot be read from this row on, to row {last}: {error}"
        )))
    }

    fn row(&mut self, batch: &Arc<RecordBatch>, row: usize) -> Item {
        let place = self.place();
        self.number += 1;
        let fields = Row { names: &self.names, columns: &self.columns, batch, index: row };
        let raw = Raw::Row(Arc::clone(batch), row);
        if self.file.context.form == RecordForm::Raw {
            let content = Content::Text(Cow::Borrowed(""));
            let unread = Parsed { id: None, content, passed: Vec::new() };
            return self.file.parsed(place, raw, Ok(unread));
        }
        let (item, is_over) = self.file.row((place, raw), &self.names, &fields);
        if is_over {
            self.end();
        }
        item
    }
}

/// What the rows of a batch show of how fingerprints are written.
fn sampled(rows: &Rows, batch: &RecordBatch) -> FingerprintSample {
    let mut sample = FingerprintSample::default();
    for index in 0..batch.num_rows() {
        let row = Row { names: &rows.names, columns: &rows.columns, batch, index };
        sample.add(&row, rows.file.mapping());
    }
    sample
}

impl Iterator for Rows {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some((batch, row)) = self.batch.take()
                && row < batch.num_rows()
            {
                self.batch = Some((Arc::clone(&batch), row + 1));
                return Some(self.row(&batch, row));
            }
            match self.reader.as_mut().map(next_batch) {
                Some(Some(Ok(batch))) => {
                    if !std::mem::replace(&mut self.is_sampled, true) {
                        let sample = sampled(self, &batch);
                        self.file.sample_fingerprints(&sample);
                    }
                    self.batch = Some((Arc::new(batch), 0));
                }
                Some(Some(Err(error))) => return Some(self.broken(&error)),
                Some(None) | None => match self.next_group()? {
                    Ok(reader) => self.reader = Some(reader),
                    Err(error) => return Some(self.broken(&error)),
                },
            }
        }
    }
}

/// A row as a record with fields; the batch may lack some of them.
struct Row<'a> {
    names: &'a [String],
    columns: &'a [FieldRef],
    batch: &'a RecordBatch,
    index: usize,
}

impl Row<'_> {
    fn column(&self, name: &str) -> Result<Option<usize>, String> {
        let fields = (0..).zip(self.columns);
        let mut found = fields.filter(|(_, field)| field.name() == name).map(|(index, _)| index);
        match (found.next(), found.next()) {
            (column, None) => Ok(column),
            (_, Some(_)) => Err(format!("has several columns `{name}`")),
        }
    }

    fn cell(&self, column: usize) -> Result<Option<RecordValue<'_>>, String> {
        let field = &self.columns[column];
        value(field, self.batch.column(column), self.index)
            .map_err(|why| format!("`{}` {why}", field.name()))
    }
}

fn next_batch(reader: &mut ParquetRecordBatchReader) -> Option<Result<RecordBatch, ParquetError>> {
    guarded(|| reader.next().transpose().map_err(ParquetError::from)).transpose()
}

/// The crate `parquet` panics on some metadata that contradicts itself.
fn guarded<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(ParquetError::General("its metadata contradicts itself".to_owned()))
    })
}

/// A cell as a value: text as it is, anything else as JSON; `None` if it is null. A text above the
/// limit of documents is refused before anything copies it.
fn value<'a>(
    field: &Field,
    array: &'a dyn Array,
    row: usize,
) -> Result<Option<RecordValue<'a>>, String> {
    match whole_value(field, array, row)? {
        Some(RecordValue::Text(text)) if text.len() > DOCUMENT_BYTES_MAX => {
            Err(format!("is {}", too_long()))
        }
        value => Ok(value),
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "every other type goes through JSON")]
fn whole_value<'a>(
    field: &Field,
    array: &'a dyn Array,
    row: usize,
) -> Result<Option<RecordValue<'a>>, String> {
    if cell::is_null(array, row) {
        return Ok(None);
    }
    Ok(Some(match array.data_type() {
        DataType::Utf8 => RecordValue::Text(Cow::Borrowed(array.as_string::<i32>().value(row))),
        DataType::LargeUtf8 => {
            RecordValue::Text(Cow::Borrowed(array.as_string::<i64>().value(row)))
        }
        DataType::Utf8View => RecordValue::Text(Cow::Borrowed(array.as_string_view().value(row))),
        DataType::Binary => bytes(field, array.as_binary::<i32>().value(row))?,
        DataType::LargeBinary => bytes(field, array.as_binary::<i64>().value(row))?,
        DataType::BinaryView => bytes(field, array.as_binary_view().value(row))?,
        DataType::FixedSizeBinary(_) if !cell::is_uuid(field) => {
            RecordValue::Hex(cell::hex(array.as_fixed_size_binary().value(row)))
        }
        DataType::Dictionary(_, kind) => {
            let dictionary = array.as_any_dictionary();
            let key = cell::key_of(dictionary.keys(), row);
            let key = key.ok_or("has a key beyond its dictionary")?;
            let word = field.clone().with_data_type(kind.as_ref().clone());
            return whole_value(&word, dictionary.values().as_ref(), key);
        }
        _ => {
            let mut json = Vec::new();
            cell::write_json(field, array, row, &mut json)?;
            let json = String::from_utf8(json).map_err(|error| error.to_string())?;
            // UUIDs and times are texts too.
            if json.starts_with('"') {
                RecordValue::Text(Cow::Owned(
                    serde_json::from_str(&json).map_err(|e| e.to_string())?,
                ))
            } else {
                RecordValue::Json(Cow::Owned(json))
            }
        }
    }))
}

/// Many programs write texts as bytes without a type.
fn bytes<'a>(field: &Field, cell: &'a [u8]) -> Result<RecordValue<'a>, String> {
    match str::from_utf8(cell) {
        Ok(text) => Ok(RecordValue::Text(text.into())),
        Err(_) if cell::is_text(field) => Err(cell::NOT_UTF8.to_owned()),
        Err(_) => Ok(RecordValue::Hex(cell::hex(cell))),
    }
}

impl Fields for Row<'_> {
    fn get(&self, path: &str) -> Result<Option<RecordValue<'_>>, String> {
        if let Some(column) = self.column(path)? {
            return self.cell(column);
        }
        let Some((name, rest)) = path.split_once('.') else { return Ok(None) };
        let Some(column) = self.column(name)? else { return Ok(None) };
        let Some(RecordValue::Json(json)) = self.cell(column)? else { return Ok(None) };
        if !json.starts_with('{') {
            return Ok(None);
        }
        Ok(within(&json, rest)?.map(RecordValue::into_owned))
    }

    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    fn spelt(&self, name: &str) -> Option<&str> {
        self.names.iter().map(String::as_str).find(|own| own.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests lay out their own files")]

    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;
    use crate::context::Context;
    use crate::entry::FileRecord;
    use crate::mapping::Mapping;

    /// Reads a file with one column of texts: what its items are, and its first batch.
    fn read(texts: ArrayRef, form: RecordForm) -> (Vec<String>, Arc<RecordBatch>) {
        let batch = RecordBatch::try_from_iter([("text", texts)]).unwrap();
        read_file(form, |file| {
            let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
        })
    }

    fn read_file(
        form: RecordForm,
        write: impl FnOnce(std::fs::File),
    ) -> (Vec<String>, Arc<RecordBatch>) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("texts.parquet");
        write(std::fs::File::create(&path).unwrap());
        let file = File::new(&Context::new(Mapping::default(), form), &path, "", "row");
        let mut rows = Rows::open(file, &path, BytesRead::default()).unwrap();
        let first = rows.next().unwrap();
        let batch = Arc::clone(&rows.batch.as_ref().unwrap().0);
        let shown = |item: Item| match item {
            Ok(FileRecord::Document(entry)) => {
                format!("a text of {} bytes", entry.content.bytes())
            }
            Ok(FileRecord::Other(other)) => panic!("{other:?}"),
            Err(bad) => bad.why,
        };
        (std::iter::once(first).chain(rows).map(shown).collect(), batch)
    }

    /// Sixty rows of two long texts.
    fn repeated() -> [ArrayRef; 2] {
        let texts = [0, 1].map(|end| format!("{}{end}", "a long text ".repeat(40_000)));
        let rows = || (0..60).map(|row| &*texts[row % 2]);
        let words: DictionaryArray<Int32Type> = rows().collect();
        [Arc::new(StringArray::from_iter_values(rows())), Arc::new(words)]
    }

    #[test]
    fn rows_share_the_texts_of_a_dictionary() {
        for texts in repeated() {
            let (items, batch) = read(texts, RecordForm::Parsed);
            assert_eq!(items, ["a text of 480001 bytes"; 60]);
            let views = batch.column(0).as_binary_view();
            assert!(views.len() > 2);
            assert_eq!(views.value(0).as_ptr(), views.value(2).as_ptr());
        }
    }

    #[test]
    fn words_of_a_dictionary_are_borrowed() {
        let [_, words] = repeated();
        let field = Field::new("text", words.data_type().clone(), true);
        for row in [0, 2] {
            let read = value(&field, words.as_ref(), row).unwrap().unwrap();
            assert!(matches!(read, RecordValue::Text(Cow::Borrowed(_))));
        }
    }

    #[test]
    fn a_batch_of_rows_is_bounded_by_the_unpacked_size_of_its_texts() {
        let [plain, _] = repeated();
        let (items, batch) = read(plain, RecordForm::Both);
        assert_eq!(items.len(), 60);
        let bytes = batch.num_rows() as u64 * 480_001;
        assert!(bytes <= BATCH_BYTES, "{} rows", batch.num_rows());
        assert_eq!(*batch.column(0).data_type(), DataType::Binary, "it is written as it is read");
    }

    #[test]
    fn numbers_that_are_stored_as_bytes_stay_numbers() {
        let stored = "message rows { required binary price (DECIMAL(4, 2)); \
                      required binary text (UTF8); }";
        let stored = Arc::new(parse_message_type(stored).unwrap());
        for form in [RecordForm::Parsed, RecordForm::Both] {
            let (items, batch) = read_file(form, |file| {
                let mut writer =
                    SerializedFileWriter::new(file, Arc::clone(&stored), Arc::default()).unwrap();
                let mut group = writer.next_row_group().unwrap();
                for bytes in ["\x01\x02", "a text"] {
                    let mut column = group.next_column().unwrap().unwrap();
                    let values = [ByteArray::from(bytes)];
                    column.typed::<ByteArrayType>().write_batch(&values, None, None).unwrap();
                    column.close().unwrap();
                }
                group.close().unwrap();
                writer.close().unwrap();
            });
            assert_eq!(items, ["a text of 6 bytes"]);
            let price = batch.column_by_name("price").map(|price| price.data_type().clone());
            assert_eq!(price, form.has_raw().then_some(DataType::Decimal128(4, 2)));
        }
    }

    #[test]
    fn a_text_above_the_limit_is_refused_by_name_and_the_others_are_read() {
        let long = "x".repeat(DOCUMENT_BYTES_MAX + 1);
        let texts = StringArray::from(vec![&long[1..], &*long, "a text"]);
        let (items, _) = read(Arc::new(texts), RecordForm::Parsed);
        let expected = ["a text of 8388608 bytes", "a text of 6 bytes"];
        assert_eq!([&*items[0], &*items[2]], expected);
        assert_eq!(items[1], "`text` is longer than 8388608 bytes");
    }
}
