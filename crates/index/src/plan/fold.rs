//! Folding half a fingerprint, so that its near neighbours lie in few cells.
//!
//! A look-up at distance 3 visits, for each half, everything within one bit of it: the half and its
//! 32 single flips. In a table sorted by the half itself these are 33 places. The perfect Hamming
//! code of 31 bits (Hamming 1950) puts every word of 31 bits into exactly one ball of radius 1
//! around a code word; here all 32 words of a ball are one *cell*, and the table is sorted by cell.
//! A word and its 31 flips then lie in 16 cells: its own, and one for each pair of flips that leads
//! to the same next code word (with a word that is itself a code word: in 1). With the flip of the
//! 32nd bit that is 17 places instead of 33, and each of them is one cache line.
//!
//! A folded half, the *head* of a key, has three parts; folding is a bijection of 32 bits:
//!
//! ```text
//!    31     30                        5 4             0
//!   +-----+----------------------------+---------------+
//!   | bit | 26 bits of the code word   | syndrome: how |   cell = the upper 27 bits
//!   | 31  | (the other 5 follow)       | far from it   |
//!   +-----+----------------------------+---------------+
//! ```
//!
//! Cost: a dozen operations and four loads from 1 KiB. Pure; tested against the definition.

/// The head of a key: its upper 32 bits.
pub(crate) type Head = u32;

/// The lower bits of a head, which distinguish the heads of one cell.
pub(crate) const SYNDROME_BITS: u32 = 5;

const SYNDROME: u32 = (1 << SYNDROME_BITS) - 1;

/// A word of 31 bits has its own cell and at most 15 next to it; bit 31 adds one.
const NEIGHBOURS_MAX: usize = 17;

/// The code, computed at compile time.
static CODE: Code = Code::new();

struct Code {
    /// For each byte of a half and each of its values, the contribution of its code bits to the
    /// syndrome.
    sums: [[u8; 256]; 4],
    /// For each syndrome the wrong bit, if it is one of the 26.
    wrong: [u32; 32],
    /// For each syndrome the flips that lead from a cell to all cells within one bit: the cell
    /// itself first, then that of the flipped bit 31, then the others.
    neighbours: [[u32; NEIGHBOURS_MAX]; 32],
}

/// Folds half a fingerprint: the cell in the upper bits, the place in the cell in the lower five.
#[inline]
pub(crate) fn fold(half: u32) -> Head {
    let syndrome = sum(half) ^ (half & SYNDROME);
    ((half & !SYNDROME) ^ CODE.wrong[syndrome as usize]) | syndrome
}

/// The inverse of [`fold`].
#[inline]
pub(crate) fn unfold(head: Head) -> u32 {
    let syndrome = head & SYNDROME;
    let half = (head & !SYNDROME) ^ CODE.wrong[syndrome as usize];
    half | (sum(half) ^ syndrome)
}

/// The flips that lead from the cell of a head to every cell with a word within `radius` (0 or 1).
fn neighbours(head: Head, radius: u32) -> &'static [u32] {
    let syndrome = head & SYNDROME;
    let count = match (radius, syndrome) {
        (0, _) => 1,
        // All neighbours of a code word are in its own cell.
        (_, 0) => 2,
        _ => NEIGHBOURS_MAX,
    };
    &CODE.neighbours[syndrome as usize][..count]
}

/// For each syndrome, the flips that lead from the cell of a head to every cell of `cell_bits` bits
/// with a word within `radius` (0 or 1), the cell itself first. A cell of fewer than 27 bits has
/// several balls, so several flips may lead to the same one.
pub(crate) fn flips(cell_bits: u32, radius: u32) -> Box<[Box<[Head]>]> {
    let of_syndrome = |syndrome| {
        let mut distinct: Vec<Head> = Vec::new();
        for flips in neighbours(syndrome, radius) {
            let flips = flips & (u32::MAX << (32 - cell_bits));
            if !distinct.contains(&flips) {
                distinct.push(flips);
            }
        }
        distinct.into_boxed_slice()
    };
    (0..=SYNDROME).map(of_syndrome).collect()
}

/// The lower bits of a head, which index [`flips`].
#[inline]
pub(crate) fn syndrome(head: Head) -> usize {
    (head & SYNDROME) as usize
}

/// The contribution of the 26 bits of a half to the syndrome.
#[inline]
fn sum(half: u32) -> u32 {
    let bytes = half.to_le_bytes();
    let mut sum = 0;
    for (sums, byte) in CODE.sums.iter().zip(bytes) {
        sum ^= sums[byte as usize];
    }
    u32::from(sum)
}

