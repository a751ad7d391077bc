//! The columns of a copy of tables with headers (CSV, TSV).
//!
//! Headers are compared by their cells. Records of a file with other quotes, another delimiter or
//! another order of the same columns are written as those of the first file are.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use csv_core::Reader;

use super::LayoutFault;
use crate::context::Quoting;
use crate::formats::table::{self, Dialect};
use crate::reader::Opener;
use crate::{Format, ReadOptions};

/// The columns of a copy.
#[derive(Debug)]
pub struct TableLayout {
    names: Vec<String>,
    dialect: Dialect,
    files: BTreeMap<PathBuf, Shape>,
}

/// A header, and how its file separates cells.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shape {
    names: Vec<String>,
    dialect: Dialect,
}

/// How the records of a file get into the copy.
#[derive(Debug)]
pub(crate) enum Fit {
    AsTheyAre,
    Rewritten {
        from: Box<Reader>,
        to: Dialect,
        /// For each column of the copy, that of the file.
        columns: Vec<usize>,
    },
}

impl TableLayout {
    /// Of a copy of all these files.
    ///
    /// # Errors
    /// Their columns differ.
    pub(super) fn of(
        files: &[PathBuf],
        format: Format,
        options: &ReadOptions,
    ) -> Result<Self, LayoutFault> {
        let opener = Opener::of(options.clone());
        let shape = |path: &PathBuf| {
            let shape = opener.table(path, format).and_then(|mut table| table.shape());
            let (names, dialect) = shape.ok()??;
            Some((path.clone(), Shape { names, dialect }))
        };
        let shapes: Vec<(PathBuf, Shape)> = files.iter().filter_map(shape).collect();
        let delimiter = if format == Format::Tsv { b'\t' } else { b',' };
        let default = Dialect { delimiter, quoting: options.quoting };
        let (names, delimiter) = match shapes.first() {
            Some((_, shape)) => (shape.names.clone(), shape.dialect.delimiter),
            None => (Vec::new(), default.delimiter),
        };
        if let Some((first, rest)) = shapes.split_first() {
            rest.iter().try_for_each(|other| same_columns(first, other))?;
        }
        let mut rules = shapes.iter().filter_map(|(_, shape)| shape.dialect.quoting);
        let quoting = rules
            .next()
            .map(|first| if rules.all(|rule| rule == first) { first } else { Quoting::Double });
        let dialect = Dialect { delimiter, quoting };
        Ok(Self { names, dialect, files: shapes.into_iter().collect() })
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// How the records of a file get into the copy.
    pub(crate) fn fit(&self, path: &Path) -> Fit {
        let Some(Shape { names, dialect: from }) = self.files.get(path) else {
            return Fit::AsTheyAre;
        };
        let to = self.dialect;
        let is_alike = from.delimiter == to.delimiter
            && (from.quoting.is_none() || from.quoting == to.quoting);
        if is_alike && *names == self.names {
            return Fit::AsTheyAre;
        }
        let column = |name| names.iter().position(|own| own == name);
        // Columns of one name are in the same order in all files.
        let columns = if *names == self.names {
            (0..names.len()).collect()
        } else {
            self.names.iter().filter_map(column).collect()
        };
        Fit::Rewritten { from: Box::new(from.reader()), to, columns }
    }
}

impl Fit {
    /// A record, or a header, for the copy; `None` if it has not the cells of its table.
    pub(crate) fn fitted<'a>(&mut self, record: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let Self::Rewritten { from, to, columns } = self else {
            return Some(Cow::Borrowed(record));
        };
        let own = table::cells(from, record);
        if own.len() != columns.len() {
            return None;
        }
        let cells: Vec<&[u8]> = columns.iter().map(|&at| &*own[at]).collect();
        let mut fitted = Vec::with_capacity(record.len());
        to.write(&cells, &mut fitted);
        Some(Cow::Owned(fitted))
    }
}

fn same_columns(
    (first, one): &(PathBuf, Shape),
    (path, other): &(PathBuf, Shape),
) -> Result<(), LayoutFault> {
    if one.names == other.names {
        return Ok(());
    }
    let (first_name, name) = (first.display(), path.display());
    let missing =
        |from: &Shape, of: &Shape| of.names.iter().find(|name| !from.names.contains(name)).cloned();
    let repeated = || {
        let repeats = |name: &&String| one.names.iter().filter(|own| own == name).count() > 1;
        one.names.iter().find(repeats).cloned()
    };
    let why = if let Some(column) = missing(other, one) {
        format!("only {first_name} has a column `{column}`")
    } else if let Some(column) = missing(one, other) {
        format!("only {name} has a column `{column}`")
    } else if let Some(column) = repeated() {
        format!("they have several columns `{column}`, in another order")
    } else if one.names.len() != other.names.len() {
        format!("{name} has a column twice")
    } else {
        return Ok(());
    };
    Err(LayoutFault {
        files: [first.clone(), path.clone()],
        why: format!("different headers: {why}"),
    })
}
