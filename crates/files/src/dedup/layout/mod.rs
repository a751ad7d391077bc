//! The columns that the records of several files have in one copy, known before any file is read.

pub mod mark;
mod metadata;
mod rows;
mod table;
mod types;

use std::path::PathBuf;
use std::sync::Arc;

use crate::{Format, ReadOptions};

pub use rows::RowLayout;
pub(crate) use table::Fit;
pub use table::TableLayout;

/// The columns of a copy.
#[derive(Debug, Clone)]
pub enum Layout {
    /// Records do not share columns.
    Records,
    /// Of Parquet.
    Rows(Arc<RowLayout>),
    /// Of CSV or TSV.
    Table(Arc<TableLayout>),
}

/// Files that do not fit into one copy.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct LayoutFault {
    /// Two of them.
    pub files: [PathBuf; 2],
    /// What differs.
    pub why: String,
}

impl Layout {
    /// The columns of one copy of these files. A file that cannot be read has no columns here; the
    /// error comes when it is read.
    ///
    /// # Errors
    /// The columns of two files do not fit into one table.
    pub fn of(
        files: &[PathBuf],
        (format, is_marked): (Format, bool),
        options: &ReadOptions,
    ) -> Result<Self, LayoutFault> {
        Ok(match format {
            Format::Parquet => {
                let rows = RowLayout::of(files, is_marked)?;
                rows.map_or(Self::Records, |rows| Self::Rows(Arc::new(rows)))
            }
            Format::Csv | Format::Tsv => {
                Self::Table(Arc::new(TableLayout::of(files, format, options)?))
            }
            Format::Ndjson
            | Format::Json
            | Format::Warc
            | Format::Hex
            | Format::Lines
            | Format::Document => Self::Records,
        })
    }
}

#[cfg(test)]
mod tests;
