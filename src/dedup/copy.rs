//! The second pass: every record again, and those that stay are written.

use std::io;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::bulk::{Format, Other, Raw, Record, Records};
use crate::dedup::choice::{Choice, Fate};
use crate::dedup::output::{Mark, Output};
use crate::dedup::scan::{Known, Scanned, Watcher};
use crate::fingerprint::Distance;

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The files are not those of the first pass.
    #[error("{0} has changed since it was read first")]
    Changed(String),
    /// The copy cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// The user wants no more.
    #[error("it was interrupted")]
    Interrupted,
}

/// What was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Documents that stay.
    pub documents: u64,
    /// Records that are no documents, which always stay.
    pub others: u64,
    /// Records of more than 8 MiB, of which a reader keeps no bytes: they are not copied.
    pub left_out: u64,
    /// Where the first of them is.
    pub first_left_out: Option<String>,
    /// Bytes of the file.
    pub bytes: u64,
}

/// The size of each file, and when it was changed last.
#[derive(Debug, PartialEq, Eq)]
pub struct Stamps(Vec<(PathBuf, u64, Option<SystemTime>)>);

impl Stamps {
    /// Of these files.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(paths: &[PathBuf]) -> io::Result<Self> {
        let stamp = |path: &PathBuf| {
            let metadata = path.metadata()?;
            Ok((path.clone(), metadata.len(), metadata.modified().ok()))
        };
        paths.iter().map(stamp).collect::<io::Result<_>>().map(Self)
    }

    /// The bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.0.iter().map(|(_, bytes, _)| bytes).sum()
    }

    /// Fails unless the files are as they were.
    ///
    /// # Errors
    /// [`CopyError::Changed`].
    pub fn check(&self) -> Result<(), CopyError> {
        for (path, bytes, modified) in &self.0 {
            let now = path.metadata()?;
            if (now.len(), now.modified().ok()) != (*bytes, *modified) {
                return Err(CopyError::Changed(path.display().to_string()));
            }
        }
        Ok(())
    }
}

/// The second pass.
#[derive(Debug, Clone, Copy)]
pub struct Copy<'a> {
    /// What the first pass found.
    pub scanned: &'a Scanned,
    /// What becomes of every document.
    pub choice: &'a Choice,
    /// All documents are written, and each says what it duplicates.
    pub is_marked: bool,
}

impl Copy<'_> {
    /// Writes what stays.
    ///
    /// # Errors
    /// [`CopyError`]; the output must be abandoned.
    pub fn write(
        self,
        records: &mut Records,
        output: &mut Output,
        watcher: &mut dyn Watcher,
    ) -> Result<Copied, CopyError> {
        let (mut copied, mut document) = (Copied::default(), 0_u32);
        for record in records {
            match record {
                // It was reported by the first pass, and is no document.
                Err(_) => {}
                Ok(Record::Other(other)) => copy_other(&other, output, &mut copied)?,
                Ok(Record::Document(entry)) => {
                    let place = || entry.place.to_string();
                    if document as usize == self.scanned.len() {
                        return Err(CopyError::Changed(place()));
                    }
                    let fate = self.choice.fate(document);
                    let is_known = self.scanned.known.contains_key(&document);
                    if self.is_marked || !is_known && fate.is_none_or(|fate| fate.stays) {
                        let mark = self.mark(document, fate)?;
                        copied.documents += 1;
                        match &entry.raw {
                            Raw::Bytes(raw) => output.record(raw, mark.as_ref())?,
                            Raw::Row(batch, row) => output.row(batch, *row, mark)?,
                            Raw::None => {
                                copied.documents -= 1;
                                copied.leave_out(place());
                            }
                        }
                    }
                    document += 1;
                    if document.is_multiple_of(1_024) {
                        watcher.at(document.into());
                        if !watcher.goes_on() {
                            return Err(CopyError::Interrupted);
                        }
                    }
                }
            }
        }
        if document as usize != self.scanned.len() {
            return Err(CopyError::Changed("a file".to_owned()));
        }
        Ok(copied)
    }

    fn mark(self, document: u32, fate: Option<Fate>) -> io::Result<Option<Mark>> {
        if !self.is_marked {
            return Ok(None);
        }
        if let Some(Known { name, distance, similarity }) = self.scanned.known.get(&document) {
            let (duplicate_of, distance) = (Some(name.clone()), Some(*distance));
            return Ok(Some(Mark { duplicate_of, distance, similarity: *similarity, group: None }));
        }
        let Some(Fate { group, original, .. }) = fate else { return Ok(Some(Mark::default())) };
        let group = Some(group + 1);
        if original == document {
            return Ok(Some(Mark { group, ..Mark::default() }));
        }
        Ok(Some(Mark {
            duplicate_of: Some(self.scanned.name(original).into()),
            distance: self.scanned.distance(document, original).map(Distance::get),
            similarity: self.scanned.similarity(document, original)?,
            group,
        }))
    }
}

/// Writes a record that is no document.
fn copy_other(other: &Other, output: &mut Output, copied: &mut Copied) -> io::Result<()> {
    match &other.raw {
        Raw::Bytes(header) if other.what == crate::bulk::HEADERS => return output.header(header),
        Raw::Bytes(raw) => {
            copied.others += 1;
            return output.record(raw, None);
        }
        Raw::None | Raw::Row(..) => copied.leave_out(other.place.to_string()),
    }
    Ok(())
}

impl Copied {
    fn leave_out(&mut self, place: String) {
        self.left_out += 1;
        self.first_left_out.get_or_insert(place);
    }
}

/// Whether records of a format can say what they duplicate.
pub const fn has_fields(format: Format) -> bool {
    matches!(format, Format::Ndjson | Format::Json | Format::Csv | Format::Tsv | Format::Parquet)
}
