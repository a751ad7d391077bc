//! The numbers of a text: 8 bytes that estimate how many of them two texts share.
//!
//! A b-bit minwise sketch (Li and Koenig 2010) of 16 bins over the distinct tokens with digits
//! (after another such token, the pair), each bin 0 (empty) or a code of 1 to 15. Two forms that
//! are filled in differently agree in their words and not in their numbers. nearprint-text makes
//! it; this module stores and compares.

/// The codes of a bin that is not empty.
const CODES: u32 = 15;

/// One bit in each bin.
const ONES: u64 = 0x1111_1111_1111_1111;

/// The numbers of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Numbers(u64);

impl Numbers {
    /// The number of bins.
    pub const BINS: usize = 16;

    /// A text without numbers.
    pub const NONE: Self = Self(0);

    /// From the least hash of each bin; `None` where a bin is empty.
    pub fn of_minima(minima: &[Option<u32>; Self::BINS]) -> Self {
        let codes = minima.iter().map(|least| least.map_or(0, |least| 1 + least % CODES));
        Self(codes.rev().fold(0, |all, code| all << 4 | u64::from(code)))
    }

    /// From the form that [`Self::bits`] gives.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Bin b is the four bits from bit 4b on.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether the text has no numbers.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Estimates the share of the distinct numbers of two texts that both have (Jaccard); `None`
    /// where one of them has none.
    pub fn agreement(self, other: Self) -> Option<NumberAgreement> {
        if self.is_empty() || other.is_empty() {
            return None;
        }
        let (one, two) = (self.filled(), other.filled());
        let unlike = Self(self.0 ^ other.0).filled();
        let matched = (one & two & !unlike).count_ones();
        let (both, either) = ((one & two).count_ones(), (one | two).count_ones());
        // Unlike numbers agree by chance in one of the codes of the bins that both fill.
        let agreeing = (CODES * matched).saturating_sub(both);
        Some(NumberAgreement { agreeing, of: (CODES - 1) * either })
    }

    /// The lowest bit of each bin that is not empty.
    const fn filled(self) -> u64 {
        (self.0 | self.0 >> 1 | self.0 >> 2 | self.0 >> 3) & ONES
    }
}

/// How many of their numbers two texts share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberAgreement {
    agreeing: u32,
    /// Not 0.
    of: u32,
}

impl NumberAgreement {
    /// The share, 0 to 1.
    pub fn share(self) -> f64 {
        f64::from(self.agreeing) / f64::from(self.of)
    }

    /// Whether it is at least this share. Exact integer arithmetic.
    pub fn reaches(self, least: MinNumbers) -> bool {
        u64::from(self.agreeing) * u64::from(MinNumbers::ONE)
            >= u64::from(self.of) * u64::from(least.0)
    }
}

/// The least share of numbers that two texts must have in common, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MinNumbers(u32);

impl MinNumbers {
    const ONE: u32 = 1_000_000;

    /// From a share, 0 to 1; `None` for 0, which demands nothing.
    pub fn of_share(share: f64) -> Option<Self> {
        #[expect(clippy::cast_sign_loss, reason = "clamped to 0..=1")]
        let millionths = (share.clamp(0.0, 1.0) * f64::from(Self::ONE)).round() as u32;
        (share > 0.0).then_some(Self(millionths))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(one: Numbers, other: Numbers) -> Option<f64> {
        one.agreement(other).map(NumberAgreement::share)
    }

    fn numbers(codes: &[(usize, u32)]) -> Numbers {
        let mut minima = [None; 16];
        for &(bin, code) in codes {
            minima[bin] = Some(code - 1);
        }
        Numbers::of_minima(&minima)
    }

    #[test]
    fn agreement_is_the_share_of_equal_bins() {
        let one = numbers(&[(0, 1), (3, 15), (15, 8)]);
        assert_eq!(one.bits(), 0x8000_0000_0000_f001);
        assert_eq!(share(one, one), Some(1.0));
        assert_eq!(share(one, numbers(&[(1, 1), (4, 15)])), Some(0.0));
        assert_eq!(share(one, numbers(&[(0, 2), (3, 14), (15, 9)])), Some(0.0));
        // Two of three agree, less what chance would give.
        let other = numbers(&[(0, 1), (3, 15), (15, 9)]);
        assert_eq!(share(one, other), Some(27.0 / 42.0));
        assert_eq!(share(other, one), Some(27.0 / 42.0));
    }

    #[test]
    fn a_share_is_reached_at_its_value_and_not_below() {
        let agreement = NumberAgreement { agreeing: 3, of: 10 };
        let reaches = |share| agreement.reaches(MinNumbers::of_share(share).unwrap());
        assert!(reaches(0.3) && reaches(0.1) && !reaches(0.300_001) && !reaches(1.0));
        assert_eq!(MinNumbers::of_share(0.0), None);
    }

    #[test]
    fn nothing_is_known_where_a_text_has_no_numbers() {
        let one = numbers(&[(7, 7)]);
        assert!(Numbers::NONE.is_empty() && !one.is_empty());
        assert_eq!(one.agreement(Numbers::NONE), None);
        assert_eq!(Numbers::NONE.agreement(one), None);
        assert_eq!(Numbers::NONE.agreement(Numbers::NONE), None);
    }
}
