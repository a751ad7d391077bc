//! The secret bit permutation of a data directory.
//!
//! Tables use fixed bits as keys. Were they the same everywhere, somebody could aim inserts at one
//! bucket and make its look-ups slow; so every fingerprint is permuted by a bijection of its 64 bit
//! positions drawn from the directory's secret. A permutation of bits keeps Hamming distances, so
//! nothing else changes. Cost: sixteen loads from 2 KiB, so that the first cache stays free for lines.

use crate::fingerprint::Fingerprint;

/// A fingerprint after the permutation: what tables hold and compare.
pub type Permuted = u64;

/// For each of the sixteen nibbles and each of its values, where its bits go.
type Moves = [[u64; 16]; 16];

/// A bijection of the 64 bit positions and its inverse.
#[derive(Clone)]
pub struct Permutation {
    forward: Box<Moves>,
    backward: Box<Moves>,
}

impl Permutation {
    /// Draws the permutation from a secret by a Fisher-Yates shuffle over `SplitMix64`.
    pub fn from_secret(secret: u64) -> Self {
        let mut state = secret;
        let mut draw = |below: usize| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((u128::from(z ^ (z >> 31)) * below as u128) >> 64) as usize
        };
        let mut target: [u8; 64] = std::array::from_fn(|i| i as u8);
        for i in (1..64).rev() {
            target.swap(i, draw(i + 1));
        }
        let mut source = [0_u8; 64];
        for (from, &to) in target.iter().enumerate() {
            source[usize::from(to)] = from as u8;
        }
        Self { forward: moves(&target), backward: moves(&source) }
    }

    /// The fingerprint as the tables hold it.
    pub fn apply(&self, fingerprint: Fingerprint) -> Permuted {
        look_up(&self.forward, fingerprint.bits())
    }

    /// The inverse of [`Self::apply`].
    pub fn restore(&self, permuted: Permuted) -> Fingerprint {
        Fingerprint::new(look_up(&self.backward, permuted))
    }
}

/// The secret is not shown.
impl std::fmt::Debug for Permutation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Permutation")
    }
}

fn moves(target: &[u8; 64]) -> Box<Moves> {
    let mut moves = Box::new([[0; 16]; 16]);
    for (nibble, moves) in moves.iter_mut().enumerate() {
        for (value, moved) in moves.iter_mut().enumerate() {
            for bit in (0..4).filter(|bit| value >> bit & 1 == 1) {
                *moved |= 1 << target[nibble * 4 + bit];
            }
        }
    }
    moves
}

fn look_up(moves: &Moves, bits: u64) -> u64 {
    let mut moved = 0;
    for (nibble, moves) in moves.iter().enumerate() {
        moved |= moves[(bits >> (4 * nibble)) as usize & 15];
    }
    moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_a_bijection_that_keeps_distances(secret: u64, a: u64, b: u64) {
            let permutation = Permutation::from_secret(secret);
            let (a, b) = (Fingerprint::new(a), Fingerprint::new(b));
            let (pa, pb) = (permutation.apply(a), permutation.apply(b));
            prop_assert_eq!(permutation.restore(pa), a);
            prop_assert_eq!((pa ^ pb).count_ones(), u32::from(a.distance(b).get()));
        }
    }

    #[test]
    fn another_secret_gives_another_permutation() {
        let (one, two) = (Permutation::from_secret(1), Permutation::from_secret(2));
        let x = Fingerprint::new(0xffff);
        assert_ne!(one.apply(x), two.apply(x));
    }
}
