//! The model of the machine: a list of documents and a scan, for the tests of this layer and those
//! above.

use std::cmp::Reverse;

use crate::document::{Document, DocumentId, Sequence};
use crate::fingerprint::{Distance, Fingerprint};
use crate::machine::change::Change;
use crate::machine::commands::Verdict;
use crate::machine::query::{Criteria, Verification};
use crate::machine::search::{DOCUMENTS_COMPARED_MAX, NO_HIT};

/// A match in the model: whether it counts, distance, oldest document, fingerprint, in that order.
pub type ModelMatch = (Reverse<bool>, Distance, Sequence, Fingerprint);

/// Everything stored, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    documents: Vec<(Sequence, Document)>,
    sequence: Sequence,
}

impl Model {
    /// The documents, oldest first, each with the change that stored it.
    pub fn documents(&self) -> &[(Sequence, Document)] {
        &self.documents
    }

    /// The last change.
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// The document with an id.
    pub fn find(&self, id: &DocumentId) -> Option<&(Sequence, Document)> {
        self.documents.iter().find(|(_, document)| document.id.as_ref() == Some(id))
    }

    /// The matches of a document, in the order of hits.
    pub fn matches(&self, probe: &Document, criteria: Criteria) -> Vec<ModelMatch> {
        let others = self.documents.iter().filter(|(_, stored)| {
            let own = probe.id.is_some() && stored.id == probe.id;
            !own && stored.fingerprint.distance(probe.fingerprint) <= criteria.distance
        });
        let mut fingerprints: Vec<Fingerprint> =
            others.clone().map(|(_, s)| s.fingerprint).collect();
        fingerprints.sort_unstable();
        fingerprints.dedup();
        let mut matches: Vec<ModelMatch> = fingerprints
            .into_iter()
            .map(|fingerprint| {
                let documents: Vec<_> =
                    others.clone().filter(|(_, s)| s.fingerprint == fingerprint).collect();
                let oldest = documents[0].0;
                let distance = probe.fingerprint.distance(fingerprint);
                let resemblances =
                    documents.iter().take(DOCUMENTS_COMPARED_MAX).filter_map(|(_, s)| {
                        Some(probe.sketch.as_ref()?.resemblance(s.sketch.as_ref()?))
                    });
                let best = resemblances.max_by(|a, b| a.total_cmp(*b));
                let verification = match (best, criteria.min_resemblance) {
                    (Some(resemblance), Some(threshold)) => Verification::Compared {
                        resemblance,
                        confirmed: resemblance.reaches(threshold),
                    },
                    _ => Verification::Unverifiable,
                };
                let counts = verification.counts(distance, probe.short);
                (Reverse(counts), distance, oldest, fingerprint)
            })
            .collect();
        matches.sort_unstable();
        matches
    }

    /// Insert.
    pub fn insert(&mut self, document: &Document) -> Verdict {
        match document.id.as_ref().and_then(|id| self.find(id)) {
            Some((_, own)) if own.fingerprint == document.fingerprint => Verdict::AlreadyPresent,
            own => {
                let verdict = if own.is_some() { Verdict::Replaced } else { Verdict::Inserted };
                self.enact(&Change::Put { document: document.clone() });
                verdict
            }
        }
    }

    /// Check-and-insert.
    pub fn check_and_insert(
        &mut self,
        document: &Document,
        criteria: Criteria,
        store_duplicates: bool,
    ) -> Verdict {
        let first = self.matches(document, criteria).into_iter().next();
        let duplicate = first.is_some_and(|(Reverse(counts), ..)| counts);
        let own = document.id.as_ref().and_then(|id| self.find(id)).map(|(_, own)| own.fingerprint);
        if own == Some(document.fingerprint) {
            return Verdict::AlreadyPresent;
        }
        if !duplicate || store_duplicates {
            self.enact(&Change::Put { document: document.clone() });
        } else if let (Some(_), Some(id)) = (own, &document.id) {
            self.enact(&Change::Remove { id: id.clone() });
        }
        match (duplicate, own) {
            (true, _) => Verdict::Duplicate { stored: store_duplicates },
            (false, Some(_)) => Verdict::Replaced,
            (false, None) => Verdict::Inserted,
        }
    }

    /// Packed check-and-insert.
    pub fn check_and_insert_packed(
        &mut self,
        fingerprints: &[Fingerprint],
        distance: Distance,
    ) -> Vec<u8> {
        let mut reply = Vec::new();
        for &fingerprint in fingerprints {
            let distances = self.documents.iter().map(|(_, s)| s.fingerprint.distance(fingerprint));
            if let Some(nearest) = distances.filter(|near| *near <= distance).min() {
                reply.push(nearest.get());
            } else {
                self.enact(&Change::Put { document: Document::bare(fingerprint) });
                reply.push(NO_HIT);
            }
        }
        reply
    }

    /// Enacts a change.
    pub fn enact(&mut self, change: &Change) {
        match change {
            Change::Put { document } => {
                self.sequence = self.sequence.next();
                if let Some(id) = &document.id {
                    self.documents.retain(|(_, stored)| stored.id.as_ref() != Some(id));
                }
                self.documents.push((self.sequence, document.clone()));
            }
            Change::PutPacked { fingerprints } => {
                for &fingerprint in fingerprints {
                    self.enact(&Change::Put { document: Document::bare(fingerprint) });
                }
            }
            Change::PutSparse { fingerprints } => {
                let first = self.sequence.next().get();
                for (behind, fingerprint) in fingerprints {
                    self.sequence = Sequence::new(first + u64::from(*behind) - 1);
                    self.enact(&Change::Put { document: Document::bare(*fingerprint) });
                }
            }
            Change::Remove { id } => {
                self.sequence = self.sequence.next();
                self.documents.retain(|(_, stored)| stored.id.as_ref() != Some(id));
            }
            Change::Reset { fingerprint } => {
                self.sequence = self.sequence.next();
                self.documents.retain(|(_, stored)| stored.fingerprint != *fingerprint);
            }
        }
    }
}