impl Code {
    const fn new() -> Self {
        // Each of the 31 bits has a column, a number from 1 to 31; the syndrome of a word is the
        // sum (xor) of the columns of its ones. Bits 0 to 4 have the powers of two.
        let mut column = [0_u8; 32];
        let mut bit_of = [0_usize; 32];
        let (mut value, mut next) = (1, SYNDROME_BITS as usize);
        while value < 32_u8 {
            let bit = if value.is_power_of_two() { value.trailing_zeros() as usize } else { next };
            next += !value.is_power_of_two() as usize;
            column[bit] = value;
            bit_of[value as usize] = bit;
            value += 1;
        }
        let mut code =
            Self { sums: [[0; 256]; 4], wrong: [0; 32], neighbours: [[0; NEIGHBOURS_MAX]; 32] };
        let mut syndrome = 1;
        while syndrome < 32 {
            code.wrong[syndrome] = (1 << bit_of[syndrome]) & !SYNDROME;
            syndrome += 1;
        }
        let mut i = 0;
        while i < 4 * 256 * 8 {
            let (byte, value, bit) = (i / 2048, i / 8 % 256, i % 8);
            let at = byte * 8 + bit;
            if value >> bit & 1 == 1 && at >= SYNDROME_BITS as usize && at < 31 {
                code.sums[byte][value] ^= column[at];
            }
            i += 1;
        }
        let mut syndrome = 0;
        while syndrome < 32 {
            code.neighbours[syndrome] = code.neighbours_of(syndrome);
            syndrome += 1;
        }
        code
    }

    /// A word with a syndrome s has its wrong bit flipped; flipping f as well leads to the ball
    /// where g is the wrong bit, s = f + g. So the code words differ in the bits of s, f and g.
    const fn neighbours_of(&self, syndrome: usize) -> [u32; NEIGHBOURS_MAX] {
        let mut flips = [0; NEIGHBOURS_MAX];
        flips[1] = 1 << 31;
        let (mut count, mut f) = (2, 1);
        while f < 32 && syndrome > 0 {
            let g = f ^ syndrome;
            if f < g && f != syndrome {
                flips[count] = self.wrong[syndrome] ^ self.wrong[f] ^ self.wrong[g];
                count += 1;
            }
            f += 1;
        }
        flips
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const CELL: u32 = !SYNDROME;

    proptest! {
        #[test]
        fn folding_is_a_bijection(half: u32) {
            prop_assert_eq!(unfold(fold(half)), half);
            prop_assert_eq!(fold(unfold(half)), half);
        }

        /// No cell missing and none too many, each once.
        #[test]
        fn the_neighbours_are_the_cells_within_one_bit(half: u32) {
            let head = fold(half);
            let visited: Vec<u32> =
                neighbours(head, 1).iter().map(|flips| (head & CELL) ^ flips).collect();
            let needed: BTreeSet<u32> = std::iter::once(half)
                .chain((0..32).map(|bit| half ^ 1 << bit))
                .map(|near| fold(near) & CELL)
                .collect();
            prop_assert_eq!(visited.iter().copied().collect::<BTreeSet<_>>(), needed);
            prop_assert_eq!(visited.len(), neighbours(head, 1).len());
            prop_assert_eq!(neighbours(head, 0), [0].as_slice());
        }

        /// The same of larger cells, of several balls.
        #[test]
        fn the_flips_lead_to_the_cells_within_one_bit(half: u32, cell_bits in 8..=27_u32) {
            let cell = |half| fold(half) & (u32::MAX << (32 - cell_bits));
            let flips = &flips(cell_bits, 1)[syndrome(fold(half))];
            let visited: Vec<u32> = flips.iter().map(|flips| cell(half) ^ flips).collect();
            let needed: BTreeSet<u32> = (0..32).map(|bit| cell(half ^ 1 << bit)).collect();
            prop_assert_eq!(visited[0], cell(half));
            prop_assert_eq!(visited.len(), visited.iter().collect::<BTreeSet<_>>().len());
            prop_assert!(needed.iter().all(|near| visited.contains(near)));
        }

        /// A cell is a ball: its words differ from each other in at most two bits.
        #[test]
        fn the_words_of_a_cell_are_near_each_other(cell: u32, a in 0..32_u32, b in 0..32_u32) {
            let word = |syndrome| unfold((cell & CELL) | syndrome);
            prop_assert!((word(a) ^ word(b)).count_ones() <= 2);
        }
    }

    #[test]
    fn one_word_of_32_is_a_code_word() {
        let words = (0..1_u32 << 16).map(|i| i.wrapping_mul(0x9e37_79b9));
        let cells: usize = words.map(|half| neighbours(fold(half), 1).len()).sum();
        assert_eq!(cells / (1 << 16), 16, "16.5 cells on average");
    }
}
