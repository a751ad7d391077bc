//! What a look-up asks and finds: the rule by which a match counts.

use crate::document::DocumentId;
use crate::fingerprint::{Distance, Fingerprint};
use crate::sketch::{MinResemblance, Resemblance, Sketch};

/// By what a match counts as a near-duplicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Criteria {
    /// The largest Hamming distance of a match, inclusive.
    pub distance: Distance,
    /// The least resemblance that confirms a match; `None` switches verification off.
    pub min_resemblance: Option<MinResemblance>,
}

/// Whether the sketches of the two sides agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// One side has no sketch, or verification is off: the distance alone decides.
    Unverifiable,
    /// Both have one; the best resemblance among the documents of the fingerprint.
    Compared {
        /// The resemblance itself.
        resemblance: Resemblance,
        /// Whether it reaches the threshold.
        confirmed: bool,
    },
}

impl Verification {
    /// What the sketches of two documents say, where both have one and a threshold is asked for.
    pub fn between(
        one: Option<&Sketch>,
        other: Option<&Sketch>,
        threshold: Option<MinResemblance>,
    ) -> Self {
        match (one.zip(other), threshold) {
            (Some((one, other)), Some(threshold)) => {
                let resemblance = one.resemblance(other);
                Self::Compared { resemblance, confirmed: resemblance.reaches(threshold) }
            }
            (None, _) | (_, None) => Self::Unverifiable,
        }
    }

    /// The larger resemblance of the two; any is more than none.
    #[must_use]
    pub fn better(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unverifiable, other) => other,
            (known, Self::Unverifiable) => known,
            (
                Self::Compared { resemblance: known, .. },
                Self::Compared { resemblance: found, .. },
            ) => {
                if known.total_cmp(found).is_ge() {
                    self
                } else {
                    other
                }
            }
        }
    }

    /// Whether a match at `distance` counts, for a query that is `short` or not.
    ///
    /// A verified match counts when it is confirmed; one that could not be verified counts by
    /// its distance, which for a short text must be 0.
    pub fn counts(self, distance: Distance, short: bool) -> bool {
        match self {
            Self::Compared { confirmed, .. } => confirmed,
            Self::Unverifiable => !short || distance.get() == 0,
        }
    }
}

/// One stored fingerprint near the query, as it is shown to a caller.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The stored fingerprint.
    pub fingerprint: Fingerprint,
    /// Its distance from the query.
    pub distance: Distance,
    /// What the sketches say.
    pub verification: Verification,
    /// The ids of its documents, oldest first, at most [`IDS_SHOWN_MAX`].
    pub ids: Vec<DocumentId>,
    /// How many of its documents have an id.
    pub id_count: u64,
}

/// At most this many ids are shown for one hit; `id_count` tells the true number.
pub const IDS_SHOWN_MAX: usize = 10;
