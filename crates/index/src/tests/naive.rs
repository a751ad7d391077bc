//! The oracle for tests: the index as a list, so simple that it is unlikely to be wrong.

use std::collections::BTreeMap;

use nearprint_fingerprint::{Distance, Fingerprint};

use crate::document::Sequence;
use crate::id_key::IdKey;

/// All documents, in order of age.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Naive {
    documents: Vec<(Sequence, Fingerprint, Option<IdKey>)>,
    sequence: Sequence,
}

impl Naive {
    /// Stores a document; one with the same id is replaced.
    pub(super) fn put(&mut self, fingerprint: Fingerprint, id: Option<IdKey>) {
        self.sequence = self.sequence.next();
        self.documents.retain(|(.., other)| id.is_none() || *other != id);
        self.documents.push((self.sequence, fingerprint, id));
    }

    /// Removes the document with an id.
    pub(super) fn remove(&mut self, id: IdKey) {
        self.sequence = self.sequence.next();
        self.documents.retain(|(.., other)| *other != Some(id));
    }

    /// Removes a fingerprint with all its documents.
    pub(super) fn reset(&mut self, fingerprint: Fingerprint) {
        self.sequence = self.sequence.next();
        self.documents.retain(|(_, other, _)| *other != fingerprint);
    }

    /// The stored fingerprints within a distance, ascending, with the sequences of their documents.
    pub(super) fn near(
        &self,
        query: Fingerprint,
        distance: Distance,
    ) -> BTreeMap<Fingerprint, Vec<Sequence>> {
        let mut near: BTreeMap<Fingerprint, Vec<Sequence>> = BTreeMap::new();
        for &(sequence, fingerprint, _) in &self.documents {
            if query.distance(fingerprint) <= distance {
                near.entry(fingerprint).or_default().push(sequence);
            }
        }
        near
    }

    /// All documents, oldest first.
    pub(super) fn documents(&self) -> impl Iterator<Item = (Sequence, Fingerprint)> {
        self.documents.iter().map(|&(sequence, fingerprint, _)| (sequence, fingerprint))
    }

    /// The document under an id.
    pub(super) fn find_id(&self, id: IdKey) -> Option<(Sequence, Fingerprint)> {
        let found = self.documents.iter().find(|(.., other)| *other == Some(id));
        found.map(|&(sequence, fingerprint, _)| (sequence, fingerprint))
    }

    pub(super) fn len(&self) -> usize {
        self.documents.len()
    }
}
