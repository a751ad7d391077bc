//! The documents of a search for groups, sorted by fingerprint.

use crate::document::Sequence;
use crate::namespaces::NamespaceNumber;
use crate::permutation::Permuted;
use crate::view::{Selection, View};

/// Documents that begin with the same bits, about.
const BUCKET: usize = 16;

/// The largest number of bits by which documents are found: their table takes 16 MiB.
const BITS_MAX: u32 = 22;

/// Ordered by fingerprint, then namespace, then age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    value: Permuted,
    namespace: NamespaceNumber,
    sequence: Sequence,
}

/// The selected documents, sorted by fingerprint.
#[derive(Debug)]
pub(super) struct DocumentSet {
    entries: Vec<Entry>,
    /// For each beginning of a fingerprint, where its documents begin; one more at the end.
    starts: Vec<u32>,
    shift: u32,
}

impl DocumentSet {
    pub(super) fn of(view: &View, selection: Selection) -> Self {
        let mut entries = Vec::new();
        // The selection may be small, but an allocation that grows would take twice as much.
        if selection.namespace.is_none() || view.namespaces().is_empty() {
            entries.reserve_exact(view.documents() as usize);
        }
        view.each_document(selection, |value, posting| {
            let (namespace, sequence) = (posting.namespace, posting.sequence);
            entries.push(Entry { value, namespace, sequence });
        });
        entries.sort_unstable();
        assert!(u32::try_from(entries.len()).is_ok(), "the caller limits the documents");
        let bits = (entries.len() / BUCKET).max(2).ilog2().min(BITS_MAX);
        let shift = Permuted::BITS - bits;
        let mut starts = vec![0; (1 << bits) + 1];
        for entry in &entries {
            starts[(entry.value >> shift) as usize + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        Self { entries, starts, shift }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn value(&self, at: usize) -> Permuted {
        self.entries[at].value
    }

    pub(super) fn namespace(&self, at: usize) -> NamespaceNumber {
        self.entries[at].namespace
    }

    pub(super) fn sequence(&self, at: usize) -> Sequence {
        self.entries[at].sequence
    }

    /// Whether a document has the fingerprint and the namespace of the one before it.
    pub(super) fn is_repeated(&self, at: usize) -> bool {
        let key = |at: usize| (self.value(at), self.namespace(at));
        at.checked_sub(1).is_some_and(|before| key(before) == key(at))
    }

    /// The first document of a fingerprint in each namespace.
    pub(super) fn firsts(&self, value: Permuted) -> impl Iterator<Item = usize> {
        let bucket = (value >> self.shift) as usize;
        let (first, end) = (self.starts[bucket] as usize, self.starts[bucket + 1] as usize);
        let of_bucket = &self.entries[first..end];
        let mut at = first + of_bucket.partition_point(|entry| entry.value < value);
        std::iter::from_fn(move || {
            let entry = self.entries[..end].get(at).filter(|entry| entry.value == value)?;
            let found = at;
            let is_before =
                |other: &Entry| (other.value, other.namespace) <= (value, entry.namespace);
            at += 1;
            if at < end && is_before(&self.entries[at]) {
                at += self.entries[at..end].partition_point(is_before);
            }
            Some(found)
        })
    }

    /// The first document of a fingerprint in a namespace.
    #[inline]
    pub(super) fn find(&self, value: Permuted, namespace: NamespaceNumber) -> Option<usize> {
        let bucket = (value >> self.shift) as usize;
        let (first, end) = (self.starts[bucket] as usize, self.starts[bucket + 1] as usize);
        let wanted = (value, namespace);
        let entries = &self.entries[first..end];
        let at = first + entries.partition_point(|entry| (entry.value, entry.namespace) < wanted);
        let found = self.entries[..end].get(at)?;
        ((found.value, found.namespace) == wanted).then_some(at)
    }
}
