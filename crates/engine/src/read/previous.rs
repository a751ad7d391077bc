//! What a write tells of the document that its id had before.
//!
//! The writer notes which document that is. Its record is read once the reply is due, and only if
//! there is one, so that the writer waits for no read and a new id costs nothing.

use nearprint_fingerprint::{Distance, Fingerprint, NumberAgreement, Resemblance, Sketch};
use nearprint_machine::document::{Document, Sequence};
use nearprint_storage::Records;

use crate::api::blocking::with_records;
use crate::api::error::Refused;
use crate::read::reader;

/// How a document that was to be stored differs from the one that its id had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Previous {
    /// The distance of their fingerprints.
    pub distance: Distance,
    /// How much of them agrees; `None` if one of them has no sketch.
    pub resemblance: Option<Resemblance>,
    /// How many of their numbers they share; `None` if one of them has none.
    pub numbers: Option<NumberAgreement>,
    /// When the previous one was stored, in milliseconds since 1970.
    pub stored_at_ms: u64,
}

/// The document that the id of a write had, not read yet.
#[derive(Debug)]
pub struct PreviousUnread {
    records: Records,
    sequence: Sequence,
    written: ComparedDocument,
}

/// What is compared of a document.
#[derive(Debug, Clone)]
pub(crate) struct ComparedDocument {
    fingerprint: Fingerprint,
    sketch: Option<Sketch>,
}

impl ComparedDocument {
    /// That of a document with an id; another one has no previous document.
    pub(crate) fn of(document: &Document) -> Option<Self> {
        document.id.as_ref()?;
        let sketch = document.sketch.as_deref().cloned();
        Some(Self { fingerprint: document.fingerprint, sketch })
    }
}

impl PreviousUnread {
    /// What a write of `written` tells, where its id had the document of this change.
    pub(crate) fn new(
        written: Option<ComparedDocument>,
        previous: Option<Sequence>,
        records: &Records,
    ) -> Option<Box<Self>> {
        let (written, sequence) = written.zip(previous)?;
        Some(Box::new(Self { records: records.clone(), sequence, written }))
    }

    /// Reads the document from these records.
    pub(crate) fn pin(&mut self, records: &Records) {
        self.records = records.clone();
    }

    /// Reads the record. `None` if it cannot be read: the write has been done, and does not fail
    /// because of it.
    pub async fn read(self: Box<Self>) -> Option<Previous> {
        let Self { records, sequence, written } = *self;
        with_records(&records, move |records| written.compared(records, sequence)).await.ok()
    }
}

impl ComparedDocument {
    /// How it differs from the document of a change.
    fn compared(&self, records: &Records, sequence: Sequence) -> Result<Previous, Refused> {
        let stored = reader::stored(records, sequence)?;
        let previous = stored.document;
        let sketches = self.sketch.as_ref().zip(previous.sketch.as_deref());
        Ok(Previous {
            distance: self.fingerprint.distance(previous.fingerprint),
            resemblance: sketches.map(|(one, other)| one.resemblance(other)),
            numbers: sketches.and_then(|(one, other)| one.numbers().agreement(other.numbers())),
            stored_at_ms: stored.stored_at_ms,
        })
    }
}
