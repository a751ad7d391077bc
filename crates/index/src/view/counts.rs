//! Counting: the totals of a view, and the documents of a fingerprint.

use nearprint_fingerprint::Fingerprint;

use super::{Counts, DocumentCounts, View};
use crate::document::Sequence;
use crate::levels::delta::DeltaAt;
use crate::levels::posting::{Common, Posting};
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

    /// Whether a fingerprint has a document, visible or not.
    pub(crate) fn has_any_documents(&self, value: Permuted) -> bool {
        let segments = self.segments.iter().map(|segment| segment.count(value));
        let deltas = self.deltas().map(|delta| delta.tally(value));
        segments.chain(deltas).fold(PostingTally::default(), PostingTally::then).documents > 0
    }

    /// Whether a fingerprint has a visible document.
    pub(super) fn has_documents(&self, value: Permuted, visibility: &Visibility) -> bool {
        match self.counts_without_visits(value, visibility) {
            Some(counts) => counts.documents > 0,
            None => self
                .newest_postings(value, visibility.since)
                .any(|posting| visibility.sees(posting)),
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
            let postings = self.postings_from(value, visibility.since);
            let seen = postings.filter(|posting| visibility.sees(*posting));
            let mut counts = DocumentCounts::default();
            for posting in seen {
                if counts.documents == COUNTED_MAX {
                    counts.is_at_least = true;
                    break;
                }
                counts.documents += 1;
                counts.listed += u64::from(posting.is_listed);
            }
            counts
        })
    }

    /// The exact number of documents of a fingerprint in a namespace that have not expired.
    ///
    /// Visits its documents only in levels in which some document has expired, or if the
    /// fingerprint has documents of another namespace: the writer asks for it.
    pub fn exact_count(&self, fingerprint: Fingerprint, visibility: &Visibility) -> u64 {
        let value = self.permuted(fingerprint, visibility);
        if !self.is_of_one_namespace(value, visibility.namespace) {
            return self.documents_of(fingerprint, visibility.of_any_age()).count() as u64;
        }
        let all = u64::try_from(self.tally_of(value).documents);
        let has_expired = |common: Option<Common>| {
            let expiries = common.and_then(|common| common.expiries);
            expiries.is_some_and(|(first, _)| first.second() <= visibility.now_s)
        };
        let segments = self.segments.iter().filter(|segment| has_expired(segment.common()));
        let in_segments = segments.flat_map(|segment| segment.postings_from(value, Sequence::ZERO));
        let deltas = self.deltas().filter(|delta| has_expired(delta.delta().common()));
        let in_deltas = deltas.flat_map(|delta| delta.newest_puts(value, Sequence::ZERO));
        let mut expired =
            in_segments.chain(in_deltas).filter(|p| visibility.has_expired(*p)).peekable();
        let mut gone = 0;
        if expired.peek().is_some() {
            let deleted = self.deleted(value);
            gone = expired.filter(|posting| !deleted.contains(posting.sequence)).count() as u64;
        }
        all.expect("only what is there is removed") - gone
    }

    /// Whether a fingerprint surely has documents of one namespace only. Visits its documents only
    /// in levels with documents of several namespaces, if any of its own expires there.
    pub(super) fn is_of_one_namespace(&self, value: Permuted, namespace: NamespaceNumber) -> bool {
        let is_clear = |tally: PostingTally, common: Option<Common>| {
            [NamespaceNumber::NONE, namespace].contains(&tally.namespace)
                || common.is_none_or(|common| common.namespaces == (namespace, namespace))
        };
        let is_own = |posting: Posting| posting.namespace == namespace;
        self.segments.iter().all(|segment| {
            is_clear(segment.tally(value), segment.common())
                || segment.postings_from(value, Sequence::ZERO).all(is_own)
        }) && self.deltas().all(|delta: DeltaAt<'_>| {
            is_clear(delta.tally(value), delta.delta().common())
                || delta.newest_puts(value, Sequence::ZERO).all(is_own)
        })
    }

    /// The number of visible documents of a fingerprint, if all or none of them are.
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
                is_at_least: false,
            }),
        }
    }

    /// Whether a fingerprint that a look-up finds may have no visible document.
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
