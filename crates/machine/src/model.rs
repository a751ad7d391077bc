//! The model of the machine: a list of documents and a scan, for the tests of this layer and those
//! above.

use std::cmp::Reverse;

use nearprint_fingerprint::{Distance, Fingerprint, Sketch, Threshold};
use nearprint_index::labels::are_similar;
use nearprint_index::namespace_key::NamespaceKey;

use crate::change::Change;
use crate::commands::Verdict;
use crate::document::{Document, DocumentId, Expiry, Namespace, Packed, Sequence};
use crate::jobs::Jobs;
use crate::query::{Criteria, SearchKind};
use crate::search::NO_HIT;

/// A match in the model: whether it counts, distance, oldest document, fingerprint, in that order.
pub type ModelMatch = (Reverse<bool>, Distance, Sequence, Fingerprint);

/// Everything stored, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Model {
    documents: Vec<(Sequence, Document)>,
    sequence: Sequence,
    now_ms: u64,
    /// When each change was made, in seconds since 1970, the first one first.
    changed_s: Vec<u64>,
    jobs: Jobs,
    secret: [u8; 16],
}

impl Model {
    /// A model of a directory with this secret. Only removals by listing need it.
    pub fn with_secret(secret: [u8; 16]) -> Self {
        Self { secret, ..Self::default() }
    }

    /// Sets the time to that of the next command.
    pub fn set_time(&mut self, at_ms: u64) {
        self.now_ms = at_ms;
    }

    pub fn jobs(&self) -> &Jobs {
        &self.jobs
    }

    /// The time, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Whether a document has expired.
    pub fn has_expired(&self, document: &Document) -> bool {
        document.expiry.is_some_and(|expiry| expiry.has_passed(self.now_ms))
    }

    /// Whether a document was stored within an age, in whole seconds.
    fn is_recent(&self, sequence: Sequence, max_age_s: Option<u32>) -> bool {
        max_age_s.is_none_or(|age| {
            let stored_s = self.counted_s()[sequence.get() as usize - 1];
            stored_s + u64::from(age) >= self.now_ms / 1_000
        })
    }

    /// When each change counts as made: no later than any after it. But if the clock was set back,
    /// and then forward again by at least half of that, the changes in between count as made when
    /// it was set back, and those before it keep their time.
    fn counted_s(&self) -> Vec<u64> {
        let (mut counted, mut before): (Vec<u64>, Option<(Vec<u64>, u64)>) = (Vec::new(), None);
        // As for a change that is made now.
        for now in self.changed_s.iter().copied().chain([self.now_ms / 1_000]) {
            let last = counted.last().copied().unwrap_or(0);
            if now < last {
                let (_, until) = before.get_or_insert_with(|| (counted.clone(), now));
                *until = now.min(*until);
                for counted in &mut counted {
                    *counted = now.min(*counted);
                }
            } else if let Some((kept, until)) = &before
                && let Some(&from) = kept.last()
                && now >= from
            {
                if (now - last) * 2 >= from - until {
                    let between = counted.len() - kept.len();
                    counted = kept.iter().copied().chain((0..between).map(|_| from)).collect();
                }
                before = None;
            }
            counted.push(now);
        }
        counted
    }

    /// The documents, oldest first, each with the change that stored it.
    pub fn documents(&self) -> &[(Sequence, Document)] {
        &self.documents
    }

    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// The document with an id in a namespace, unless it has expired.
    pub fn find(
        &self,
        namespace: Option<&Namespace>,
        id: &DocumentId,
    ) -> Option<&(Sequence, Document)> {
        let mut documents = self.documents.iter();
        documents.find(|(_, document)| {
            let is_it =
                document.id.as_ref() == Some(id) && document.namespace.as_ref() == namespace;
            is_it && !self.has_expired(document)
        })
    }

    fn own(&self, document: &Document) -> Option<&(Sequence, Document)> {
        let id = document.id.as_ref()?;
        self.find(document.namespace.as_ref(), id)
    }

    /// The change that stored the document with the id of this one.
    pub fn previous(&self, document: &Document) -> Option<Sequence> {
        self.own(document).map(|(sequence, _)| *sequence)
    }

    /// Whether a look-up of a document may see a stored one.
    pub fn is_seen(
        &self,
        sequence: Sequence,
        stored: &Document,
        probe: &Document,
        criteria: Criteria,
    ) -> bool {
        stored.namespace == probe.namespace
            && !self.has_expired(stored)
            && self.is_recent(sequence, criteria.max_age_s)
    }

