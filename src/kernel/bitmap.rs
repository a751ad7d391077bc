//! Filters keys by a bitmap of their upper sixteen bits.
//!
//! There are two variants: AVX-512 for eight keys at a time, which gathers their words of the
//! bitmap and packs the marked keys with one instruction, and a loop without branches on the keys.

use crate::kernel::Simd;

/// The upper bits of a key, which select a bit of the bitmap.
const POSITION_BITS: u32 = 16;
/// Those of them that select the bit within a word.
const BIT_BITS: u32 = u64::BITS.ilog2();

/// The number of words of a bitmap.
pub const WORDS: usize = 1 << (POSITION_BITS - BIT_BITS);

/// One bit for each value of the upper sixteen bits.
pub type Bitmap = [u64; WORDS];

/// How much longer than the keys the output of [`marked`] must be.
pub const SLACK: usize = 8;

/// The word of a key in a bitmap, and the mask of its bit in that word.
#[inline]
pub const fn position(key: u64) -> (usize, u64) {
    (
        (key >> (u64::BITS - POSITION_BITS + BIT_BITS)) as usize,
        1 << (key >> (u64::BITS - POSITION_BITS) & (u64::BITS - 1) as u64),
    )
}

/// Writes the keys whose bits are set in `marks` to the beginning of `out`, in their order, and
/// returns their number.
///
/// # Panics
/// If `out` is not at least [`SLACK`] longer than the keys.
pub fn marked(simd: Simd, keys: &[u64], marks: &Bitmap, out: &mut [u64]) -> usize {
    assert!(out.len() >= keys.len() + SLACK, "the output fits");
    match simd {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Simd::available` has checked that the processor has these instructions.
        Simd::Avx512 => unsafe { x86::avx512(keys, marks, out) },
        #[cfg(not(target_arch = "x86_64"))]
        Simd::Avx512 => portable(keys, marks, out),
        Simd::Avx2 | Simd::Portable => portable(keys, marks, out),
    }
}

/// The definition.
pub fn portable(keys: &[u64], marks: &Bitmap, out: &mut [u64]) -> usize {
    let mut count = 0;
    for &key in keys {
        let (word, bit) = position(key);
        out[count] = key;
        count += usize::from(marks[word] & bit != 0);
    }
    count
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[allow(
        clippy::wildcard_imports,
        clippy::allow_attributes,
        reason = "ten intrinsics, named by Intel"
    )]
    use std::arch::x86_64::*;

    use super::{BIT_BITS, Bitmap, POSITION_BITS, SLACK};

    #[target_feature(enable = "avx512f,bmi2,popcnt")]
    pub(super) fn avx512(keys: &[u64], marks: &Bitmap, out: &mut [u64]) -> usize {
        const SHIFT: u32 = u64::BITS - POSITION_BITS;
        let in_word = _mm512_set1_epi64(i64::from(u64::BITS - 1));
        let mut count = 0;
        for eight in keys.chunks(8) {
            let there = _bzhi_u32(u32::MAX, eight.len() as u32) as u8;
            // SAFETY: the mask reads only the keys of the chunk.
            let key = unsafe { _mm512_maskz_loadu_epi64(there, eight.as_ptr().cast()) };
            let word = _mm512_srli_epi64::<{ SHIFT + BIT_BITS }>(key);
            // SAFETY: the upper ten bits of a key are the index of one of 1,024 words.
            let words = unsafe { _mm512_i64gather_epi64::<8>(word, marks.as_ptr().cast()) };
            let in_word_bit = _mm512_and_si512(_mm512_srli_epi64::<SHIFT>(key), in_word);
            let bit = _mm512_sllv_epi64(_mm512_set1_epi64(1), in_word_bit);
            let is_marked = _mm512_mask_test_epi64_mask(there, words, bit);
            let packed = _mm512_maskz_compress_epi64(is_marked, key);
            let to = &mut out[count..count + SLACK];
            // SAFETY: the slice has eight words.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), packed) };
            count += is_marked.count_ones() as usize;
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_position_is_the_upper_sixteen_bits() {
        let key = 0b10_0000_0001_u64 << 54 | 0b000_101 << 48 | 0x7fff_ffff_ffff;
        assert_eq!(position(key), (0b10_0000_0001, 1 << 0b101));
        assert_eq!(position(u64::MAX), (WORDS - 1, 1 << 63));
    }

    proptest! {
        #[test]
        fn every_variant_returns_the_marked_keys(
            keys in prop::collection::vec(any::<u64>(), 0..70),
            taken in prop::collection::vec(any::<bool>(), 70),
            others in prop::collection::vec(any::<u64>(), 0..9),
        ) {
            let mut marks = [0; WORDS];
            let some = keys.iter().zip(&taken).filter_map(|(&key, &taken)| taken.then_some(key));
            for key in some.chain(others.iter().copied()) {
                let (word, bit) = position(key);
                marks[word] |= bit;
            }
            let is_marked = |key: &u64| marks[(key >> 54) as usize] >> (key >> 48 & 63) & 1 == 1;
            let expected: Vec<u64> = keys.iter().copied().filter(is_marked).collect();
            for simd in Simd::available() {
                let mut out = vec![7; keys.len() + SLACK];
                let count = marked(simd, &keys, &marks, &mut out);
                prop_assert_eq!(&out[..count], &expected, "{:?}", simd);
            }
        }
    }
}
