//! Parquet: the rows of a file, in batches.
//!
//! Only the columns that a document may need are read, unless the rows themselves are asked for. A
//! batch has about [`BATCH_BYTES`] of cells; in addition, a page of each column is in memory. A row
//! group that cannot be read is reported, and reading goes on with the next one.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;

use super::cell;
use crate::context::File;
use crate::entry::{Item, Place, Raw};
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

impl Rows {
    /// # Errors
    /// The file cannot be read, or has no valid footer.
    pub(crate) fn open(file: File, path: &Path, bytes: BytesRead) -> Result<Self, ParquetError> {
        let source = source::open_file(path)?;
        let metadata = guarded(|| ArrowReaderMetadata::load(&source, ArrowReaderOptions::new()))?;
        let names: Arc<[String]> =
            metadata.schema().fields().iter().map(|field| field.name().clone()).collect();
        let mapping = &file.context.mapping;
        let wanted = (0..).zip(names.iter()).filter(|(_, name)| is_wanted(name, mapping));
        let mask = if file.context.form.has_raw() {
            ProjectionMask::all()
        } else {
            ProjectionMask::roots(metadata.parquet_schema(), wanted.map(|(index, _)| index))
        };
        Ok(Self {
            file,
            source,
            metadata,
            mask,
            names,
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
        let bytes = u64::try_from(group.total_byte_size()).unwrap_or(0);
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
        let fields = Row { names: &self.names, schema: batch.schema(), batch, index: row };
        let raw = Raw::Row(Arc::clone(batch), row);
        let (item, is_over) = self.file.row((place, raw), &self.names, &fields);
        if is_over {
            self.end();
        }
        item
    }
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
                Some(Some(Ok(batch))) => self.batch = Some((Arc::new(batch), 0)),
                Some(Some(Err(error))) => return Some(self.broken(&error)),
                Some(None) | None => match self.next_group()? {
                    Ok(reader) => self.reader = Some(reader),
                    Err(error) => return Some(self.broken(&error)),
                },
            }
        }
    }
}

/// A row as a record with fields, of which the batch may hold only some.
struct Row<'a> {
    names: &'a [String],
    schema: SchemaRef,
    batch: &'a RecordBatch,
    index: usize,
}

impl Row<'_> {
    fn column(&self, name: &str) -> Result<Option<usize>, String> {
        let fields = (0..).zip(self.schema.fields());
        let mut found = fields.filter(|(_, field)| field.name() == name).map(|(index, _)| index);
        match (found.next(), found.next()) {
            (column, None) => Ok(column),
            (_, Some(_)) => Err(format!("has several columns `{name}`")),
        }
    }

    fn cell(&self, column: usize) -> Result<Option<RecordValue<'_>>, String> {
        let field = self.schema.field(column);
        value(self.batch.column(column), self.index)
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

/// A cell as a value: text as it is, anything else as JSON; `None` if it is null.
#[expect(clippy::wildcard_enum_match_arm, reason = "every other type goes through JSON")]
fn value(array: &dyn Array, row: usize) -> Result<Option<RecordValue<'_>>, String> {
    if cell::is_null(array, row) {
        return Ok(None);
    }
    Ok(Some(match array.data_type() {
        DataType::Utf8 => RecordValue::Text(Cow::Borrowed(array.as_string::<i32>().value(row))),
        DataType::LargeUtf8 => {
            RecordValue::Text(Cow::Borrowed(array.as_string::<i64>().value(row)))
        }
        DataType::Utf8View => RecordValue::Text(Cow::Borrowed(array.as_string_view().value(row))),
        _ => {
            let mut json = Vec::new();
            cell::write_json(array, row, &mut json)?;
            let json = String::from_utf8(json).map_err(|error| error.to_string())?;
            // Bytes, times and the words of a dictionary are texts too.
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
        Ok(within(&json, rest)?.map(|value| match value {
            RecordValue::Text(text) => RecordValue::Text(Cow::Owned(text.into_owned())),
            RecordValue::Json(json) | RecordValue::Cell(json) => {
                RecordValue::Json(Cow::Owned(json.into_owned()))
            }
        }))
    }

    fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }

    fn spelt(&self, name: &str) -> Option<&str> {
        self.names.iter().map(String::as_str).find(|own| own.eq_ignore_ascii_case(name))
    }
}
