//! The values that go into and come out of a view.

use std::sync::Arc;

use nearprint_fingerprint::{Distance, Fingerprint, Sketch};

use crate::document::{Expiry, Sequence};
use crate::id_key::IdKey;
use crate::levels::posting::Posting;
use crate::levels::segment::Segment;
use crate::namespace_key::NamespaceKey;
use crate::namespaces::Namespaces;
use crate::permutation::Permutation;
use crate::plan::Plans;
use crate::tables::secondary::SecondaryTable;
use crate::times::Times;

/// The parameters that all views of a data directory share.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The largest distance of a look-up.
    pub distance_max: Distance,
    /// The number of events of a full delta.
    pub delta_events: usize,
    /// The largest number of fingerprints of a small segment.
    pub small_max: u64,
    pub permutation: Arc<Permutation>,
    /// Whether texts are found by their labels; if not, labels take no memory.
    pub has_labels: bool,
}

impl Shape {
    /// The tables that segments have.
    pub fn plans(&self) -> Plans {
        Plans { small_max: self.small_max, ..Plans::of(self.distance_max) }
    }
}

/// A stored fingerprint near a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Near {
    /// The stored fingerprint, in the form in which it was inserted.
    pub fingerprint: Fingerprint,
    /// Its distance from the query.
    pub distance: Distance,
}

/// The number of documents of a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DocumentCounts {
    /// All documents of the fingerprint.
    pub documents: u64,
    /// Those with an id or metadata, which hits list.
    pub listed: u64,
    /// There are more, which were not counted.
    pub is_at_least: bool,
}

/// A stored document, where the index has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Located {
    /// Its fingerprint, combined with the mask of its namespace.
    pub masked: Fingerprint,
    pub posting: Posting,
}

/// The parts from which a view is restored.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// Oldest first.
    pub segments: Vec<Arc<Segment>>,
    /// By role, oldest first.
    pub secondary_tables: Vec<SecondaryTable>,
    /// The number of fingerprints that merges had dropped.
    pub dropped: u64,
    pub counts: Counts,
    pub namespaces: Namespaces,
    pub times: Times,
}

impl Parts {
    /// The bytes of segments and secondary tables, in memory and in files.
    pub fn bytes(&self) -> u64 {
        let segments = self.segments.iter();
        let segments: u64 = segments.map(|s| s.bytes().total() + s.file_bytes()).sum();
        let tables = self.secondary_tables.iter().map(|other| &other.table);
        segments + tables.map(|table| table.bytes() as u64 + table.file_bytes()).sum::<u64>()
    }
}

/// The parts of a document other than its fingerprint.
#[derive(Debug, Clone, Default)]
pub struct Put {
    /// The key of the document's id.
    pub id: Option<IdKey>,
    pub sketch: Option<Box<Sketch>>,
    pub namespace: Option<NamespaceKey>,
    pub expiry: Option<Expiry>,
    /// It has an id or metadata.
    pub is_listed: bool,
}

/// The totals of a view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// The last change.
    pub sequence: Sequence,
    pub documents: u64,
}
