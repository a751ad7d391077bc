//! Rows in columns, as `bench` and `plan` print them.

use std::fmt::{self, Write};

/// A column: its heading, and what it shows of a row.
pub type Column<T> = (&'static str, fn(&T) -> String);

/// Writes a table with a heading: the first column to the left, the others to the right, those
/// without content not at all.
///
/// # Errors
/// Those of the formatter.
pub fn write_columns<T>(
    f: &mut fmt::Formatter<'_>,
    columns: &[Column<T>],
    rows: &[T],
) -> fmt::Result {
    let cells = |&(heading, show): &Column<T>| {
        let shown: Vec<String> = rows.iter().map(show).collect();
        shown
            .iter()
            .any(|cell| !cell.is_empty())
            .then(|| [vec![heading.to_owned()], shown].concat())
    };
    let columns: Vec<Vec<String>> = columns.iter().filter_map(cells).collect();
    for line in 0..=rows.len() {
        let mut text = String::new();
        for (place, column) in columns.iter().enumerate() {
            let width = column.iter().map(String::len).max().unwrap_or_default();
            match place {
                0 => write!(text, "{:<width$}", column[line])?,
                _ => write!(text, "  {:>width$}", column[line])?,
            }
        }
        writeln!(f, "{}", text.trim_end())?;
    }
    Ok(())
}
