//! The files of groups and of pairs: NDJSON, CSV or Parquet, by their names.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, StringBuilder, UInt8Builder, UInt32Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use serde::Serialize;

use crate::atomic_file::{AtomicFile, Compression};
use crate::dedup::choice::Choice;
use crate::dedup::grouping::{DuplicateGroups, NearPair};
use crate::dedup::output::parquet_properties;
use crate::dedup::scan::Scanned;

/// Rows that are written to Parquet together.
const BATCH: usize = 8_192;

/// A group as a line of JSON.
#[derive(Debug, Serialize)]
struct Group<'a> {
    #[serde(rename = "group")]
    number: usize,
    original: &'a str,
    documents: Vec<&'a str>,
}

/// A pair of near-duplicates, as a line of JSON or a row.
#[derive(Debug, Serialize)]
struct Pair<'a> {
    id_a: &'a str,
    id_b: &'a str,
    distance: u8,
    similarity: Option<f64>,
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
    let mut table = Table::create(path, Shape::Groups)?;
    for (number, (group, &original)) in groups.iter().zip(choice.originals()).enumerate() {
        let number = number + 1;
        let original = scanned.name(original);
        if table.has_lines() {
            let documents = group.iter().map(|&of| scanned.name(of)).collect();
            table.line(&Group { number, original, documents })?;
            continue;
        }
        for &document in group {
            table.member(number, scanned.name(document), original)?;
        }
    }
    table.finish()
}

/// The file of pairs, which come one by one.
pub struct Pairs<'a> {
    table: Table,
    scanned: &'a Scanned,
}

impl std::fmt::Debug for Pairs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pairs").finish_non_exhaustive()
    }
}

impl<'a> Pairs<'a> {
    /// Begins the file.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &Path, scanned: &'a Scanned) -> io::Result<Self> {
        Ok(Self { table: Table::create(path, Shape::Pairs)?, scanned })
    }

    /// Adds a pair.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, pair: NearPair) -> io::Result<()> {
        let [one, other] = pair.documents;
        self.table.pair(&Pair {
            id_a: self.scanned.name(one),
            id_b: self.scanned.name(other),
            distance: pair.distance.get(),
            similarity: pair.similarity,
        })
    }

    /// Makes the file whole, and gives it its name.
    ///
    /// # Errors
    /// The file cannot be written. Nothing is at its path then.
    pub fn finish(self) -> io::Result<()> {
        self.table.finish()
    }
}

/// Which columns a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Groups,
    Pairs,
}

enum Table {
    Lines(AtomicFile),
    Csv(AtomicFile),
    Parquet(Box<Columns>),
}

impl Table {
    fn create(path: &Path, shape: Shape) -> io::Result<Self> {
        let compression = Compression::of(path);
        let inner = compression.map_or_else(|| path.to_owned(), |_| path.with_extension(""));
        match inner.extension().and_then(|ending| ending.to_str()) {
            Some("parquet") => {
                let file = AtomicFile::create(path, None)?;
                Ok(Self::Parquet(Box::new(Columns::new(file, shape)?)))
            }
            Some("csv") => {
                let mut file = AtomicFile::create(path, compression)?;
                file.write_all(match shape {
                    Shape::Groups => b"group,document,original\n",
                    Shape::Pairs => b"id_a,id_b,distance,similarity\n",
                })?;
                Ok(Self::Csv(file))
            }
            _ => AtomicFile::create(path, compression).map(Self::Lines),
        }
    }

    const fn has_lines(&self) -> bool {
        matches!(self, Self::Lines(_))
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        let Self::Lines(file) = self else { return Err(io::Error::other("rows are no lines")) };
        serde_json::to_writer(&mut *file, line)?;
        file.write_all(b"\n")
    }

    fn member(&mut self, group: usize, document: &str, original: &str) -> io::Result<()> {
        match self {
            Self::Lines(_) => Err(io::Error::other("lines have no members")),
            Self::Csv(file) => {
                let (document, original) =
                    (crate::quoted(document, b','), crate::quoted(original, b','));
                writeln!(file, "{group},{document},{original}")
            }
            Self::Parquet(columns) => {
                let group = u32::try_from(group).map_err(io::Error::other)?;
                columns.groups.append_value(group);
                columns.texts[0].append_value(document);
                columns.texts[1].append_value(original);
                columns.added()
            }
        }
    }

    fn pair(&mut self, pair: &Pair<'_>) -> io::Result<()> {
        match self {
            Self::Lines(_) => self.line(pair),
            Self::Csv(file) => {
                let (one, other) = (crate::quoted(pair.id_a, b','), crate::quoted(pair.id_b, b','));
                let similarity = pair.similarity.map_or_else(String::new, |of| of.to_string());
                writeln!(file, "{one},{other},{},{similarity}", pair.distance)
            }
            Self::Parquet(columns) => {
                columns.texts[0].append_value(pair.id_a);
                columns.texts[1].append_value(pair.id_b);
                columns.distances.append_value(pair.distance);
                columns.similarities.append_option(pair.similarity);
                columns.added()
            }
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Self::Lines(file) | Self::Csv(file) => file.finish().map(drop),
            Self::Parquet(columns) => columns.finish()?.finish().map(drop),
        }
    }
}

/// The columns of either shape; those of the other one stay empty.
struct Columns {
    writer: ArrowWriter<AtomicFile>,
    schema: Arc<Schema>,
    shape: Shape,
    rows: usize,
    groups: UInt32Builder,
    texts: [StringBuilder; 2],
    distances: UInt8Builder,
    similarities: Float64Builder,
}

impl Columns {
    fn new(file: AtomicFile, shape: Shape) -> io::Result<Self> {
        let schema = Arc::new(Schema::new(match shape {
            Shape::Groups => vec![
                Field::new("group", DataType::UInt32, false),
                Field::new("document", DataType::Utf8, false),
                Field::new("original", DataType::Utf8, false),
            ],
            Shape::Pairs => vec![
                Field::new("id_a", DataType::Utf8, false),
                Field::new("id_b", DataType::Utf8, false),
                Field::new("distance", DataType::UInt8, false),
                Field::new("similarity", DataType::Float64, true),
            ],
        }));
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(parquet_properties()))?;
        Ok(Self {
            writer,
            schema,
            shape,
            rows: 0,
            groups: UInt32Builder::new(),
            texts: [StringBuilder::new(), StringBuilder::new()],
            distances: UInt8Builder::new(),
            similarities: Float64Builder::new(),
        })
    }

    fn added(&mut self) -> io::Result<()> {
        self.rows += 1;
        if self.rows == BATCH { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> io::Result<()> {
        self.rows = 0;
        let [one, other] = &mut self.texts;
        let (one, other): (ArrayRef, ArrayRef) = (Arc::new(one.finish()), Arc::new(other.finish()));
        let columns: Vec<ArrayRef> = match self.shape {
            Shape::Groups => vec![Arc::new(self.groups.finish()), one, other],
            Shape::Pairs => {
                let distances = Arc::new(self.distances.finish());
                vec![one, other, distances, Arc::new(self.similarities.finish())]
            }
        };
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        Ok(self.writer.write(&batch.map_err(io::Error::other)?)?)
    }

    fn finish(mut self) -> io::Result<AtomicFile> {
        self.write()?;
        Ok(self.writer.into_inner()?)
    }
}
