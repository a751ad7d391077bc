//! Which records are still needed: those of stored documents.
//!
//! A record that stored a document is needed while the document is there; one that only forgot
//! something is not, since what it forgot is given back before it or with it. Of fingerprints that
//! were stored together those that are stored stay, in one record.

use std::collections::HashMap;

use crate::fingerprint::Fingerprint;
use crate::index::levels::ids::IdKey;
use crate::index::view::View;
use crate::machine::change::{Change, Record};
use crate::storage::RecordRef;

/// The documents of a fingerprint with more than this are listed once a window, not for each record.
const CROWD: u64 = 16;
/// Sequences whose documents of crowds are listed at a time: 4 million, at most 32 MiB.
const WINDOW_BITS: u32 = 22;

/// What is needed of a record.
#[derive(Debug, PartialEq, Eq)]
pub enum NeededPart {
    /// Nothing.
    Nothing,
    /// All of it: it stores so many documents, each of them there.
    All {
        /// How many.
        documents: u64,
    },
    /// Some of its documents, as a record of their own.
    Some {
        /// The sequence of its first change.
        first: u64,
        /// What it stores.
        record: Record,
        /// How many.
        documents: u64,
    },
}

/// Decides by a state which records are needed.
#[derive(Debug)]
pub struct Needed<'a> {
    view: &'a View,
    id_secret: [u8; 16],
    /// The sequences within the window of all documents of some fingerprints.
    crowds: HashMap<Fingerprint, Vec<u64>>,
    window: u64,
}

impl<'a> Needed<'a> {
    /// By this state.
    pub fn new(view: &'a View, id_secret: [u8; 16]) -> Self {
        Self { view, id_secret, crowds: HashMap::new(), window: 0 }
    }

    /// What is needed of a record. One that cannot be decoded is kept: it is not for a clean-up to
    /// judge.
    ///
    /// Cost: a look-up of the id or of the fingerprint for each document.
    pub fn of(&mut self, record: RecordRef<'_>) -> NeededPart {
        let Ok(Record { at_ms, change }) = Record::decode(record.payload) else {
            return NeededPart::All { documents: u64::from(record.count) };
        };
        match change {
            Change::Put { document } => {
                let stored = match &document.id {
                    // An id has one document: no list of its fingerprint's is visited.
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
