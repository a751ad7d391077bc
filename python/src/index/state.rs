//! What an index holds. It decides by the machine of the service, so that the same documents,
//! options and order lead to the same outcomes; without namespaces, expiry and metadata.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use nearprint_fingerprint::{Distance, Fingerprint, NumberAgreement, Sketch, Verification};
use nearprint_index::InMemoryIndex;
use nearprint_index::view::View;
use nearprint_machine::change::Change;
use nearprint_machine::commands::{Applied, CheckAndInsert, DecidedWrite, Insert, Remove, Verdict};
use nearprint_machine::decide::Machine;
use nearprint_machine::document::{Document, DocumentId, Sequence};
use nearprint_machine::jobs::Jobs;
use nearprint_machine::query::Criteria;
use nearprint_machine::search::{Match, Probe, Search, others};
use nearprint_text::Analysis;

/// The most documents that a look-up makes hits of.
const LISTED_MAX: usize = 4_096;

/// The time of all look-ups and changes: nothing expires.
const NOW_MS: u64 = 0;

/// The documents of an index.
#[derive(Debug)]
pub(crate) struct IndexState {
    machine: Machine,
    /// By the number of the change that stored each.
    documents: HashMap<Sequence, Arc<IndexedDocument>>,
}

/// A document of an index.
#[derive(Debug)]
pub(crate) struct IndexedDocument {
    pub(crate) id: Arc<str>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) sketch: Option<Box<Sketch>>,
    /// Whether its text is too short to be compared by its fingerprint.
    pub(crate) short: bool,
}

/// What an index holds at one moment. It stays as it is while the index changes.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) view: View,
    pub(crate) id_secret: [u8; 16],
    /// In the order in which they were stored, each with its change.
    pub(crate) documents: Vec<(Sequence, Arc<IndexedDocument>)>,
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
    sequence: Sequence,
}

/// What a write did.
#[derive(Debug, Clone)]
pub(crate) struct IndexWrite {
    pub(crate) verdict: Verdict,
    /// The document that it duplicates.
    pub(crate) duplicates: Option<NearDocument>,
}

impl IndexState {
    pub(crate) fn new(distance_max: Distance) -> Self {
        let (view, secret) = InMemoryIndex::new(distance_max).into_view();
        let machine = Machine::new(view, Arc::new(Jobs::default()), secret);
        Self { machine, documents: HashMap::new() }
    }

    /// The inverse of [`Self::snapshot`].
    pub(crate) fn restored(snapshot: Snapshot) -> Self {
        let Snapshot { view, id_secret, documents } = snapshot;
        let machine = Machine::new(view, Arc::new(Jobs::default()), id_secret);
        Self { machine, documents: documents.into_iter().collect() }
    }

    /// What it holds now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            view: self.machine.view().fork(),
            id_secret: self.machine.id_secret(),
            documents: self.all(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.documents.len()
    }

    pub(crate) fn get(&self, id: DocumentId) -> Option<Fingerprint> {
        let key = self.machine.key(None, &id);
        self.machine.view().find_id(key).map(|located| located.masked)
    }

    /// All documents with their changes, in the order in which they were stored.
    pub(crate) fn all(&self) -> Vec<(Sequence, Arc<IndexedDocument>)> {
        let stored = self.documents.iter();
        let mut all: Vec<_> = stored.map(|(at, stored)| (*at, Arc::clone(stored))).collect();
        all.sort_unstable_by_key(|(at, _)| *at);
        all
    }

    /// The near-duplicates of a document but the one with its own id: by distance, then by age.
    pub(crate) fn query(
        &self,
        (own, analysis): (Option<DocumentId>, &Analysis),
        criteria: Criteria,
        limit: usize,
    ) -> Vec<NearDocument> {
        let document = document(own, analysis);
        let probe = self.probe(&document, criteria);
        let search = self.search(&probe);
        let counts = |found: &&Match| found.verification.counts(found.distance, document.short);
        let counting = search.matches.iter().filter(counts);
        let mut near: Vec<_> =
            counting.flat_map(|found| self.near(&probe, &search, found)).take(LISTED_MAX).collect();
        near.sort_by_key(|near| (near.distance, near.sequence));
        near.truncate(limit);
        near
    }

    /// Stores a document.
    pub(crate) fn insert(&mut self, id: DocumentId, analysis: &Analysis) -> IndexWrite {
        self.put(document(Some(id), analysis))
    }

    /// Stores a document of another index.
    pub(crate) fn insert_stored(&mut self, id: DocumentId, stored: &IndexedDocument) {
        let IndexedDocument { fingerprint, sketch, short, .. } = stored;
        let bare = Document::bare(*fingerprint);
        self.put(Document { id: Some(id), sketch: sketch.clone(), short: *short, ..bare });
    }

