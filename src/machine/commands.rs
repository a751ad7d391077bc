//! Commands, and what each replies.
//!
//! A command is plain data: it can be stored or sent, and every machine with the same changes
//! behind it decides it alike.

use crate::document::{Document, DocumentId, Sequence};
use crate::fingerprint::{Distance, Fingerprint};
use crate::machine::change::Change;
use crate::machine::query::Criteria;

/// Stores a document, whatever is stored already. The reply is a [`Verdict`].
#[derive(Debug, Clone)]
pub(crate) struct Insert {
    /// The document.
    pub document: Document,
}

/// Stores a document unless it is a near-duplicate of another. The reply is a [`Verdict`].
#[derive(Debug, Clone)]
pub(crate) struct CheckAndInsert {
    /// The document.
    pub document: Document,
    /// What counts as a near-duplicate.
    pub criteria: Criteria,
    /// Store it even if it is one.
    pub store_duplicates: bool,
}

/// Stores bare fingerprints, all of them.
#[derive(Debug, Clone)]
pub(crate) struct InsertPacked {
    /// In order of effect, at most [`PACKED_MAX`](crate::machine::change::PACKED_MAX).
    pub fingerprints: Vec<Fingerprint>,
}

/// Stores each bare fingerprint that has no other within the distance. The reply is, for each, the
/// distance of the nearest one, or [`NO_HIT`](crate::machine::search::NO_HIT) where it was stored.
#[derive(Debug, Clone)]
pub(crate) struct CheckAndInsertPacked {
    /// In order of effect, at most [`PACKED_MAX`](crate::machine::change::PACKED_MAX).
    pub fingerprints: Vec<Fingerprint>,
    /// What counts as near, inclusive.
    pub distance: Distance,
}

/// Removes the document with an id. The reply is the number of documents removed.
#[derive(Debug, Clone)]
pub(crate) struct Remove {
    /// The id.
    pub id: DocumentId,
}

/// Removes a fingerprint with all its documents. The reply is the number of documents removed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reset {
    /// The fingerprint.
    pub fingerprint: Fingerprint,
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
    /// It is a near-duplicate of another document.
    Duplicate {
        /// Whether it was stored all the same.
        stored: bool,
    },
}

impl Verdict {
    /// Whether the document is stored now.
    pub const fn is_stored(self) -> bool {
        match self {
            Self::Inserted | Self::Replaced | Self::AlreadyPresent => true,
            Self::Duplicate { stored } => stored,
        }
    }
}

/// A decided command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied<R> {
    /// Its reply.
    pub reply: R,
    /// What the journal has to record, if anything changed.
    pub change: Option<Change>,
    /// The last change after it.
    pub sequence: Sequence,
}

impl<R> Applied<R> {
    /// The same with another reply, made of this one and the sequence.
    pub(crate) fn map<T>(self, reply: impl FnOnce(R, Sequence) -> T) -> Applied<T> {
        let Self { change, sequence, .. } = self;
        Applied { reply: reply(self.reply, sequence), change, sequence }
    }
}
