//! How much two texts agree, as replies show it.

use nearprint_fingerprint::{MinNumbers, MinResemblance, NumberAgreement, Resemblance, Threshold};
use nearprint_machine::query::Verification;

/// A similarity is shown as a whole number of these parts of 1.
pub const SIMILARITY_UNITS: f64 = 10_000.0;

/// Numbers that agree less than this are said to differ.
const NUMBERS_DIFFER_BELOW: f64 = 0.3;

/// The thresholds of a request, which what is shown must agree with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Least {
    /// 0 switches verification off.
    pub similarity: f64,
    /// 0 demands nothing; it is 0 where verification is off.
    pub numbers: f64,
}

impl Least {
    /// What the engine takes; `None` where verification is off.
    pub fn threshold(self) -> Option<Threshold> {
        let threshold = Threshold::of_similarity(self.similarity)?;
        Some(threshold.with_numbers(self.numbers))
    }
}

/// How much two texts agree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    pub similarity: Option<f64>,
    pub numbers: Option<f64>,
    pub confirmed: Option<bool>,
}

impl Agreement {
    pub fn new(verification: Verification, least: Least) -> Self {
        match verification {
            Verification::Unverifiable => Self { similarity: None, numbers: None, confirmed: None },
            Verification::Unread => {
                Self { similarity: None, numbers: None, confirmed: Some(false) }
            }
            Verification::Compared { resemblance, numbers, confirmed } => Self {
                similarity: Some(similarity(resemblance, least.similarity)),
                numbers: numbers.map(|agreement| numbers_shown(agreement, least.numbers)),
                confirmed: Some(confirmed),
            },
        }
    }
}

/// Whether the numbers of the texts differ, although their words agree.
pub fn numbers_differ(verification: Verification) -> bool {
    let Verification::Compared { numbers: Some(agreement), .. } = verification else {
        return false;
    };
    agreement.share() < NUMBERS_DIFFER_BELOW
}

/// A similarity as it is shown; a threshold of 0 is none.
pub fn similarity(resemblance: Resemblance, least: f64) -> f64 {
    let reaches = MinResemblance::of_similarity(least).is_none_or(|min| resemblance.reaches(min));
    shown(resemblance.similarity(), reaches, least)
}

/// An agreement of numbers as it is shown; a threshold of 0 is none.
pub fn numbers_shown(agreement: NumberAgreement, least: f64) -> f64 {
    let reaches = MinNumbers::of_share(least).is_none_or(|min| agreement.reaches(min));
    shown(agreement.share(), reaches, least)
}

/// Rounded down to 4 decimals, and at the threshold or above if and only if it `reaches` it.
///
/// The verdict is made in integers. Rounding alone would disagree with it for about one ratio in
/// ten thousand, by one unit of the last place.
fn shown(value: f64, reaches: bool, least: f64) -> f64 {
    let units = (value * SIMILARITY_UNITS).floor();
    let least = (least * SIMILARITY_UNITS).round();
    let units = if reaches { units.max(least) } else { units.min(least - 1.0).max(0.0) };
    units / SIMILARITY_UNITS
}

#[cfg(test)]
mod tests {
    use nearprint_fingerprint::{BINS, Numbers, Sketch};

    use super::*;

    #[test]
    fn a_similarity_is_shown_on_the_side_of_the_threshold_that_decided() {
        let is = |similarity, confirmed, expected: f64| {
            (shown(similarity, confirmed, 0.83) - expected).abs() < 1e-12
        };
        assert!(is(0.899_99, true, 0.8999));
        assert!(is(1.0, true, 1.0));
        assert!(is(0.829_999_9, true, 0.83));
        assert!(is(0.830_000_1, false, 0.8299));
        assert!(is(0.123_49, false, 0.1234));
    }

    #[test]
    fn numbers_that_refute_a_hit_leave_its_similarity_as_it_is() {
        let sketch =
            |numbers| Sketch::from_codes(&[1; BINS]).with_numbers(Numbers::from_bits(numbers));
        let least = Least { similarity: 0.83, numbers: 0.5 };
        let between = |one, other| {
            let (one, other) = (sketch(one), sketch(other));
            Verification::between(Some(&one), Some(&other), least.threshold())
        };
        let refuted = Agreement::new(between(0x11, 0x22), least);
        let expected =
            Agreement { similarity: Some(1.0), numbers: Some(0.0), confirmed: Some(false) };
        assert_eq!(refuted, expected);
        let without = Agreement::new(between(0x11, 0), least);
        assert_eq!(without, Agreement { numbers: None, confirmed: Some(true), ..expected });
        assert!(numbers_differ(between(0x11, 0x22)) && !numbers_differ(between(0x11, 0)));
    }
}
