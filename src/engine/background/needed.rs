//! Which records are still needed: those of stored documents.
//!
//! A record that stored a document is needed as long as the document is stored. A record of a
//! removal is not, because the record of the removed document is reclaimed before it or with it. Of
//! fingerprints that were stored together, those that are still stored stay in one record.

use std::collections::HashMap;

use crate::fingerprint::Fingerprint;
use crate::index::levels::ids::IdKey;
use crate::index::view::View;
use crate::machine::change::{Change, Record};
use crate::storage::RecordRef;

/// If a fingerprint has more documents than this, they are listed once in a window, not for each
/// record.
const CROWD: u64 = 16;
/// A window of sequences: 4 million. The documents of crowded fingerprints in it take at most 32
/// MiB.
const WINDOW_BITS: u32 = 22;

/// The part of a record that is needed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NeededPart {
    /// Nothing.
    Nothing,
    /// All of it.
    All {
        /// Its documents.
        documents: u64,
    },
    /// Some of its documents, as a record of their own.
    Some {
        /// The sequence of its first change.
        first: u64,
        /// The record.
        record: Record,
        /// Its documents.
        documents: u64,
    },
}

/// Decides which records a state needs.
#[derive(Debug)]
pub(crate) struct Needed<'a> {
    view: &'a View,
    id_secret: [u8; 16],
    /// The sequences of the documents of crowded fingerprints, within the window.
    crowds: HashMap<Fingerprint, Vec<u64>>,
    window: u64,
}

impl<'a> Needed<'a> {
    /// For this state.
    pub(crate) fn new(view: &'a View, id_secret: [u8; 16]) -> Self {
        Self { view, id_secret, crowds: HashMap::new(), window: 0 }
    }

    /// The part of a record that is needed. A record that cannot be decoded is kept.
    ///
    /// Cost: a look-up of the id or of the fingerprint for each document.
    pub(crate) fn of(&mut self, record: RecordRef<'_>) -> NeededPart {
        let Ok(Record { at_ms, change }) = Record::decode(record.payload) else {
            return NeededPart::All { documents: u64::from(record.count) };
        };
        match change {
            Change::Put { document } => {
                let stored = match &document.id {
                    // An id has one document, so the others of its fingerprint need no visit.
                    Some(id) => {
                        let located = self.view.find_id(IdKey::of(id.as_str(), &self.id_secret));
                        located.is_some_and(|l| l.posting.sequence.get() == record.first)
                    }
                    None => self.is_stored(document.fingerprint, record.first),
                };
                if stored { NeededPart::All { documents: 1 } } else { NeededPart::Nothing }
            }
            Change::PutPacked { fingerprints } => {
                let all: Vec<_> = (0..).zip(fingerprints).collect();
                self.of_packed(record.first, at_ms, &all)
            }
            Change::PutSparse { fingerprints } => {
                self.of_packed(record.first, at_ms, &fingerprints)
            }
            Change::Remove { .. } | Change::Reset { .. } => NeededPart::Nothing,
        }
    }

    fn of_packed(&mut self, first: u64, at_ms: u64, all: &[(u16, Fingerprint)]) -> NeededPart {
        let mut stored = all.to_vec();
        stored.retain(|&(behind, fingerprint)| {
            self.is_stored(fingerprint, first + u64::from(behind))
        });
        let documents = stored.len() as u64;
        let (Some(&(begin, _)), Some(&(end, _))) = (stored.first(), stored.last()) else {
            return NeededPart::Nothing;
        };
        if stored.len() == all.len() {
            return NeededPart::All { documents };
        }
        let change = if u64::from(end - begin) + 1 == documents {
            let fingerprints = stored.into_iter().map(|(_, fingerprint)| fingerprint).collect();
            Change::PutPacked { fingerprints }
        } else {
            for (behind, _) in &mut stored {
                *behind -= begin;
            }
            Change::PutSparse { fingerprints: stored }
        };
        let record = Record { at_ms, change };
        NeededPart::Some { first: first + u64::from(begin), record, documents }
    }

    fn is_stored(&mut self, fingerprint: Fingerprint, sequence: u64) -> bool {
        let sequences = || self.view.documents_of(fingerprint).map(|p| p.sequence.get());
        if self.view.document_counts(fingerprint).documents <= CROWD {
            return sequences().any(|stored| stored == sequence);
        }
        let window = sequence >> WINDOW_BITS;
        if self.window != window {
            (self.crowds, self.window) = (HashMap::new(), window);
        }
        // Oldest first, so they are sorted.
        let in_window = || sequences().filter(|stored| stored >> WINDOW_BITS == window).collect();
        let crowd = self.crowds.entry(fingerprint).or_insert_with(in_window);
        crowd.binary_search(&sequence).is_ok()
    }
}
