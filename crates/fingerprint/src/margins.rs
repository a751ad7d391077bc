//! How sure each bit of a text's fingerprint is: the magnitudes of the sums of its SimHash.
//!
//! A small change of a text moves every sum a little, so it flips the bits whose sums are nearest
//! to zero. Likely searches use this (query-directed probing of Lv et al. 2007, applied to
//! SimHash), and so does the order of verification. A data directory does not store margins: only
//! the text that is looked up has them.

/// The largest magnitude of scaled sums.
const SCALED_MAX: f64 = (1 << 20) as f64;

/// The magnitude of each of the 64 sums; index 0 is the least significant bit of the fingerprint.
///
/// Only their ratios matter: a recipe may scale them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Margins([u32; 64]);

impl Margins {
    /// From the magnitudes of the sums.
    pub const fn new(magnitudes: [u32; 64]) -> Self {
        Self(magnitudes)
    }

    /// From sums that are whole numbers. Magnitudes of 2^32 or more become the largest that fits.
    pub fn of_whole_sums(sums: &[i64; 64]) -> Self {
        Self(sums.map(|sum| u32::try_from(sum.unsigned_abs()).unwrap_or(u32::MAX)))
    }

    /// From sums of any size, scaled so that the largest magnitude is 2^20.
    #[expect(clippy::cast_sign_loss, reason = "magnitudes are not negative")]
    pub fn of_scaled_sums(sums: &[f64; 64]) -> Self {
        let largest = sums.iter().fold(0.0, |largest: f64, sum| largest.max(sum.abs()));
        // Divided first, so that neither a tiny nor a huge largest sum overflows the scale.
        let scaled = |sum: f64| (sum.abs() / largest * SCALED_MAX).round() as u32;
        Self(sums.map(|sum| if largest > 0.0 { scaled(sum) } else { 0 }))
    }

    /// The rank of each margin, from 0; equal margins have equal ranks. The ranks give the same
    /// rule of a likely search as the margins, in 64 bytes instead of 256.
    pub fn ranks(&self) -> [u8; 64] {
        let mut distinct = self.0;
        distinct.sort_unstable();
        let mut rank = 0;
        let mut ranks_of = distinct.map(|margin| (margin, 0_u8));
        for at in 1..distinct.len() {
            rank += u8::from(distinct[at] > distinct[at - 1]);
            ranks_of[at].1 = rank;
        }
        self.0.map(|margin| ranks_of[ranks_of.partition_point(|(other, _)| *other < margin)].1)
    }

    /// The margins that [`Self::ranks`] gave.
    pub fn from_ranks(ranks: &[u8; 64]) -> Self {
        Self(ranks.map(u32::from))
    }

    /// The magnitudes, of bit 0 first.
    pub const fn magnitudes(&self) -> &[u32; 64] {
        &self.0
    }

    /// The sum of the margins of these bits: the larger it is, the less likely they flip together.
    pub fn of_flips(&self, flips: u64) -> u64 {
        let flipped = |(bit, margin): (usize, &u32)| u64::from(*margin) * (flips >> bit & 1);
        self.0.iter().enumerate().map(flipped).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_sums_keep_their_magnitudes_up_to_the_largest_that_fits() {
        let mut sums = [0; 64];
        (sums[0], sums[1], sums[2], sums[63]) = (-7, 7, i64::MIN, 1 << 32);
        let margins = Margins::of_whole_sums(&sums);
        assert_eq!(margins.magnitudes()[..4], [7, 7, u32::MAX, 0]);
        assert_eq!(margins.magnitudes()[63], u32::MAX);
        assert_eq!(margins.of_flips(0b1011), 14);
    }

    #[test]
    fn scaled_sums_keep_their_ratios_whatever_their_size() {
        for unit in [1e-300, 1.0, 1e300] {
            let mut sums = [unit; 64];
            (sums[0], sums[1]) = (-4.0 * unit, 0.0);
            let margins = Margins::of_scaled_sums(&sums);
            assert_eq!(margins.magnitudes()[..3], [1 << 20, 0, 1 << 18]);
        }
        assert_eq!(Margins::of_scaled_sums(&[0.0; 64]).magnitudes(), &[0; 64]);
    }
}