    fn put(&mut self, document: Document) -> IndexWrite {
        let applied = self.machine.insert(Insert::from(document));
        self.note(applied, None)
    }

    /// Stores a document unless another one counts as its near-duplicate.
    pub(crate) fn check(
        &mut self,
        id: DocumentId,
        analysis: &Analysis,
        criteria: Criteria,
    ) -> IndexWrite {
        let document = document(Some(id), analysis);
        let criteria = Criteria { all_hits: false, ..criteria };
        let probe = self.probe(&document, criteria);
        let search = self.search(&probe);
        let first = search.shown(document.short).first();
        let first = first.and_then(|first| self.near(&probe, &search, first).next());
        let command = CheckAndInsert { document, criteria, store_duplicates: false, renews: false };
        let applied = self.machine.check_and_insert(command, &search);
        self.note(applied, first)
    }

    /// Removes a document; returns whether there was one.
    pub(crate) fn delete(&mut self, id: DocumentId) -> bool {
        let key = self.machine.key(None, &id);
        let located = self.machine.view().find_id(key);
        self.machine.remove(Remove { namespace: None, id });
        self.machine.view_mut().flush_and_merge();
        located.is_some_and(|located| self.documents.remove(&located.posting.sequence).is_some())
    }

    /// Notes what a write has changed.
    fn note(&mut self, applied: Applied<DecidedWrite>, found: Option<NearDocument>) -> IndexWrite {
        let Applied { reply: DecidedWrite { verdict, previous }, change, sequence } = applied;
        if let Some(previous) = previous.filter(|_| change.is_some()) {
            self.documents.remove(&previous);
        }
        if let Some(Change::Put { document }) = change
            && let Some(stored) = IndexedDocument::of(document)
        {
            self.documents.insert(sequence, Arc::new(stored));
        }
        self.machine.view_mut().flush_and_merge();
        let is_duplicate = matches!(verdict, Verdict::Duplicate { .. });
        IndexWrite { verdict, duplicates: found.filter(|_| is_duplicate) }
    }

    fn probe<'a>(&self, document: &'a Document, criteria: Criteria) -> Probe<'a> {
        Probe::new(document, criteria, NOW_MS, &self.machine.id_secret())
    }

    fn search(&self, probe: &Probe<'_>) -> Search {
        let view = self.machine.view();
        let mut search = Search::begin(view, probe);
        let verified = search.verify(view, probe, &mut |_, posting| {
            let stored = self.documents.get(&posting.sequence);
            Ok::<_, Infallible>(stored.and_then(|stored| stored.sketch.as_deref().cloned()))
        });
        verified.unwrap_or_else(|never| match never {});
        search
    }

    /// The documents of a match that count by their own sketches, oldest first.
    fn near(
        &self,
        probe: &Probe<'_>,
        search: &Search,
        found: &Match,
    ) -> impl Iterator<Item = NearDocument> {
        let (document, threshold) = (probe.document, probe.criteria.threshold);
        let Match { fingerprint, distance, .. } = *found;
        // Beyond the distance a text counts only if its sketch confirms it.
        let is_likely = distance > probe.criteria.distance;
        let postings = others(self.machine.view(), fingerprint, search.own, search.visibility);
        postings.take(LISTED_MAX).filter_map(move |posting| {
            let stored = self.documents.get(&posting.sequence)?;
            let sketches = (document.sketch.as_deref(), stored.sketch.as_deref());
            let verification = Verification::between(sketches.0, sketches.1, threshold);
            let counts = if is_likely {
                verification.is_confirmed()
            } else {
                verification.counts(distance, document.short)
            };
            counts.then(|| {
                let sketches = sketches.0.zip(sketches.1);
                let agreement = sketches.and_then(|(a, b)| a.numbers().agreement(b.numbers()));
                NearDocument {
                    id: Arc::clone(&stored.id),
                    fingerprint,
                    distance,
                    similarity: sketches.map(|(a, b)| a.resemblance(b).similarity()),
                    numbers: agreement.map(NumberAgreement::share),
                    sequence: posting.sequence,
                }
            })
        })
    }
}

impl IndexedDocument {
    /// `None` without an id.
    pub(crate) fn of(document: Document) -> Option<Self> {
        let Document { id, fingerprint, sketch, short, .. } = document;
        Some(Self { id: id?.as_str().into(), fingerprint, sketch, short })
    }
}

fn document(id: Option<DocumentId>, analysis: &Analysis) -> Document {
    Document {
        id,
        sketch: analysis.sketch.clone(),
        short: analysis.short,
        ..Document::bare(analysis.fingerprint)
    }
}
