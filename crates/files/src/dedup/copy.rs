//! The second pass: every record again, and those that stay are written.

use std::io;
use std::path::PathBuf;

use nearprint_fingerprint::Distance;

use crate::dedup::choice::{Choice, Fate};
use crate::dedup::layout::mark::Mark;
use crate::dedup::output::Output;
use crate::dedup::outputs::Outputs;
use crate::dedup::revisit::{OriginalRecord, References, revisit};
use crate::dedup::scan::{Known, Scanned, Watcher};
use crate::{BadEntry, Entry, FileRecord, FileRecords, Other, Place, Raw, Stamp, is_stream};

/// Why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The files are not those of the first pass.
    #[error("{0} has changed since it was read first")]
    Changed(String),
    /// A record was read, and what the copy needs in addition cannot be read: a column that no
    /// document needs.
    #[error("a record can be read only in part, so it cannot be copied: {0}")]
    Unreadable(BadEntry),
    /// The copy cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// A record has a field that its mark would repeat. Only the first of each file is looked at
    /// before.
    #[error("{0} already has a field `{1}`, which --mark would add")]
    Repeated(String, &'static str),
    /// The user wants no more.
    #[error("it was interrupted")]
    Interrupted,
}

/// What was copied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Documents that stay.
    pub documents: u64,
    /// Records that are not documents; they are always copied.
    pub others: u64,
    /// Revisit records of pages that go.
    pub revisits: u64,
    /// Revisit records of the files that refer to pages that go.
    pub dangling: u64,
    /// Records that could not be read, and were copied as they are.
    pub unreadable: u64,
    /// Records of more than 8 MiB, whose bytes no reader keeps: they are not copied.
    pub left_out: u64,
    /// Where the first of them is.
    pub first_left_out: Option<String>,
}

/// What tells whether a file has changed since.
#[derive(Debug, PartialEq, Eq)]
pub struct Stamps(Vec<(PathBuf, Stamp)>);

impl Stamps {
    /// Of the files and folders among these paths. A stream was saved, and cannot change.
    ///
    /// # Errors
    /// The metadata of a file cannot be read.
    pub fn of(paths: &[PathBuf]) -> io::Result<Self> {
        let files = paths.iter().filter(|path| !is_stream(path));
        files.map(|path| Ok((path.clone(), Stamp::of(path)?))).collect::<io::Result<_>>().map(Self)
    }

