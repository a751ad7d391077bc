//! Changing a view: storing and removing documents. The one writer does.

use std::sync::Arc;

use nearprint_fingerprint::Fingerprint;

use super::{Located, Put, QUERIES_AT_A_TIME, View};
use crate::document::{Expiry, Sequence};
use crate::id_key::IdKey;
use crate::labels::keys_of;
use crate::levels::delta::DeltaEvent;
use crate::levels::posting::{Common, Posting};
use crate::namespace_key::NamespaceKey;
use crate::namespaces::NamespaceNumber;

impl View {
    /// The same view with a newest delta of its own. Only one of a view and its clones may be
    /// changed; the fork may be changed independently of them. Cost: at most that of the changes of
    /// a delta, some tens of milliseconds.
    #[must_use]
    pub fn fork(&self) -> Self {
        let newest = &self.deltas[self.deltas.len() - 1];
        let newest = newest.fork(self.shape.distance_max, self.live_length);
        let closed = self.full_deltas().iter().cloned();
        Self { deltas: closed.chain([Arc::new(newest)]).collect(), ..self.clone() }
    }

    /// Stores a document as the next change.
    pub fn put(&mut self, fingerprint: Fingerprint, put: Put) {
        let Put { id, sketch, namespace, expiry, is_listed } = put;
        let mask = namespace.map_or(0, |namespace| namespace.mask);
        let masked = Fingerprint::new(fingerprint.bits() ^ mask);
        let permutation = &self.shape.permutation;
        let value = permutation.apply(masked);
        let labels = sketch.as_ref().filter(|_| self.shape.has_labels);
        let labels = labels.map(|sketch| keys_of(sketch.labels(), masked, mask, permutation));
        let at = self.sequence.next();
        let namespace = match namespace {
            None => NamespaceNumber::DEFAULT,
            Some(namespace) => self.namespaces.add(namespace.key, at),
        };
        let sample = sketch.as_ref().map(|sketch| sketch.sample());
        let posting = Posting { sequence: at, namespace, expiry, is_listed, sample };
        self.append(value, (DeltaEvent::Put { posting, sketch }, (id, labels)), 0);
        let common = Common::of(posting);
        self.common = Some(self.common.map_or(common, |known| known.and(common)));
        self.documents += 1;
        self.complete_change();
    }

    /// Stores a document without id and sketch for each fingerprint, in a namespace, until they
    /// expire.
    pub fn put_bare(
        &mut self,
        fingerprints: &[Fingerprint],
        namespace: Option<NamespaceKey>,
        expiry: Option<Expiry>,
    ) {
        let mask = namespace.map_or(0, |namespace| namespace.mask);
        let permuted = |view: &Self, fingerprint: &Fingerprint| {
            view.shape.permutation.apply(Fingerprint::new(fingerprint.bits() ^ mask))
        };
        for fingerprints in fingerprints.chunks(QUERIES_AT_A_TIME) {
            if let Some(newest) = self.deltas().next_back() {
                let values = fingerprints.iter().map(|fingerprint| permuted(self, fingerprint));
                values.clone().for_each(|value| newest.prefetch_value(value));
                values.for_each(|value| newest.locate_value(value));
            }
            for &fingerprint in fingerprints {
                self.put(fingerprint, Put { namespace, expiry, ..Put::default() });
            }
        }
    }

    /// Removes an existing document of the namespace with this key, as part of the next change. The
    /// caller completes that change with [`Self::put`] (a replacement) or [`Self::advance`].
    pub fn remove(&mut self, located: Located, namespace: Option<IdKey>) {
        // A put may follow in the same change and must fit into the same delta.
        self.remove_with(located, namespace, 1);
    }

    /// Removes existing documents of the namespace with this key. The caller completes the change
    /// with [`Self::advance`].
    pub fn remove_many(&mut self, documents: &[Located], namespace: Option<IdKey>) {
        for (left, located) in (0..documents.len()).rev().zip(documents) {
            self.remove_with(*located, namespace, left);
        }
    }

    fn remove_with(&mut self, located: Located, namespace: Option<IdKey>, more: usize) {
        let value = self.shape.permutation.apply(located.masked);
        self.append(value, (DeltaEvent::Removed { posting: located.posting }, (None, None)), more);
        self.documents -= 1;
        if let Some(namespace) = namespace {
            self.namespaces.take(namespace, 1);
        }
    }

    /// Removes a fingerprint with all its documents in a namespace, however many: one event hides
    /// them. The caller completes the change with [`Self::advance`].
    pub fn reset(&mut self, fingerprint: Fingerprint, namespace: Option<NamespaceKey>) {
        let visibility = self.visibility(namespace, 0, None);
        let value = self.permuted(fingerprint, &visibility);
        let key = namespace.map(|namespace| namespace.key);
        let all = u64::try_from(self.tally_of(value).documents);
        let all = all.expect("only what is there is removed");
        if !self.is_of_one_namespace(value, visibility.namespace) {
            let masked = visibility.masked(fingerprint);
            let own = |posting: &Posting| posting.namespace == visibility.namespace;
            let own: Vec<Located> = self
                .postings_of(value)
                .filter(own)
                .map(|posting| Located { masked, posting })
                .collect();
            if all > own.len() as u64 {
                return self.remove_many(&own, key);
            }
        }
        self.documents -= all;
        if let Some(key) = key {
            self.namespaces.take(key, all);
        }
        self.append(value, (DeltaEvent::Reset, (None, None)), 0);
    }

    /// Completes a change that stored no document.
    pub fn advance(&mut self) {
        self.complete_change();
    }

    /// Counts changes whose records are no longer needed, up to but without `next`. When they were
    /// made is not known.
    pub fn skip_to(&mut self, next: Sequence) {
        let last = Sequence::new(next.get().saturating_sub(1));
        self.sequence = self.sequence.max(last);
    }

    fn complete_change(&mut self) {
        self.sequence = self.sequence.next();
        self.times.note(self.sequence);
    }
}
