//! Whether a match counts as a near-duplicate, by the sketches of its two sides.

use crate::{Distance, MinResemblance, Resemblance, Sketch};

/// Whether the sketches of the two sides agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// One side has no sketch, or verification is off: the distance alone decides.
    Unverifiable,
    /// Both have one, but they were not compared: the match does not count.
    Unread,
    /// Both have one; the best resemblance among the documents of the fingerprint.
    Compared {
        /// The resemblance itself.
        resemblance: Resemblance,
        /// Whether it reaches the threshold.
        confirmed: bool,
    },
}

impl Verification {
    /// Compares the sketches of two documents, if both have one and there is a threshold.
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

    /// Whether the sketches are confirmed to agree.
    pub const fn is_confirmed(self) -> bool {
        matches!(self, Self::Compared { confirmed: true, .. })
    }

    /// Whether a further sketch of the fingerprint may confirm the match.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Unread | Self::Compared { confirmed: false, .. })
    }

    /// This verification, or if the fingerprint had no document with a sketch, the fresh one: it
    /// may have one by now.
    #[must_use]
    pub const fn with_sketches(self, fresh: Self) -> Self {
        match self {
            Self::Unverifiable => fresh,
            Self::Unread | Self::Compared { .. } => self,
        }
    }

    /// The one with the larger resemblance; any is larger than none.
    #[must_use]
    pub fn better(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unverifiable | Self::Unread, other) => other,
            (known, Self::Unverifiable | Self::Unread) => known,
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

    /// Whether a match at `distance` counts. A verified match counts if it is confirmed. Any other
    /// counts, unless the query is `short` and the distance is not 0.
    pub fn counts(self, distance: Distance, short: bool) -> bool {
        match self {
            Self::Compared { confirmed, .. } => confirmed,
            Self::Unread => false,
            Self::Unverifiable => !short || distance.get() == 0,
        }
    }
}