    /// Fails unless the files are as they were.
    ///
    /// # Errors
    /// [`CopyError::Changed`].
    pub fn check(&self) -> Result<(), CopyError> {
        for (path, stamp) in &self.0 {
            if Stamp::of(path)? != *stamp {
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
    /// Pages of web archives that go become revisit records.
    pub revisits: bool,
    /// Records that cannot be read are not copied.
    pub drops_unreadable: bool,
}

impl Copy<'_> {
    /// Writes what stays. The records come with their bytes, and need not be parsed.
    ///
    /// # Errors
    /// [`CopyError`]; the outputs must be dropped.
    pub fn write(
        self,
        records: &mut FileRecords,
        outputs: &mut Outputs,
        watcher: &mut dyn Watcher,
    ) -> Result<Copied, CopyError> {
        let (mut copied, mut document) = (Copied::default(), 0_u32);
        let mut references = References::default();
        let mut readable = (0..).map_while(|at| self.scanned.readable.get(at));
        for record in records {
            match record {
                Ok(FileRecord::Other(other)) => {
                    if let Raw::Bytes(raw) = &other.raw {
                        references.copy_record(raw);
                    }
                    copy_other(&other, outputs, &mut copied)?;
                }
                // The first pass has reported what cannot be read.
                Err(bad) => {
                    if readable.next() == Some(true) {
                        return Err(CopyError::Unreadable(bad));
                    }
                    self.unreadable((&bad.place, &bad.raw), outputs, &mut copied)?;
                }
                Ok(FileRecord::Document(entry)) => {
                    if !readable.next().ok_or_else(|| changed(&entry))? {
                        self.unreadable((&entry.place, &entry.raw), outputs, &mut copied)?;
                        continue;
                    }
                    let copied_before = copied.documents;
                    self.document(document, &entry, outputs, &mut copied)?;
                    if let (true, Raw::Bytes(raw)) = (copied.documents == copied_before, &entry.raw)
                    {
                        references.drop_record(raw);
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
        if readable.next().is_some() {
            return Err(CopyError::Changed("a file".to_owned()));
        }
        copied.dangling = references.dangling();
        Ok(copied)
    }

    fn document(
        self,
        document: u32,
        entry: &Entry,
        outputs: &mut Outputs,
        copied: &mut Copied,
    ) -> Result<(), CopyError> {
        let fate = self.choice.fate(document);
        let is_known = self.scanned.known.contains_key(&document);
        let stays = !is_known && fate.is_none_or(|fate| fate.stays);
        if !self.is_marked && !stays {
            return Ok(self.revisit(document, entry, outputs, copied)?);
        }
        let mark = self.mark(document, fate)?;
        match &entry.raw {
            Raw::Bytes(raw) => {
                let output = outputs.of(&entry.place)?;
                self.check_fields(raw, output, &entry.place)?;
                output.record(raw, mark.as_ref())?;
            }
            Raw::Row(batch, row) => outputs.of(&entry.place)?.row(batch, *row, mark)?,
            Raw::None if entry.place.record.is_none() => outputs.whole(&entry.place)?,
            Raw::None | Raw::Piece { .. } => {
                copied.leave_out(entry.place.to_string());
                return Ok(());
            }
        }
        copied.documents += 1;
        Ok(())
    }

    /// Writes a record that cannot be read as it is, if its bytes are known.
    fn unreadable(
        self,
        (place, raw): (&Place, &Raw),
        outputs: &mut Outputs,
        copied: &mut Copied,
    ) -> Result<(), CopyError> {
        if self.drops_unreadable {
            return Ok(());
        }
        let is_copied = match raw {
            Raw::Bytes(raw) => {
                let output = outputs.of(place)?;
                self.check_fields(raw, output, place)?;
                output.unreadable(raw)?
            }
            Raw::Row(batch, row) => {
                outputs.of(place)?.row(batch, *row, self.is_marked.then(Mark::default))?;
                true
            }
            // A piece belongs to a record that is not a document.
            Raw::None | Raw::Piece { .. } => false,
        };
        copied.unreadable += u64::from(is_copied);
        Ok(())
    }

    /// Refuses a record whose fields its mark would repeat.
    fn check_fields(self, raw: &[u8], output: &Output, place: &Place) -> Result<(), CopyError> {
        let repeated = self.is_marked.then(|| output.repeated_field(raw)).flatten();
        repeated.map_or(Ok(()), |field| Err(CopyError::Repeated(place.to_string(), field)))
    }

    /// Writes the revisit record of a page that goes, if that is wanted.
    fn revisit(
        self,
        document: u32,
        entry: &Entry,
        outputs: &mut Outputs,
        copied: &mut Copied,
    ) -> io::Result<()> {
        let Raw::Bytes(raw) = &entry.raw else { return Ok(()) };
        if !self.revisits {
            return Ok(());
        }
        let original = match (self.scanned.known.get(&document), self.choice.fate(document)) {
            (Some(known), _) => OriginalRecord::of(&known.name, "{}"),
            (None, Some(fate)) => {
                let metadata = self.scanned.metadata.get(fate.original).unwrap_or_default();
                OriginalRecord::of(self.scanned.name(fate.original), metadata)
            }
            (None, None) => return Ok(()),
        };
        if let Some(record) = revisit(raw, &original) {
            copied.revisits += 1;
            outputs.of(&entry.place)?.record(&record.into(), None)?;
        }
        Ok(())
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

fn changed(entry: &Entry) -> CopyError {
    CopyError::Changed(entry.place.to_string())
}

/// Writes a record that is not a document. Files in unknown formats are left out.
fn copy_other(other: &Other, outputs: &mut Outputs, copied: &mut Copied) -> io::Result<()> {
    match &other.raw {
        Raw::Bytes(header) if other.what == crate::HEADERS => {
            outputs.of(&other.place)?.header(header, &other.place.path)
        }
        Raw::Bytes(raw) => {
            copied.others += 1;
            outputs.of(&other.place)?.record(raw, None)
        }
        Raw::Piece { bytes, is_last } => {
            copied.others += u64::from(*is_last);
            outputs.of(&other.place)?.piece(bytes, *is_last)
        }
        Raw::None if other.place.record.is_none() => Ok(()),
        Raw::None | Raw::Row(..) => {
            copied.leave_out(other.place.to_string());
            Ok(())
        }
    }
}

impl Copied {
    fn leave_out(&mut self, place: String) {
        self.left_out += 1;
        self.first_left_out.get_or_insert(place);
    }
}
