//! Labels of a text: near-duplicates are likely to share the beginning of one.
//!
//! A label is the least hashes ("minima") of three bins of the shingles of a text, one after the
//! other: 16, 16 and 8 bits. Two texts agree in a minimum about as often as their shingles do
//! (`MinHash`, Broder 1997; one permutation, Li, Owen and Zhang 2012), so the more alike they are,
//! the longer the beginning that their labels share. In sorted tables, those of similar texts are
//! neighbours: an LSH forest (Bawa, Condie and Ganesan 2005). A text has [`LABELS`] labels, of
//! different bins. nearprint-text makes them, and nearprint-index sorts them.

/// The number of labels of a text.
pub const LABELS: usize = 4;

/// The minima of a text that a label consists of.
pub const MINIMA: usize = 3;

/// The beginning of the label of a text: its [`MINIMA`] minima.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Label(u64);

impl Label {
    /// The number of its bits.
    pub const BITS: u32 = 40;

    /// The size of its written form.
    pub const BYTES: usize = Self::BITS as usize / 8;

    /// The first bits, which two texts must share to be compared: two minima.
    pub const SHARED_BITS: u32 = 32;

    /// From the lowest bits of the minima: 16 of the first two, and 8 of the third.
    pub const fn of_minima(minima: [u32; MINIMA]) -> Self {
        let [first, second, third] = minima;
        let (first, second) = (first as u64 & 0xffff, second as u64 & 0xffff);
        Self(first << 24 | second << 8 | third as u64 & 0xff)
    }

    /// From its bits; those above [`Self::BITS`] do not count.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << Self::BITS) - 1))
    }

    /// The minima one after the other: the first one is the most significant.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether two texts agree in the first two minima.
    pub const fn is_shared(self, other: Self) -> bool {
        (self.0 ^ other.0) >> (Self::BITS - Self::SHARED_BITS) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_shared_if_its_first_two_minima_agree() {
        let label = Label::of_minima([0x1_1234, 0x5678, 0x9abc]);
        assert_eq!(label.bits(), 0x12_3456_78bc);
        assert!(label.is_shared(Label::of_minima([0x1234, 0x5678, 0])));
        assert!(!label.is_shared(Label::of_minima([0x1234, 0x5679, 0x9abc])));
        assert!(!label.is_shared(Label::of_minima([0x1235, 0x5678, 0x9abc])));
        assert_eq!(Label::from_bits(u64::MAX).bits(), 0xff_ffff_ffff);
    }
}
