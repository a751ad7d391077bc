//! Permutes the bits of 64-bit words.
//!
//! There are four variants: one AVX-512 instruction for all 64 bits; AVX2 and NEON, which shuffle
//! the source byte of each bit to a byte of its own and test the bit there; and a table look-up for
//! each nibble, which defines the others.

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

    #[inline]
    pub(crate) fn permute(&self, simd: Simd, word: u64) -> u64 {
        let mut words = [word];
        self.permute_all(simd, &mut words);
        words[0]
    }

    #[inline]
    pub(crate) fn permute_all(&self, simd: Simd, words: &mut [u64]) {
        match simd {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Simd::available` has checked that the processor has these instructions.
            Simd::Avx512 => unsafe { x86::permute_all(&self.sources, words) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Simd::Avx2 => unsafe { x86::permute_all_avx2(&self.sources, words) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: as above.
            Simd::Neon => unsafe { arm::permute_all(&self.sources, words) },
            Simd::Portable => self.portable(words),
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
    #[allow(
        clippy::wildcard_imports,
        clippy::allow_attributes,
        reason = "fifteen intrinsics, named by Intel"
    )]
    use std::arch::x86_64::*;

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

    #[target_feature(enable = "avx2")]
    pub(super) fn permute_all_avx2(sources: &Sources, words: &mut [u64]) {
        // SAFETY: `Sources` has 64 bytes and is aligned to 64.
        let (low, high) = unsafe {
            let sources: *const __m256i = sources.0.as_ptr().cast();
            (_mm256_load_si256(sources), _mm256_load_si256(sources.add(1)))
        };
        let (low_bits, high_bits) = (bits_of(low), bits_of(high));
        let (low_bytes, high_bytes) = (bytes_of(low), bytes_of(high));
        for word in words {
            let lanes = _mm256_set1_epi64x(word.cast_signed());
            let low = picked(lanes, low_bytes, low_bits);
            *word = u64::from(low) | u64::from(picked(lanes, high_bytes, high_bits)) << 32;
        }
    }

    /// The byte of a word that each source lies in.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn bytes_of(sources: __m256i) -> __m256i {
        _mm256_and_si256(_mm256_srli_epi16::<3>(sources), _mm256_set1_epi8(7))
    }

    /// The bit of its byte that each source is, as a mask.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn bits_of(sources: __m256i) -> __m256i {
        let masks = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
        _mm256_shuffle_epi8(masks, _mm256_and_si256(sources, _mm256_set1_epi8(7)))
    }

    /// These 32 bits of a word.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn picked(lanes: __m256i, bytes: __m256i, bits: __m256i) -> u32 {
        let tested = _mm256_and_si256(_mm256_shuffle_epi8(lanes, bytes), bits);
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(tested, bits)).cast_unsigned()
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::{
        vandq_u8, vdupq_n_u8, vdupq_n_u64, vqtbl1q_u8, vreinterpretq_s8_u8, vreinterpretq_u8_u64,
        vshlq_u8, vshrq_n_u8, vtstq_u8,
    };

    use nearprint_fingerprint::neon::{load, mask_of_64};

    use super::Sources;

    #[target_feature(enable = "neon")]
    pub(super) fn permute_all(sources: &Sources, words: &mut [u64]) {
        let (sources, _) = sources.0.as_chunks::<16>();
        let sources: [_; 4] = std::array::from_fn(|i| load(&sources[i]));
        // The byte of a word that each source lies in, and the bit of that byte, as a mask.
        let bytes = sources.map(|sources| vshrq_n_u8::<3>(sources));
        let bits = sources.map(|sources| {
            let within = vandq_u8(sources, vdupq_n_u8(7));
            vshlq_u8(vdupq_n_u8(1), vreinterpretq_s8_u8(within))
        });
        for word in words {
            let lanes = vreinterpretq_u8_u64(vdupq_n_u64(*word));
            let picked = |i: usize| vtstq_u8(vqtbl1q_u8(lanes, bytes[i]), bits[i]);
            *word = mask_of_64(std::array::from_fn(picked));
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
