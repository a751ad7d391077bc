//! Recent changes: the queries that deltas alone answer.
//!
//! The writer uses them to bring a search up to date before it decides. Every write waits for the
//! writer, so a caller with many fingerprints prefetches first ([`View::prefetch_changes`]).

use nearprint_fingerprint::{Distance, Fingerprint, Sketch};

use crate::document::Sequence;
use crate::levels::delta::{DeltaAt, DeltaEvent};
use crate::view::{Near, View};
use crate::visibility::Visibility;

impl View {
    /// Prefetches the data that [`Self::near_changed_since`] reads for these queries, so that their
    /// cache misses overlap.
    pub fn prefetch_changes(
        &self,
        since: Sequence,
        queries: &[Fingerprint],
        distance: Distance,
        visibility: &Visibility,
    ) {
        let queries = || queries.iter().map(|&query| self.permuted(query, visibility));
        for delta in self.deltas_changed_since(since) {
            queries().for_each(|query| delta.prefetch(query, distance));
            queries().for_each(|query| delta.locate(query, distance));
        }
    }

    /// The fingerprints within `distance` that changed after a sequence, each once; some may have
    /// no visible document. `None` when a delta with such changes has become a segment, so that
    /// they can no longer be listed.
    pub fn near_changed_since(
        &self,
        since: Sequence,
        query: Fingerprint,
        distance: Distance,
        visibility: &Visibility,
    ) -> Option<Vec<Near>> {
        if !self.reaches_back_to(since) {
            return None;
        }
        let query = self.permuted(query, visibility);
        let mut values = Vec::new();
        for delta in self.deltas_changed_since(since) {
            delta.near(query, distance, &mut |value| {
                if delta.last_change(value).is_some_and(|last| last > since) {
                    values.push(value);
                }
            });
        }
        values.sort_unstable();
        values.dedup();
        Some(values.into_iter().map(|value| self.near_of(query, value, visibility)).collect())
    }

    /// Whether a fingerprint has a visible document.
    pub fn is_stored(&self, fingerprint: Fingerprint, visibility: &Visibility) -> bool {
        self.has_documents(self.permuted(fingerprint, visibility), visibility)
    }

    /// Whether a match that was found at a sequence may have been removed since, or the deltas no
    /// longer reach back that far.
    pub fn may_have_lost_since(&self, since: Sequence) -> bool {
        !self.reaches_back_to(since)
            || self.deltas_changed_since(since).any(|delta| delta.delta().tombstones() > 0)
    }

    /// The events of a fingerprint after a sequence, oldest first, as far back as the deltas reach,
    /// of any namespace.
    pub fn events_since(
        &self,
        since: Sequence,
        fingerprint: Fingerprint,
        visibility: &Visibility,
    ) -> impl Iterator<Item = (Sequence, &DeltaEvent)> {
        let value = self.permuted(fingerprint, visibility);
        self.deltas().flat_map(move |delta| delta.events_from(value, since.next()))
    }

    /// The sketch of a document that is still in a delta.
    pub fn sketch_in_memory(
        &self,
        fingerprint: Fingerprint,
        at: Sequence,
        visibility: &Visibility,
    ) -> Option<&Sketch> {
        let value = self.permuted(fingerprint, visibility);
        self.deltas().find_map(|delta| delta.put_by(at, value))?.1
    }

    /// Whether the deltas have all changes after a sequence.
    pub(crate) fn reaches_back_to(&self, since: Sequence) -> bool {
        self.deltas[0].after() <= since
    }

    /// The deltas with changes after a sequence.
    fn deltas_changed_since(&self, since: Sequence) -> impl Iterator<Item = DeltaAt<'_>> {
        self.deltas().filter(move |delta| delta.last().is_some_and(|last| last > since))
    }
}
