//! Finding documents by the changes that stored them, and what was removed of a fingerprint.

use nearprint_fingerprint::Fingerprint;
use smallvec::SmallVec;

use super::{Located, View};
use crate::document::Sequence;
use crate::levels::delta::DeltaEvent;
use crate::levels::posting::Posting;
use crate::levels::segment::{Removal, Segment};
use crate::permutation::Permuted;

/// Documents whose data is prefetched together.
const PREFETCHED: usize = 16;

impl View {
    /// Those of some documents that are still stored, by sequence. Each is named by the change that
    /// stored it and its masked fingerprint.
    ///
    /// Cost: a look-up in the level that has the change, and for each fingerprint one in the
    /// removals of all levels, however many documents the fingerprint has or had.
    pub fn documents_at(&self, documents: &[(Sequence, Fingerprint)]) -> Vec<Located> {
        let mut wanted: Vec<(Fingerprint, Sequence)> =
            documents.iter().map(|&(sequence, masked)| (masked, sequence)).collect();
        wanted.sort_unstable();
        let mut located = Vec::with_capacity(wanted.len());
        let mut deleted = (None, Deleted::default());
        for wanted in wanted.chunks(PREFETCHED) {
            self.prefetch_documents_of(wanted.iter().map(|(masked, _)| *masked));
            for &(masked, sequence) in wanted {
                let value = self.shape.permutation.apply(masked);
                if deleted.0 != Some(value) {
                    deleted = (Some(value), self.deleted(value));
                }
                if let Some(posting) = self.put_by(sequence, value)
                    && !deleted.1.contains(sequence)
                {
                    located.push(Located { masked, posting });
                }
            }
        }
        located.sort_unstable_by_key(|located| located.posting.sequence);
        located
    }

    /// The document that a change stored under a fingerprint, whether or not it was removed since.
    fn put_by(&self, sequence: Sequence, value: Permuted) -> Option<Posting> {
        let in_segments = self.segments.iter().find_map(|segment| segment.put_by(sequence, value));
        in_segments.or_else(|| {
            let found = self.deltas().find_map(|delta| delta.put_by(sequence, value));
            found.map(|(posting, _)| posting)
        })
    }

    /// Prefetches the data that leads to the documents of masked fingerprints, few at a time.
    pub fn prefetch_documents_of(&self, masked: impl Iterator<Item = Fingerprint>) {
        let values: SmallVec<[Permuted; 16]> =
            masked.map(|masked| self.shape.permutation.apply(masked)).collect();
        self.prefetch_documents(&values);
    }

    /// Prefetches the data that leads to the documents of some fingerprints, in all segments at
    /// once.
    pub(super) fn prefetch_documents(&self, values: &[Permuted]) {
        for step in [Segment::prefetch_value, Segment::locate_value] {
            for segment in self.segments.iter() {
                for &value in values {
                    step(segment, value);
                }
            }
        }
    }

    /// Says that the documents of some fingerprints are asked for next, where that is in files.
    pub(super) fn will_need_documents(&self, values: &[Permuted]) {
        for segment in self.segments.iter().filter(|segment| segment.is_in_files()) {
            for &value in values {
                segment.locate_value(value);
            }
        }
    }

    pub(super) fn deleted(&self, value: Permuted) -> Deleted<'_> {
        self.deleted_from(value, Sequence::ZERO)
    }

    /// What was removed of the documents that were stored from a change on.
    pub(super) fn deleted_from(&self, value: Permuted, first: Sequence) -> Deleted<'_> {
        let mut deleted = Deleted::default();
        if !self.has_deletions() {
            return deleted;
        }
        for segment in self.segments.iter() {
            deleted.reset = deleted.reset.max(segment.reset_of(value));
            let removals = segment.removals_of(value);
            if !removals.is_empty() {
                deleted.in_segments.push(removals);
            }
        }
        // A document is removed after it was stored.
        for (at, event) in self.deltas().flat_map(|delta| delta.events_from(value, first)) {
            match event {
                DeltaEvent::Put { .. } => {}
                DeltaEvent::Removed { posting } => deleted.in_deltas.push(posting.sequence),
                DeltaEvent::Reset => deleted.reset = Some(at),
            }
        }
        deleted.in_deltas.sort_unstable();
        deleted
    }
}

/// The documents of a fingerprint that were removed.
#[derive(Debug, Default)]
pub(super) struct Deleted<'a> {
    /// Everything older is gone.
    reset: Option<Sequence>,
    /// By segment, each sorted by sequence.
    in_segments: SmallVec<[&'a [Removal]; 4]>,
    /// Sorted.
    in_deltas: Vec<Sequence>,
}

impl Deleted<'_> {
    pub(super) fn contains(&self, sequence: Sequence) -> bool {
        let of = |removal: &Removal| removal.posting.sequence;
        self.reset.is_some_and(|reset| sequence < reset)
            || self.in_deltas.binary_search(&sequence).is_ok()
            || self.in_segments.iter().any(|all| all.binary_search_by_key(&sequence, of).is_ok())
    }
}
