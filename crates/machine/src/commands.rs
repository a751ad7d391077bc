//! Commands, and what each replies.
//!
//! A command is plain data: it can be stored or sent, and every machine that has applied the same
//! changes decides it alike.

use nearprint_fingerprint::Fingerprint;
use nearprint_index::id_key::IdKey;

use crate::change::Change;
use crate::document::{Document, DocumentId, Namespace, Packed, Sequence};
use crate::jobs::{JobState, Purge};
use crate::query::Criteria;

/// Stores a document, whatever is stored already. The reply is [`DecidedWrite`].
#[derive(Debug, Clone)]
pub struct Insert {
    /// What is stored.
    pub document: Document,
    /// Whether a document whose id has its fingerprint already is stored anew even if it has
    /// neither an expiry nor metadata: that takes the expiry of the stored one off.
    pub renews: bool,
}

impl From<Document> for Insert {
    /// A document without an expiry and metadata that is there already is a retry.
    fn from(document: Document) -> Self {
        Self { document, renews: false }
    }
}

/// Stores a document unless it is a near-duplicate of another. The reply is [`DecidedWrite`].
#[derive(Debug, Clone)]
pub struct CheckAndInsert {
    pub document: Document,
    /// What counts as a near-duplicate.
    pub criteria: Criteria,
    /// Store it even if it is one.
    pub store_duplicates: bool,
    /// As in [`Insert`].
    pub renews: bool,
}

/// Stores bare fingerprints, all of them.
#[derive(Debug, Clone)]
pub struct InsertPacked {
    /// At most [`PACKED_MAX`](crate::change::PACKED_MAX).
    pub packed: Packed,
}

/// Stores each bare fingerprint that has no other within the distance. The reply is, for each, the
/// distance of the nearest one, or [`NO_HIT`](crate::search::NO_HIT) where it was stored.
#[derive(Debug, Clone)]
pub struct CheckAndInsertPacked {
    /// At most [`PACKED_MAX`](crate::change::PACKED_MAX).
    pub packed: Packed,
    /// What counts as near. Bare fingerprints have no sketches to verify.
    pub criteria: Criteria,
}

/// Removes the document with an id. The reply is the number of documents removed.
#[derive(Debug, Clone)]
pub struct Remove {
    /// The namespace of the document.
    pub namespace: Option<Namespace>,
    pub id: DocumentId,
}

/// Removes a fingerprint with all its documents in a namespace. The reply is the number of
/// documents removed.
#[derive(Debug, Clone)]
pub struct Reset {
    pub namespace: Option<Namespace>,
    pub fingerprint: Fingerprint,
}

/// Removes documents of one namespace that were listed, as far as they are still stored. The reply
/// is their number.
#[derive(Debug, Clone)]
pub struct RemoveMany {
    pub namespace: Option<IdKey>,
    /// The change that stored each, and its fingerprint combined with the mask of the namespace; at
    /// most [`REMOVED_MAX`](crate::change::REMOVED_MAX).
    pub documents: Vec<(Sequence, Fingerprint)>,
    pub reason: Reason,
}

/// Why documents are removed together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// They have expired; those that have not, by the time of the machine, stay.
    Expiry,
    /// A job removes them, unless it has ended.
    Purge(Step),
}

/// A step of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The number of the job.
    pub job: u64,
    /// With this step it has seen the documents up to this change.
    pub through: Sequence,
    /// The number of documents that it has found in this step.
    pub matched: u64,
}

/// Begins a purge. The reply is its number.
#[derive(Debug, Clone)]
pub struct BeginPurge {
    pub purge: Purge,
}

/// Ends a job that runs. The reply is whether it did.
#[derive(Debug, Clone, Copy)]
pub struct EndJob {
    pub job: u64,
    pub state: JobState,
}

/// Changes nothing but the time, so that the newest record has a right one: for a clock that was
/// set back.
#[derive(Debug, Clone, Copy)]
pub struct NoteTime;

/// What was decided of a document that was to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecidedWrite {
    pub verdict: Verdict,
    /// The change that stored the document that its id had before.
    pub previous: Option<Sequence>,
}

/// What happened to a document that was to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It was stored, and its id was new.
    Inserted,
    /// It was stored in place of the document with its id, which had another fingerprint.
    Replaced,
    /// Its id has this fingerprint already: a retry.
    AlreadyPresent,
    /// Its id has this fingerprint already; its expiry, its metadata and its age are new.
    Refreshed,
    /// It is a near-duplicate of another document.
    Duplicate {
        /// Whether it was stored nevertheless.
        stored: bool,
    },
}

impl Verdict {
    /// Whether the document is stored now.
    pub const fn is_stored(self) -> bool {
        match self {
            Self::Inserted | Self::Replaced | Self::AlreadyPresent | Self::Refreshed => true,
            Self::Duplicate { stored } => stored,
        }
    }
}

/// A decided command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied<R> {
    pub reply: R,
    /// What the journal has to record, if anything changed.
    pub change: Option<Change>,
    /// The last change after it.
    pub sequence: Sequence,
}

impl<R> Applied<R> {
    /// The same with another reply, made of this one and the sequence.
    pub fn map<T>(self, reply: impl FnOnce(R, Sequence) -> T) -> Applied<T> {
        let Self { change, sequence, .. } = self;
        Applied { reply: reply(self.reply, sequence), change, sequence }
    }
}