    /// The matches of a document, in the order of hits.
    pub fn matches(&self, probe: &Document, criteria: Criteria) -> Vec<ModelMatch> {
        let others = self.documents.iter().filter(|(sequence, stored)| {
            let own = probe.id.is_some() && stored.id == probe.id;
            !own && self.is_seen(*sequence, stored, probe, criteria)
                && stored.fingerprint.distance(probe.fingerprint) <= criteria.distance
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
                let compared: Vec<bool> = documents
                    .iter()
                    .filter_map(|(_, stored)| {
                        let sketches = (probe.sketch.as_ref()?, stored.sketch.as_ref()?);
                        Some(agree(sketches.0, sketches.1, criteria.threshold?))
                    })
                    .collect();
                let counts = if compared.is_empty() {
                    !probe.short || distance == Distance::ZERO
                } else {
                    compared.contains(&true)
                };
                (Reverse(counts), distance, oldest, fingerprint)
            })
            .collect();
        matches.sort_unstable();
        matches
    }

    /// The hits of a document: its matches, and if none of them counts or all hits are wanted,
    /// those beyond the distance that share a label, samples do not refute, and sketches confirm.
    pub fn hits(&self, probe: &Document, criteria: Criteria) -> Vec<ModelMatch> {
        let mut hits = self.matches(probe, criteria);
        let (Some(sketch), Some(threshold)) = (&probe.sketch, criteria.threshold) else {
            return hits;
        };
        let counts = hits.first().is_some_and(|(Reverse(counts), ..)| *counts);
        let is_enough = counts && !criteria.all_hits;
        if is_enough || criteria.search == SearchKind::Exact {
            return hits;
        }
        let others = self.documents.iter().filter(|(sequence, stored)| {
            let own = probe.id.is_some() && stored.id == probe.id;
            !own && self.is_seen(*sequence, stored, probe, criteria)
                && stored.fingerprint.distance(probe.fingerprint) > criteria.distance
        });
        let confirms = |stored: &Document| {
            let text = stored.sketch.as_deref().map(|sketch| (stored.fingerprint, sketch));
            text.is_some_and(|text| {
                are_similar((probe.fingerprint, sketch), text)
                    && sketch.sample().may_reach(text.1.sample(), threshold.resemblance)
                    && agree(sketch, text.1, threshold)
            })
        };
        let mut found: Vec<Fingerprint> =
            others.clone().filter(|(_, s)| confirms(s)).map(|(_, s)| s.fingerprint).collect();
        found.sort_unstable();
        found.dedup();
        hits.extend(found.into_iter().filter_map(|fingerprint| {
            let oldest = others.clone().find(|(_, s)| s.fingerprint == fingerprint)?;
            let distance = fingerprint.distance(probe.fingerprint);
            Some((Reverse(true), distance, oldest.0, fingerprint))
        }));
        hits.sort_unstable();
        hits
    }

    /// `renews` stores a document anew whose id has its fingerprint already.
    pub fn insert(&mut self, document: &Document, renews: bool) -> Verdict {
        let verdict = match self.own(document) {
            Some((_, own)) if own.fingerprint == document.fingerprint => retried(document, renews),
            Some(_) => Verdict::Replaced,
            None => Verdict::Inserted,
        };
        if verdict != Verdict::AlreadyPresent {
            self.put(document);
        }
        verdict
    }

    pub fn check_and_insert(
        &mut self,
        document: &Document,
        criteria: Criteria,
        (store_duplicates, renews): (bool, bool),
    ) -> Verdict {
        let first = self.hits(document, criteria).into_iter().next();
        let duplicate = first.is_some_and(|(Reverse(counts), ..)| counts);
        let own = self.own(document).map(|(sequence, own)| (*sequence, own.fingerprint));
        let is_same = own.is_some_and(|(_, fingerprint)| fingerprint == document.fingerprint);
        let is_recent = own.is_some_and(|(at, _)| self.is_recent(at, criteria.max_age_s));
        let verdict = match (is_same && is_recent, duplicate, own) {
            (true, ..) => retried(document, renews),
            (false, true, _) => Verdict::Duplicate { stored: store_duplicates },
            (false, false, Some(_)) if is_same => Verdict::Refreshed,
            (false, false, Some(_)) => Verdict::Replaced,
            (false, false, None) => Verdict::Inserted,
        };
        if verdict == (Verdict::Duplicate { stored: false }) {
            if let (Some(_), false, Some(id)) = (own, is_same, &document.id) {
                let namespace = document.namespace.clone();
                self.enact(&Change::Remove { namespace, id: id.clone() });
            }
        } else if verdict != Verdict::AlreadyPresent {
            self.put(document);
        }
        verdict
    }

    pub fn check_and_insert_packed(&mut self, packed: &Packed, criteria: Criteria) -> Vec<u8> {
        let mut reply = Vec::new();
        for &fingerprint in &packed.fingerprints {
            let document = Document {
                namespace: packed.namespace.clone(),
                expiry: packed.expiry,
                ..Document::bare(fingerprint)
            };
            let nearest = self.matches(&document, criteria).iter().map(|found| found.1).min();
            if nearest.is_none() {
                self.put(&document);
            }
            reply.push(nearest.map_or(NO_HIT, Distance::get));
        }
        reply
    }

