//! The secret bit permutation of a data directory.
//!
//! Tables use fixed bits as keys. Were they the same everywhere, somebody could aim inserts at one
//! bucket and make its look-ups slow; so every fingerprint is permuted by a bijection of its 64 bit
//! positions drawn from the directory's secret. A permutation of bits keeps Hamming distances, so
//! nothing else changes. Cost: one instruction or sixteen loads ([`crate::kernel::permute`]).

use nearprint_fingerprint::Fingerprint;

use crate::kernel::Simd;
use crate::kernel::permute::Permuter;

/// A fingerprint after the permutation, as tables store and compare it.
pub type Permuted = u64;

/// A bijection of the 64 bit positions and its inverse.
#[derive(Clone)]
pub struct Permutation {
    secret: u64,
    forward: Permuter,
    backward: Permuter,
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
        // Where a bit goes is where it comes from on the way back.
        Self { secret, forward: Permuter::new(source), backward: Permuter::new(target) }
    }

    /// What it was drawn from.
    pub(crate) const fn secret(&self) -> u64 {
        self.secret
    }

    /// The fingerprint as tables store it.
    pub fn apply(&self, fingerprint: Fingerprint) -> Permuted {
        self.forward.permute(Simd::best(), fingerprint.bits())
    }

    /// Applies the permutation to several fingerprints, in order.
    ///
    /// # Panics
    /// When `room` is shorter than the fingerprints.
    pub fn apply_all<'a>(
        &self,
        fingerprints: &[Fingerprint],
        room: &'a mut [Permuted],
    ) -> &'a [Permuted] {
        let permuted = &mut room[..fingerprints.len()];
        for (permuted, fingerprint) in permuted.iter_mut().zip(fingerprints) {
            *permuted = fingerprint.bits();
        }
        self.forward.permute_all(Simd::best(), permuted);
        permuted
    }

    /// The inverse of [`Self::apply`].
    pub fn restore(&self, permuted: Permuted) -> Fingerprint {
        Fingerprint::new(self.backward.permute(Simd::best(), permuted))
    }
}

/// The secret is not shown.
impl std::fmt::Debug for Permutation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Permutation")
    }
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

    /// Tables on disk depend on it. The value was computed from the definition by a program in
    /// another language.
    #[test]
    fn a_secret_gives_the_same_permutation_for_ever() {
        let permuted = Permutation::from_secret(1).apply(Fingerprint::new(0x0123_4567_89ab_cdef));
        assert_eq!(permuted, 0x8479_0764_326f_576b);
    }

    #[test]
    fn another_secret_gives_another_permutation() {
        let (one, two) = (Permutation::from_secret(1), Permutation::from_secret(2));
        let x = Fingerprint::new(0xffff);
        assert_ne!(one.apply(x), two.apply(x));
    }
}
