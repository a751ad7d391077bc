//! The columns of a copy of Parquet files.
//!
//! Columns are those of the same name, wherever they stand in each file. The copy keeps the types
//! that the files have, with logical types that Arrow does not know (UUID, JSON), and the
//! descriptions in their footers.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Fields, Schema, SchemaRef};
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_reader::ArrowReaderMetadata;
use parquet::file::metadata::KeyValue;
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use super::metadata::{FileMetadata, of_copy};
use super::{LayoutFault, types};
use crate::formats::parquet::{as_bytes, footer};

/// The columns of a copy.
#[derive(Debug)]
pub struct RowLayout {
    schema: SchemaRef,
    /// The same columns as they are read and written, with bytes for texts: one that is not UTF-8
    /// is copied as it is.
    read: SchemaRef,
    /// The types that the files have for each column, by its name.
    stored: Vec<TypePtr>,
    metadata: Vec<KeyValue>,
}

/// The columns of a file.
struct Columns {
    path: PathBuf,
    fields: Fields,
    footer: ArrowReaderMetadata,
}

impl RowLayout {
    /// Of a copy of all these files; `None` if none of them can be read.
    ///
    /// # Errors
    /// Their columns do not fit into one table.
    pub(super) fn of(files: &[PathBuf], is_marked: bool) -> Result<Option<Self>, LayoutFault> {
        let read = |path: &PathBuf| {
            let footer = footer(path).ok()?;
            Some(Columns {
                path: path.clone(),
                fields: types::storable(footer.schema().fields()),
                footer,
            })
        };
        let footers: Vec<Columns> = files.iter().filter_map(read).collect();
        let Some(first) = footers.first() else { return Ok(None) };
        let mut fields = first.fields.clone();
        for other in &footers[1..] {
            if other.fields == fields {
                continue;
            }
            no_repeats(&first.path, &fields)?;
            no_repeats(&other.path, &other.fields)?;
            fields = types::all_of("", &fields, &other.fields)
                .map_err(|clash| blamed(clash, other, &footers))?;
        }
        let same = |own: &Fields| !is_marked && types_of(own) == types_of(&fields);
        let metadata: Vec<FileMetadata<'_>> = footers
            .iter()
            .map(|Columns { fields, footer, .. }| {
                let pairs = footer.metadata().file_metadata().key_value_metadata();
                let pairs = pairs.map_or(&[][..], Vec::as_slice);
                FileMetadata { pairs, has_all_columns: same(fields) }
            })
            .collect();
        let metadata = of_copy(&metadata);
        let pairs = metadata.iter().filter_map(|KeyValue { key, value }| {
            value.as_ref().map(|value| (key.clone(), value.clone()))
        });
        let pairs: HashMap<String, String> = pairs.collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, pairs));
        let roots = footers.iter().map(|of| of.footer.parquet_schema().root_schema());
        let stored = roots.flat_map(|root| root.get_fields().iter().cloned()).collect();
        let read = as_bytes(schema.fields());
        let read = Arc::new(Schema::new_with_metadata(read, schema.metadata().clone()));
        Ok(Some(Self { schema, read, stored, metadata }))
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(crate) fn metadata(&self) -> Vec<KeyValue> {
        self.metadata.clone()
    }

    /// The types of a file with these columns, which may be more than those of the files.
    ///
    /// # Errors
    /// Parquet has no such type.
    pub(crate) fn stored(&self, schema: &Schema) -> io::Result<SchemaDescriptor> {
        let converted = ArrowSchemaConverter::new().convert(schema)?;
        let stored = |own: &TypePtr| {
            let known = self.stored.iter().find(|known| known.name() == own.name());
            Arc::clone(known.filter(|known| is_stored_alike(known, own)).unwrap_or(own))
        };
        let fields = converted.root_schema().get_fields().iter().map(stored).collect();
        let root = Type::group_type_builder(converted.name()).with_fields(fields).build()?;
        Ok(SchemaDescriptor::new(Arc::new(root)))
    }

    /// Rows of a file with the columns of the copy.
    ///
    /// # Errors
    /// The file has changed.
    pub(crate) fn fitted(&self, batch: RecordBatch) -> io::Result<RecordBatch> {
        let (own, fields) = (batch.schema(), self.read.fields());
        if own.fields() == fields {
            return Ok(batch);
        }
        let columns = types::by_name(own.fields(), batch.columns(), fields, batch.num_rows());
        let columns = columns.map_err(io::Error::other)?;
        RecordBatch::try_new(Arc::clone(&self.read), columns).map_err(io::Error::other)
    }
}

/// The names and types of columns.
fn types_of(fields: &Fields) -> Vec<(&String, &arrow_schema::DataType)> {
    fields.iter().map(|field| (field.name(), field.data_type())).collect()
}

/// Columns of one name cannot be told apart by it.
fn no_repeats(path: &Path, fields: &Fields) -> Result<(), LayoutFault> {
    let is_first = |(at, name): (usize, &String)| fields.find(name).is_none_or(|of| of.0 == at);
    let mut names = fields.iter().map(|field| field.name()).enumerate();
    match names.find(|named| !is_first(*named)) {
        None => Ok(()),
        Some((_, name)) => Err(LayoutFault {
            files: [path.to_owned(), path.to_owned()],
            why: format!("{} has several columns `{name}`", path.display()),
        }),
    }
}

/// Names the first file whose type of a column differs from that of this file.
fn blamed(clash: types::Clash, other: &Columns, footers: &[Columns]) -> LayoutFault {
    let differs = |of: &&Columns| types::all_of("", &of.fields, &other.fields).is_err();
    let first = footers.iter().find(differs).unwrap_or(other);
    let types::Clash { column, types: [one, another] } = clash;
    let [path, other] = [&first.path, &other.path];
    let why = format!(
        "the column `{column}` is {one} in {}, and {another} in {}",
        path.display(),
        other.display()
    );
    LayoutFault { files: [path.clone(), other.clone()], why }
}

/// Whether two types of columns differ at most in what their values mean, and not in how they are
/// stored.
fn is_stored_alike(one: &Type, other: &Type) -> bool {
    let (known, own) = (one.get_basic_info(), other.get_basic_info());
    let repeated = |info: &parquet::schema::types::BasicTypeInfo| {
        info.has_repetition().then(|| info.repetition())
    };
    if known.name() != own.name() || repeated(known) != repeated(own) {
        return false;
    }
    match (one, other) {
        (
            Type::PrimitiveType { physical_type: one, type_length: length, .. },
            Type::PrimitiveType { physical_type: other, type_length: own, .. },
        ) => one == other && length == own,
        (Type::GroupType { fields: one, .. }, Type::GroupType { fields: other, .. }) => {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| is_stored_alike(a, b))
        }
        _ => false,
    }
}
