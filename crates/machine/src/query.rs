//! Which matches count as near-duplicates, and what a hit shows.

pub use nearprint_fingerprint::Verification;
use nearprint_fingerprint::{Distance, Fingerprint, Threshold};
use nearprint_index::labels::are_similar;

use crate::document::{Document, DocumentId, Expiry, Metadata, Sequence};

/// What makes a match count as a near-duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Criteria {
    /// The largest Hamming distance of a match, inclusive.
    pub distance: Distance,
    /// The minimum resemblance that confirms a match; `None` turns verification off.
    pub threshold: Option<Threshold>,
    /// Only documents that were stored at most this many seconds ago are matches. Within a day this
    /// is exact to the second, beyond to the minute.
    pub max_age_s: Option<u32>,
    /// Whether near-duplicates of texts are searched beyond the distance.
    pub search: SearchKind,
    /// Whether all hits are wanted. Otherwise the search ends at the first one that counts.
    pub all_hits: bool,
}

/// How a text is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchKind {
    /// Every fingerprint within the distance, and no other.
    #[default]
    Exact,
    /// In addition, similar texts beyond the distance, which share a label
    /// ([`nearprint_index::labels`]) and whose sketches confirm them. If one hit is enough, they
    /// are searched only if none within the distance counts. Documents that did not come as texts
    /// are searched exactly.
    Likely,
}

impl SearchKind {
    /// Its name in the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Likely => "likely",
        }
    }
}

/// How a look-up of one document finds another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// The fingerprints are within the distance.
    Distance,
    /// The two texts share a label.
    Likely,
}

impl FoundBy {
    /// How a look-up of one of two documents finds the other, if no bound is met; `None` if it does
    /// not.
    pub fn of([one, other]: [&Document; 2], criteria: Criteria) -> Option<Self> {
        if one.fingerprint.distance(other.fingerprint) <= criteria.distance {
            return Some(Self::Distance);
        }
        criteria.threshold.filter(|_| criteria.search == SearchKind::Likely)?;
        let sketches = one.sketch.as_deref().zip(other.sketch.as_deref());
        let share_label = sketches.is_some_and(|(sketch, stored)| {
            are_similar((one.fingerprint, sketch), (other.fingerprint, stored))
        });
        share_label.then_some(Self::Likely)
    }
}

impl Criteria {
    /// All fingerprints within a distance, of any age, without verification.
    pub const fn within(distance: Distance) -> Self {
        Self {
            distance,
            threshold: None,
            max_age_s: None,
            search: SearchKind::Exact,
            all_hits: true,
        }
    }
}

/// A stored fingerprint near the query, as callers see it.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The fingerprint as it is stored.
    pub fingerprint: Fingerprint,
    /// Its distance from the query.
    pub distance: Distance,
    /// Whether the sketches agree, if they were compared.
    pub verification: Verification,
    /// The oldest of its documents that have an id or metadata, at most [`DOCUMENTS_SHOWN_MAX`].
    pub documents: Vec<HitDocument>,
    /// How many documents it has. Where some of them expire or are too old, it counts up to
    /// [`COUNTED_MAX`](nearprint_index::view::COUNTED_MAX).
    pub document_count: u64,
    /// There are more than were counted.
    pub document_count_is_at_least: bool,
}

/// A document that has the fingerprint of a hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HitDocument {
    /// `None` for a document that is listed because of its metadata.
    pub id: Option<DocumentId>,
    /// The change that stored it.
    pub sequence: Sequence,
    /// When it was stored, in milliseconds since 1970.
    pub stored_at_ms: u64,
    /// The second from which on it is not a hit; `None` is never.
    pub expiry: Option<Expiry>,
    /// Its metadata, if the query wants it.
    pub metadata: Option<Metadata>,
}

/// The maximum number of documents in one hit; `document_count` is the true number.
pub const DOCUMENTS_SHOWN_MAX: usize = 10;

/// The order of a list of originals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginalsOrder {
    /// Those with the most duplicates first.
    Duplicates,
    /// The one with the last duplicate first.
    Recent,
}

/// A place in a list of originals: the larger the first number, the earlier; then by sequence.
pub type ListPlace = (u32, Sequence);

/// How often a document was named as the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// The change that stored the document.
    pub sequence: Sequence,
    /// Its fingerprint, combined with the mask of its namespace.
    pub masked: Fingerprint,
    /// How often it was named.
    pub duplicates: u32,
    /// When it was named last, in seconds since 1970.
    pub last_s: u32,
}

impl Touch {
    /// Its place in a list.
    pub const fn place(&self, order: OriginalsOrder) -> ListPlace {
        let number = match order {
            OriginalsOrder::Duplicates => self.duplicates,
            OriginalsOrder::Recent => self.last_s,
        };
        (number, self.sequence)
    }
}
