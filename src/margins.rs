//! How sure each bit of a text's fingerprint is: the magnitudes of the sums of its SimHash.
//!
//! A small change of a text moves every sum a little, so it flips the bits whose sums are nearest to
//! zero (the query-directed probing of Lv et al. 2007, applied to SimHash). A likely search and the
//! order of verification use this. Margins are never stored: only the text that is looked up has
//! them.

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

    /// The magnitudes, of bit 0 first.
    pub const fn magnitudes(&self) -> &[u32; 64] {
        &self.0
    }

    /// How unlikely a change is that flips these bits: the sum of their margins.
    pub fn of_flips(&self, flips: u64) -> u64 {
        let flipped = |(bit, margin): (usize, &u32)| u64::from(*margin) * (flips >> bit & 1);
        self.0.iter().enumerate().map(flipped).sum()
    }
}
