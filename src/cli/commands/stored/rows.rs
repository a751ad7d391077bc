//! Stored documents as rows of NDJSON, CSV or Parquet (`docs/export.md`).

use std::io::{self, Write};
use std::path::Path;

use nearprint_files::rows::{Cell, CellKind, RowColumn, RowFormat, RowWriter};
use nearprint_wire::answer::DocumentReply;
use serde_json::value::RawValue;

/// Rows that are being written.
pub(super) struct ExportRows<'a> {
    rows: RowWriter<'a>,
    /// Whether there are metadata, and sketches.
    more: [bool; 2],
}

impl<'a> ExportRows<'a> {
    /// To an open sink; not Parquet.
    ///
    /// # Errors
    /// Those of the sink.
    pub(super) fn to(
        sink: &'a mut dyn Write,
        format: RowFormat,
        more: [bool; 2],
    ) -> io::Result<Self> {
        Ok(Self { rows: RowWriter::to(sink, format, columns(more))?, more })
    }

    /// To a file, which is there once it is whole.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(super) fn create(path: &Path, format: RowFormat, more: [bool; 2]) -> io::Result<Self> {
        Ok(Self { rows: RowWriter::create(path, format, columns(more))?, more })
    }

    /// Adds a document, a line of the stream.
    ///
    /// # Errors
    /// Those of the sink, and `InvalidData` if the line is not a document.
    pub(super) fn add(&mut self, line: &[u8]) -> io::Result<()> {
        if self.rows.format() == RowFormat::Ndjson {
            return self.rows.line(line);
        }
        let document: DocumentReply<'_> = serde_json::from_slice(line)?;
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        if i64::try_from(document.stored_at_ms).is_err() {
            return Err(invalid("a document has no time"));
        }
        let mut cells: Vec<Cell<'_>> = vec![
            document.namespace.as_deref().into(),
            document.id.as_deref().into(),
            document.fingerprint.0.into(),
            document.sequence.into(),
            document.stored_at_ms.into(),
            document.expires_at.map(u64::from).into(),
        ];
        let [metadata, sketch] = self.more;
        cells.extend(metadata.then(|| Cell::from(document.metadata.as_deref().map(RawValue::get))));
        if sketch {
            cells.push(document.recipe.as_deref().into());
            cells.push(document.sketch.as_deref().into());
        }
        self.rows.row(&cells)
    }

    /// Makes the file whole, and gives it its name. Returns its bytes.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn finish(self) -> io::Result<u64> {
        self.rows.finish()
    }
}

fn columns([metadata, sketch]: [bool; 2]) -> Vec<RowColumn> {
    let mut columns = vec![
        RowColumn::optional("namespace", CellKind::Text),
        RowColumn::optional("id", CellKind::Text),
        RowColumn::required("fingerprint", CellKind::Fingerprint),
        RowColumn::optional("sequence", CellKind::UInt64),
        RowColumn::required("stored_at", CellKind::Millis),
        RowColumn::optional("expires_at", CellKind::UInt64),
    ];
    columns.extend(metadata.then(|| RowColumn::optional("metadata", CellKind::Text)));
    if sketch {
        columns.push(RowColumn::required("recipe", CellKind::Text));
        columns.push(RowColumn::optional("sketch", CellKind::Text));
    }
    columns
}
