//! Whether a match counts as a near-duplicate, by the sketches of its two sides.

use crate::{Distance, NumberAgreement, Resemblance, Sketch, Threshold};

/// Whether the sketches of the two sides agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// One side has no sketch, or verification is off: the distance alone decides.
    Unverifiable,
    /// Both have one, but they were not compared: the match does not count.
    Unread,
    /// Both have one; the best among the documents of the fingerprint.
    Compared {
        /// The resemblance itself.
        resemblance: Resemblance,
        /// How many of their numbers they share; `None` where one of them has none.
        numbers: Option<NumberAgreement>,
        /// Whether they reach the threshold.
        confirmed: bool,
    },
}

impl Verification {
    /// Compares the sketches of two documents, if both have one and there is a threshold.
    pub fn between(
        one: Option<&Sketch>,
        other: Option<&Sketch>,
        threshold: Option<Threshold>,
    ) -> Self {
        match (one.zip(other), threshold) {
            (Some((one, other)), Some(threshold)) => {
                let resemblance = one.resemblance(other);
                let numbers = one.numbers().agreement(other.numbers());
                // Nothing is known where a text has no number, so nothing is demanded.
                let differ =
                    threshold.numbers.zip(numbers).is_some_and(|(least, n)| !n.reaches(least));
                let confirmed = resemblance.reaches(threshold.resemblance) && !differ;
                Self::Compared { resemblance, numbers, confirmed }
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

    /// The one that is confirmed, and else the one with the larger resemblance; any is larger than
    /// none.
    #[must_use]
    pub fn better(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unverifiable | Self::Unread, other) => other,
            (known, Self::Unverifiable | Self::Unread) => known,
            (
                Self::Compared { resemblance: known, confirmed, .. },
                Self::Compared { resemblance: found, confirmed: is_found, .. },
            ) => {
                if confirmed.cmp(&is_found).then(known.total_cmp(found)).is_ge() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BINS, Numbers};

    fn sketch(code: u8, numbers: u64) -> Sketch {
        Sketch::from_codes(&[code; BINS]).with_numbers(Numbers::from_bits(numbers))
    }

    fn between(one: &Sketch, other: &Sketch, min_numbers: f64) -> Verification {
        let threshold = Threshold::of_similarity(0.83).map(|least| least.with_numbers(min_numbers));
        Verification::between(Some(one), Some(other), threshold)
    }

    #[test]
    fn numbers_that_differ_refute_a_pair_if_they_are_asked_for() {
        let (one, other) = (sketch(1, 0x11), sketch(1, 0x22));
        assert!(between(&one, &other, 0.0).is_confirmed());
        assert!(!between(&one, &other, 0.3).is_confirmed());
        assert!(between(&one, &one, 1.0).is_confirmed());
        assert!(!between(&one, &sketch(2, 0x11), 0.3).is_confirmed());
    }

    #[test]
    fn a_text_without_numbers_is_not_refuted_by_them() {
        let (one, none) = (sketch(1, 0x11), sketch(1, 0));
        assert!(between(&one, &none, 1.0).is_confirmed());
        assert!(between(&none, &none, 1.0).is_confirmed());
    }

    #[test]
    fn of_two_that_are_compared_the_confirmed_one_is_better() {
        let mut codes = [1; BINS];
        codes[..20].fill(2);
        let near = Sketch::from_codes(&codes).with_numbers(Numbers::from_bits(0x11));
        let one = sketch(1, 0x11);
        let (refuted, confirmed) =
            (between(&one, &sketch(1, 0x22), 0.5), between(&one, &near, 0.5));
        assert!(confirmed.is_confirmed() && !refuted.is_confirmed());
        assert_eq!(refuted.better(confirmed), confirmed);
        assert_eq!(confirmed.better(refuted), confirmed);
    }
}
