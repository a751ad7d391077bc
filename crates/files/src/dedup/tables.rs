//! The files of groups and of pairs: NDJSON, CSV or Parquet, by their names.

use std::io;
use std::path::Path;

use serde::Serialize;

use crate::dedup::choice::Choice;
use crate::dedup::grouping::{DuplicateGroups, NearPair};
use crate::dedup::scan::Scanned;
use crate::rows::{CellKind, RowColumn, RowFormat, RowWriter};

/// A row for each document of a group.
const GROUPS: [RowColumn; 3] = [
    RowColumn::required("group", CellKind::UInt32),
    RowColumn::required("document", CellKind::Text),
    RowColumn::required("original", CellKind::Text),
];
const PAIRS: [RowColumn; 4] = [
    RowColumn::required("id_a", CellKind::Text),
    RowColumn::required("id_b", CellKind::Text),
    RowColumn::required("distance", CellKind::UInt8),
    RowColumn::optional("similarity", CellKind::Float64),
];

/// A group as a line of JSON.
#[derive(Debug, Serialize)]
struct Group<'a> {
    #[serde(rename = "group")]
    number: u64,
    original: &'a str,
    documents: Vec<&'a str>,
}

/// Writes all groups: one line of JSON a group, or one row a document.
///
/// # Errors
/// The file cannot be written. Nothing is at its path then.
pub fn write_groups(
    path: &Path,
    scanned: &Scanned,
    groups: &DuplicateGroups,
    choice: &Choice,
) -> io::Result<()> {
    let mut rows = RowWriter::create(path, RowFormat::of(path), GROUPS.to_vec())?;
    for ((number, group), &original) in (1..).zip(groups.iter()).zip(choice.originals()) {
        let original = scanned.name(original);
        if rows.format() == RowFormat::Ndjson {
            let documents = group.iter().map(|&of| scanned.name(of)).collect();
            rows.json(&Group { number, original, documents })?;
            continue;
        }
        for &document in group {
            rows.row(&[number.into(), scanned.name(document).into(), original.into()])?;
        }
    }
    rows.finish().map(drop)
}

/// The file of pairs, which come one by one.
#[derive(Debug)]
pub struct Pairs<'a> {
    rows: RowWriter<'a>,
    scanned: &'a Scanned,
}

impl<'a> Pairs<'a> {
    /// Begins the file.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &Path, scanned: &'a Scanned) -> io::Result<Self> {
        let rows = RowWriter::create(path, RowFormat::of(path), PAIRS.to_vec())?;
        Ok(Self { rows, scanned })
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, pair: NearPair) -> io::Result<()> {
        let [one, other] = pair.documents.map(|document| self.scanned.name(document).into());
        let distance = u64::from(pair.distance.get());
        self.rows.row(&[one, other, distance.into(), pair.similarity.into()])
    }

    /// Makes the file whole, and gives it its name.
    ///
    /// # Errors
    /// The file cannot be written. Nothing is at its path then.
    pub fn finish(self) -> io::Result<()> {
        self.rows.finish().map(drop)
    }
}
