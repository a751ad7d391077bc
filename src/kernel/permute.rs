//! Permutes the bits of 64-bit words.
//!
//! There are two variants: one AVX-512 instruction for all 64 bits, and a table look-up for each
//! nibble.

use crate::kernel::Simd;

/// A permutation of 64 bits.
#[derive(Clone)]
pub(crate) struct Permuter {
    sources: Sources,
    /// The permuted bits of each value of each of the sixteen nibbles of a word.
    moves: Box<[[u64; 16]; 16]>,
}

/// For each bit of the result, the bit of the word that it comes from.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Sources([u8; 64]);

impl Permuter {
    /// Bit i of the result is bit `sources[i]` of the word.
    ///
    /// # Panics
    /// If a source is 64 or more.
    pub(crate) fn new(sources: [u8; 64]) -> Self {
        let mut moves = Box::new([[0; 16]; 16]);
        for (bit, &source) in sources.iter().enumerate() {
            let (nibble, within) = (usize::from(source / 4), source % 4);
            for (value, moved) in moves[nibble].iter_mut().enumerate() {
                *moved |= (value as u64 >> within & 1) << bit;
            }
        }
        Self { sources: Sources(sources), moves }
    }

    /// Permutes one word.
    #[inline]
    pub(crate) fn permute(&self, simd: Simd, word: u64) -> u64 {
        let mut words = [word];
        self.permute_all(simd, &mut words);
        words[0]
    }

    /// Permutes words in place.
    #[inline]
    pub(crate) fn permute_all(&self, simd: Simd, words: &mut [u64]) {
        match simd {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Simd::available` has checked that the processor has these instructions.
            Simd::Avx512 => unsafe { x86::permute_all(&self.sources, words) },
            #[cfg(not(target_arch = "x86_64"))]
            Simd::Avx512 => self.portable(words),
            Simd::Avx2 | Simd::Portable => self.portable(words),
        }
    }

    /// The definition. The table has only 2 KiB, so that the first-level cache stays free for
    /// lines.
    fn portable(&self, words: &mut [u64]) {
        for word in words {
            let nibbles = self.moves.iter().enumerate();
            let moved = nibbles.map(|(nibble, moves)| moves[(*word >> (4 * nibble)) as usize & 15]);
            *word = moved.fold(0, |all, moved| all | moved);
        }
    }
}

/// Does not show the permutation, which may be secret.
impl std::fmt::Debug for Permuter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Permuter")
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{_mm512_bitshuffle_epi64_mask, _mm512_load_si512, _mm512_set1_epi64};

    use super::Sources;

    #[target_feature(enable = "avx512f,avx512bitalg")]
    pub(super) fn permute_all(sources: &Sources, words: &mut [u64]) {
        // SAFETY: `Sources` has 64 bytes and is aligned to 64.
        let sources = unsafe { _mm512_load_si512(sources.0.as_ptr().cast()) };
        for word in words {
            // The word is in all eight lanes, and each of the 64 source bytes picks a bit of its
            // lane.
            *word = _mm512_bitshuffle_epi64_mask(_mm512_set1_epi64(word.cast_signed()), sources);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_variant_moves_each_bit_to_its_position(
            sources in Just((0..64).collect::<Vec<u8>>()).prop_shuffle(),
            words in prop::collection::vec(any::<u64>(), 0..70),
        ) {
            let permuter = Permuter::new(sources.clone().try_into().expect("64 bits"));
            let moved = |word: u64| {
                let bits = (0..64).zip(&sources);
                bits.fold(0, |all, (bit, source)| all | (word >> source & 1) << bit)
            };
            let expected: Vec<u64> = words.iter().map(|&word| moved(word)).collect();
            for simd in Simd::available() {
                let mut permuted = words.clone();
                permuter.permute_all(simd, &mut permuted);
                prop_assert_eq!(&permuted, &expected, "{:?}", simd);
                for (&word, &expected) in words.iter().zip(&expected) {
                    prop_assert_eq!(permuter.permute(simd, word), expected, "{:?}", simd);
                }
            }
        }
    }
}
