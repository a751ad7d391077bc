//! Lists: JSON lines, and tables without rules, as `plan`, `inspect`, `snapshot` and the benchmark
//! program print them.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::printable::printable;

/// A column: its heading, and the cell of a row.
pub type Column<T> = (&'static str, fn(&T) -> String);

/// Prints a JSON object a line.
pub(crate) fn json_lines(
    items: impl IntoIterator<Item = impl Serialize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for item in items {
        serde_json::to_writer(&mut *out, &item)?;
        writeln!(out)?;
    }
    Ok(())
}

/// A table with headings. The first column is left-aligned, the others are right-aligned, and a
/// column without content is left out. Cells may have text of others.
pub fn table<T>(columns: &[Column<T>], rows: &[T]) -> String {
    let has_content = |(_, show): &&Column<T>| rows.iter().any(|row| !show(row).is_empty());
    let columns: Vec<&Column<T>> = columns.iter().filter(has_content).collect();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(columns.iter().map(|(heading, _)| *heading));
    table.add_rows(
        rows.iter()
            .map(|row| columns.iter().map(move |(_, show)| printable(&show(row)).into_owned())),
    );
    for (number, column) in table.column_iter_mut().enumerate() {
        let (left, alignment) = match number {
            0 => (0, CellAlignment::Left),
            _ => (2, CellAlignment::Right),
        };
        column.set_padding((left, 0)).set_cell_alignment(alignment);
    }
    format!("{}\n", table.trim_fmt())
}
