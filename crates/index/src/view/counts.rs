//! Counting: the totals of a view, and the documents of a fingerprint.

use super::{Counts, DocumentCounts, View};
use crate::document::Sequence;
use crate::levels::segment::PostingTally;
use crate::namespaces::NamespaceNumber;
use crate::permutation::Permuted;
use crate::visibility::Visibility;

/// Documents of a fingerprint are counted up to this number where each has to be visited, because
/// some of them expire, are too old, or belong to another namespace.
pub const COUNTED_MAX: u64 = 1_000;

impl View {
    /// The totals.
    pub fn counts(&self) -> Counts {
        Counts { sequence: self.sequence, documents: self.documents }
    }

    /// Whether a fingerprint has a document, whatever the scope.
    pub(crate) fn has_any_documents(&self, value: Permuted) -> bool {
        self.tally_of(value).documents > 0
    }

    /// Whether a fingerprint has a document in scope.
    pub(super) fn has_documents(&self, value: Permuted, visibility: &Visibility) -> bool {
        match self.counts_without_visits(value, visibility) {
            Some(counts) => counts.documents > 0,
            None => self.postings_of(value).any(|posting| visibility.sees(posting)),
        }
    }

    pub(super) fn tally_of(&self, value: Permuted) -> PostingTally {
        let segments = self.segments.iter().map(|segment| segment.tally(value));
        let deltas = self.deltas().map(|delta| delta.tally(value));
        segments.chain(deltas).fold(PostingTally::default(), PostingTally::then)
    }

    pub(super) fn counts_of_value(
        &self,
        value: Permuted,
        visibility: &Visibility,
    ) -> DocumentCounts {
        self.counts_without_visits(value, visibility).unwrap_or_else(|| {
            let seen = self.postings_of(value).filter(|posting| visibility.sees(*posting));
            let mut counts = DocumentCounts::default();
            for posting in seen.take(COUNTED_MAX as usize) {
                counts.documents += 1;
                counts.listed += u64::from(posting.is_listed);
            }
            counts
        })
    }

    /// The number of documents of a fingerprint in scope, if all or none of them are.
    fn counts_without_visits(
        &self,
        value: Permuted,
        visibility: &Visibility,
    ) -> Option<DocumentCounts> {
        let tally = self.tally_of(value);
        if tally.documents == 0 {
            return Some(DocumentCounts::default());
        }
        match tally.namespace {
            NamespaceNumber::MIXED => None,
            namespace if namespace != visibility.namespace => Some(DocumentCounts::default()),
            _ if visibility.since > Sequence::ZERO => None,
            _ => Some(DocumentCounts {
                documents: u64::try_from(tally.documents).expect("only what is there is removed"),
                listed: u64::try_from(tally.listed).expect("only what is there is removed"),
            }),
        }
    }

    /// Whether a fingerprint that a look-up finds may have no document in scope.
    pub fn needs_check(&self, visibility: &Visibility) -> bool {
        visibility.since > Sequence::ZERO
            || self.common.is_some_and(|common| !visibility.sees_all(&common))
            || self.has_deletions()
    }

    /// Whether any level has a tombstone, or a secondary table may still have fingerprints that
    /// segments have dropped.
    pub(super) fn has_deletions(&self) -> bool {
        self.segments.iter().any(|segment| segment.tombstones() > 0)
            || self.deltas.iter().any(|delta| delta.tombstones() > 0)
            || self.secondary_tables.iter().any(|other| other.cleaned_at < self.dropped)
    }
}
