//! What an index holds, and how it decides: as the service does with the same documents, options
//! and order, but without namespaces, expiry and metadata.

use std::collections::HashMap;
use std::sync::Arc;

use nearprint_fingerprint::{
    Distance, Fingerprint, NumberAgreement, Sketch, Threshold, Verification,
};
use nearprint_index::InMemoryIndex;
use nearprint_text::Analysis;

/// Documents that a look-up compares at most, the nearest and the oldest first. (A comparison takes
/// some tens of nanoseconds, and a thousand equal texts need not all be compared.)
const COMPARED_MAX: usize = 4_096;

/// The documents of an index.
#[derive(Debug)]
pub(crate) struct IndexState {
    index: InMemoryIndex,
    /// By the number of the change that stored each.
    documents: HashMap<u64, Stored>,
    by_id: HashMap<Arc<str>, u64>,
}

#[derive(Debug)]
struct Stored {
    id: Arc<str>,
    sketch: Option<Box<Sketch>>,
}

/// What counts as a near-duplicate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryCriteria {
    pub(crate) distance: Distance,
    /// `None` compares no sketches.
    pub(crate) threshold: Option<Threshold>,
    /// Whether texts are searched beyond the distance.
    pub(crate) is_likely: bool,
}

/// A document that counts as a near-duplicate of another.
#[derive(Debug, Clone)]
pub(crate) struct NearDocument {
    pub(crate) id: Arc<str>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) distance: Distance,
    /// `None` if one of the two has no sketch.
    pub(crate) similarity: Option<f64>,
    /// `None` if one of the two texts has no number.
    pub(crate) numbers: Option<f64>,
    sequence: u64,
}

/// What a write did.
#[derive(Debug, Clone)]
pub(crate) enum InsertOutcome {
    Inserted,
    Replaced,
    AlreadyPresent,
    Duplicate(NearDocument),
}

impl IndexState {
    pub(crate) fn new(distance_max: Distance) -> Self {
        Self {
            index: InMemoryIndex::new(distance_max),
            documents: HashMap::new(),
            by_id: HashMap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.documents.len()
    }

    pub(crate) fn get(&self, id: &str) -> Option<Fingerprint> {
        self.index.get(id)
    }

    /// The near-duplicates of a document: by distance, then by age.
    pub(crate) fn query(
        &self,
        document: &Analysis,
        criteria: QueryCriteria,
        without: Option<&str>,
    ) -> Vec<NearDocument> {
        let mut found = self.within(document, criteria, without);
        found.extend(self.beyond(document, criteria, without));
        found.sort_by_key(|found| (found.distance, found.sequence));
        found
    }

    /// Stores a document.
    pub(crate) fn insert(&mut self, id: &str, document: &Analysis) -> InsertOutcome {
        let before = self.get(id);
        if before == Some(document.fingerprint) {
            return InsertOutcome::AlreadyPresent;
        }
        let id: Arc<str> = id.into();
        match &document.sketch {
            Some(sketch) => self.index.insert_text(&id, document.fingerprint, sketch),
            None => self.index.insert(&id, document.fingerprint),
        };
        let sequence = self.index.sequence().get();
        if let Some(replaced) = self.by_id.insert(Arc::clone(&id), sequence) {
            self.documents.remove(&replaced);
        }
        self.documents.insert(sequence, Stored { id, sketch: document.sketch.clone() });
        if before.is_some() { InsertOutcome::Replaced } else { InsertOutcome::Inserted }
    }

    /// Stores a document unless another one counts as its near-duplicate.
    pub(crate) fn check(
        &mut self,
        id: &str,
        document: &Analysis,
        criteria: QueryCriteria,
    ) -> InsertOutcome {
        if self.get(id) == Some(document.fingerprint) {
            return InsertOutcome::AlreadyPresent;
        }
        let first = |mut found: Vec<NearDocument>| {
            found.sort_by_key(|found| (found.distance, found.sequence));
            found.into_iter().next()
        };
        let found = first(self.within(document, criteria, Some(id)))
            .or_else(|| first(self.beyond(document, criteria, Some(id))));
        match found {
            Some(found) => {
                // What the id stood for before is no longer its content.
                self.delete(id);
                InsertOutcome::Duplicate(found)
            }
            None => self.insert(id, document),
        }
    }

    /// Removes a document; returns whether there was one.
    pub(crate) fn delete(&mut self, id: &str) -> bool {
        if let Some(sequence) = self.by_id.remove(id) {
            self.documents.remove(&sequence);
        }
        self.index.remove(id)
    }

    /// The documents within the distance that count.
    fn within(
        &self,
        document: &Analysis,
        criteria: QueryCriteria,
        without: Option<&str>,
    ) -> Vec<NearDocument> {
        let near = self.index.near(document.fingerprint, criteria.distance);
        let counts =
            |verification: Verification, distance| verification.counts(distance, document.short);
        let near = near.into_iter().map(|near| (near.fingerprint, near.distance));
        self.that_count(document, near, (criteria, without), counts)
    }

    /// The similar texts beyond the distance, which share a label and whose sketches confirm them.
    fn beyond(
        &self,
        document: &Analysis,
        criteria: QueryCriteria,
        without: Option<&str>,
    ) -> Vec<NearDocument> {
        let text = document.sketch.as_deref().zip(criteria.threshold);
        let Some((sketch, threshold)) = text.filter(|_| criteria.is_likely) else {
            return Vec::new();
        };
        let (fingerprint, beyond) = (document.fingerprint, criteria.distance);
        let similar = self.index.similar(fingerprint, sketch, threshold.resemblance, beyond);
        let similar = similar.into_iter().map(|near| (near.fingerprint, near.distance));
        let counts = |verification: Verification, _| verification.is_confirmed();
        self.that_count(document, similar, (criteria, without), counts)
    }

    /// The documents of fingerprints that count by their sketches.
    fn that_count(
        &self,
        document: &Analysis,
        near: impl Iterator<Item = (Fingerprint, Distance)>,
        (criteria, without): (QueryCriteria, Option<&str>),
        counts: impl Fn(Verification, Distance) -> bool,
    ) -> Vec<NearDocument> {
        let documents = near.flat_map(|(fingerprint, distance)| {
            let documents = self.index.documents_of(fingerprint);
            documents.map(move |sequence| (fingerprint, distance, sequence.get()))
        });
        let found = documents.take(COMPARED_MAX).filter_map(|(fingerprint, distance, sequence)| {
            let stored = self.documents.get(&sequence)?;
            let sketches = (document.sketch.as_deref(), stored.sketch.as_deref());
            let verification = Verification::between(sketches.0, sketches.1, criteria.threshold);
            let is_other = without != Some(&*stored.id);
            (is_other && counts(verification, distance)).then(|| {
                let sketches = sketches.0.zip(sketches.1);
                let similarity = sketches.map(|(a, b)| a.resemblance(b).similarity());
                let agreement = sketches.and_then(|(a, b)| a.numbers().agreement(b.numbers()));
                let numbers = agreement.map(NumberAgreement::share);
                let id = Arc::clone(&stored.id);
                NearDocument { id, fingerprint, distance, similarity, numbers, sequence }
            })
        });
        found.collect()
    }
}