    /// Removes the documents that have expired and were stored by these changes. Returns the
    /// change.
    pub fn expire(&mut self, namespace: Option<&Namespace>, listed: &[Sequence]) -> Option<Change> {
        let key = namespace.map(|namespace| NamespaceKey::of(namespace, &self.secret));
        let is_gone = |(sequence, document): &&(Sequence, Document)| {
            listed.contains(sequence) && self.has_expired(document)
        };
        let mask = key.map_or(0, |key| key.mask);
        let masked = |(sequence, document): &(Sequence, Document)| {
            (*sequence, Fingerprint::new(document.fingerprint.bits() ^ mask))
        };
        let documents: Vec<_> = self.documents.iter().filter(is_gone).map(masked).collect();
        let namespace = key.map(|key| key.key);
        let change = Change::RemoveMany { namespace, documents, progress: None };
        let Change::RemoveMany { documents, .. } = &change else { return None };
        if documents.is_empty() {
            return None;
        }
        self.enact(&change);
        Some(change)
    }

    /// Stores a document. What expires now or earlier expires in the next second.
    fn put(&mut self, document: &Document) {
        let next = Expiry::at(self.now_ms / 1_000 + 1);
        let expiry = document.expiry.map(|expiry| Some(expiry).max(next).unwrap_or(expiry));
        self.enact(&Change::Put { document: Document { expiry, ..document.clone() } });
    }

    pub fn enact(&mut self, change: &Change) {
        match change {
            Change::Put { document } => {
                self.advance();
                if let Some(id) = &document.id {
                    self.remove(document.namespace.as_ref(), id);
                }
                self.documents.push((self.sequence, document.clone()));
            }
            Change::PutPacked { packed } => {
                let Packed { namespace, expiry, fingerprints } = packed;
                for &fingerprint in fingerprints {
                    let (namespace, expiry) = (namespace.clone(), *expiry);
                    let document = Document { namespace, expiry, ..Document::bare(fingerprint) };
                    self.put(&document);
                }
            }
            Change::PutSparse { namespace, expiry, fingerprints } => {
                let first = self.sequence.next().get();
                for (behind, fingerprint) in fingerprints {
                    while self.sequence.get() + 1 < first + u64::from(*behind) {
                        self.advance();
                    }
                    let (namespace, expiry) = (namespace.clone(), *expiry);
                    let document = Document { namespace, expiry, ..Document::bare(*fingerprint) };
                    self.enact(&Change::Put { document });
                }
            }
            Change::Remove { namespace, id } => {
                self.advance();
                self.remove(namespace.as_ref(), id);
            }
            Change::Reset { namespace, fingerprint } => {
                self.advance();
                self.documents.retain(|(_, stored)| {
                    stored.namespace != *namespace || stored.fingerprint != *fingerprint
                });
            }
            Change::RemoveMany { documents, progress, .. } => {
                self.advance();
                let gone = |at: &Sequence| documents.iter().any(|(removed, _)| removed == at);
                self.documents.retain(|(stored, _)| !gone(stored));
                if let Some(progress) = progress {
                    self.jobs.note(*progress, self.sequence);
                }
            }
            Change::PurgeBegun { purge } => {
                self.advance();
                self.jobs.begin(self.sequence, purge.clone(), self.now_ms);
            }
            Change::JobEnded { job, state } => {
                self.advance();
                self.jobs.end(*job, *state, self.now_ms);
            }
            Change::Named { .. } => self.advance(),
        }
    }

    fn advance(&mut self) {
        self.sequence = self.sequence.next();
        self.changed_s.push(self.now_ms / 1_000);
    }

    fn remove(&mut self, namespace: Option<&Namespace>, id: &DocumentId) {
        self.documents.retain(|(_, stored)| {
            stored.id.as_ref() != Some(id) || stored.namespace.as_ref() != namespace
        });
    }
}

/// Whether two texts are similar, and have enough of their numbers in common if both have some.
fn agree(one: &Sketch, other: &Sketch, threshold: Threshold) -> bool {
    let numbers = one.numbers().agreement(other.numbers());
    let have_in_common = match (numbers, threshold.numbers) {
        (Some(numbers), Some(least)) => numbers.reaches(least),
        _ => true,
    };
    one.resemblance(other).reaches(threshold.resemblance) && have_in_common
}

/// What happens to a document whose id has its fingerprint already.
fn retried(document: &Document, renews: bool) -> Verdict {
    if renews || document.expiry.is_some() || document.metadata.is_some() {
        Verdict::Refreshed
    } else {
        Verdict::AlreadyPresent
    }
}
