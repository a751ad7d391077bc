//! What a marked copy says of a document, in fields after its own.

use std::io;
use std::path::{Path, PathBuf};

use crate::formats::parquet;
use crate::mapping::{Fields as _, JsonFields};
use crate::reader::Opener;
use crate::rows::{self, Cell, CellKind, RowColumn};
use crate::{Entry, FileRecord, FileRecords, Format, Raw, ReadOptions, RecordForm};

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

pub(crate) static MARK: [RowColumn; 4] = [
    RowColumn::optional("duplicate_of", CellKind::Text),
    RowColumn::optional("distance", CellKind::UInt8),
    RowColumn::optional("similarity", CellKind::Float64),
    RowColumn::optional("group", CellKind::UInt32),
];

impl Mark {
    pub(crate) fn cells(&self) -> [Cell<'_>; 4] {
        let (distance, group) = (self.distance.map(u64::from), self.group.map(u64::from));
        let name = self.duplicate_of.as_deref();
        [name.into(), distance.into(), self.similarity.into(), group.into()]
    }

    /// The bytes of a JSON object with the fields of the mark after its own.
    ///
    /// # Errors
    /// It is not an object.
    pub(crate) fn add_to_object(&self, raw: &[u8], line: &mut Vec<u8>) -> io::Result<()> {
        let end = raw.iter().rposition(|&byte| byte == b'}');
        let end = end.ok_or_else(|| io::Error::other("a record is not an object"))?;
        let object = raw[..end].trim_ascii_end();
        line.extend_from_slice(object);
        if object.last() != Some(&b'{') {
            line.push(b',');
        }
        rows::write_json(MARK.iter().zip(self.cells()), line)?;
        line.extend_from_slice(&raw[end..]);
        Ok(())
    }
}

/// Whether records of a format can say what they duplicate.
pub const fn has_fields(format: Format) -> bool {
    matches!(format, Format::Ndjson | Format::Json | Format::Csv | Format::Tsv | Format::Parquet)
}

/// A field of a mark that the records of a file have already, by its columns or its first object.
/// A file that cannot be read has none; the error comes when it is read.
pub fn repeated_field(path: &Path, format: Format, options: &ReadOptions) -> Option<&'static str> {
    match format {
        Format::Parquet => {
            let footer = parquet::footer(path).ok()?;
            repeated(footer.schema().fields().iter().map(|field| field.name().as_str()))
        }
        Format::Csv | Format::Tsv => {
            let (names, _) =
                Opener::of(options.clone()).table(path, format).ok()?.shape().ok()??;
            repeated(names.iter().map(String::as_str))
        }
        Format::Ndjson | Format::Json => {
            let options =
                ReadOptions { form: RecordForm::Raw, format: Some(format), ..options.clone() };
            let first = FileRecords::new(vec![PathBuf::from(path)], options).next()?;
            let Ok(FileRecord::Document(Entry { raw: Raw::Bytes(raw), .. })) = first else {
                return None;
            };
            repeated_in_object(&raw)
        }
        Format::Warc | Format::Hex | Format::Lines | Format::Document => None,
    }
}

/// A field of a mark that a JSON object has already.
pub(crate) fn repeated_in_object(raw: &[u8]) -> Option<&'static str> {
    let object = JsonFields::parse(str::from_utf8(raw).ok()?.trim()).ok()?;
    repeated(object.names().into_iter())
}

fn repeated<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'static str> {
    names.find_map(|own| MARK.iter().map(|column| column.name).find(|name| *name == own))
}
