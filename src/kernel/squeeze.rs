//! Squeezes ASCII: lower case, and one space for each run of characters other than letters
//! and digits.
//!
//! There are two variants: AVX-512 for 64 bytes at a time, which classifies them and packs them
//! with one instruction, and a loop without branches on the text.

use crate::kernel::Simd;

/// How much was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Squeezed {
    /// The number of bytes.
    pub bytes: usize,
    /// The number of word ends.
    pub words: usize,
}

/// The number of bytes by which `out` must be longer than the text.
pub(crate) const SLACK: usize = 64;

/// The number by which `ends` must be longer than half of the text.
pub(crate) const ENDS_SLACK: usize = 32;

/// Writes the squeezed form of `ascii` to the beginning of `out`, and the offsets in it at which
/// words end (those of the spaces after them) to `ends`. `in_word` is whether a letter or digit
/// precedes `ascii`; only then does a separator at its beginning become a space.
///
/// # Panics
/// If `out` is not [`SLACK`] bytes longer than the text, or `ends` not [`ENDS_SLACK`] longer than
/// half of it.
pub(crate) fn squeeze(
    simd: Simd,
    ascii: &[u8],
    in_word: bool,
    out: &mut [u8],
    ends: &mut [u32],
) -> Squeezed {
    assert!(
        out.len() >= ascii.len() + SLACK && ends.len() >= ascii.len() / 2 + ENDS_SLACK,
        "the output fits"
    );
    match simd {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Simd::available` has checked that the processor has these instructions.
        Simd::Avx512 => unsafe { x86::avx512(ascii, in_word, out, ends) },
        #[cfg(not(target_arch = "x86_64"))]
        Simd::Avx512 => portable(ascii, in_word, out, ends),
        Simd::Avx2 | Simd::Portable => portable(ascii, in_word, out, ends),
    }
}

/// The definition.
pub(crate) fn portable(ascii: &[u8], in_word: bool, out: &mut [u8], ends: &mut [u32]) -> Squeezed {
    const LETTERS: [u8; 256] = {
        let mut letters = [b' '; 256];
        let mut byte = 0_u8;
        while byte < 128 {
            if byte.is_ascii_alphanumeric() {
                letters[byte as usize] = byte.to_ascii_lowercase();
            }
            byte += 1;
        }
        letters
    };
    let (mut bytes, mut words, mut in_word) = (0, 0, in_word);
    for &byte in ascii {
        let letter = LETTERS[usize::from(byte)];
        let is_word = letter != b' ';
        // Always written and only sometimes kept, so that no branch depends on the text.
        out[bytes] = letter;
        ends[words] = bytes as u32;
        bytes += usize::from(is_word | in_word);
        words += usize::from(!is_word & in_word);
        in_word = is_word;
    }
    Squeezed { bytes, words }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[allow(
        clippy::wildcard_imports,
        clippy::allow_attributes,
        reason = "ten intrinsics, named by Intel"
    )]
    use std::arch::x86_64::*;

    use super::{ENDS_SLACK, Squeezed};

    /// The indices of the bytes of a vector.
    const INDICES: [u8; 64] = {
        let mut indices = [0; 64];
        let mut index = 0;
        while index < 64 {
            indices[index] = index as u8;
            index += 1;
        }
        indices
    };

    #[target_feature(
        enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt"
    )]
    pub(super) fn avx512(
        ascii: &[u8],
        in_word: bool,
        out: &mut [u8],
        ends: &mut [u32],
    ) -> Squeezed {
        // SAFETY: the array has 64 bytes.
        let all_indices = unsafe { _mm512_loadu_si512(INDICES.as_ptr().cast()) };
        let (mut bytes, mut words, mut before) = (0, 0, u64::from(in_word));
        for piece in ascii.chunks(64) {
            let there = _bzhi_u64(u64::MAX, piece.len() as u32);
            // SAFETY: the mask reads only the bytes of the piece.
            let raw = unsafe { _mm512_maskz_loadu_epi8(there, piece.as_ptr().cast()) };
            let lower = _mm512_or_si512(raw, _mm512_set1_epi8(0x20));
            let from = |first: u8, of: __m512i, count: u8| {
                let above = _mm512_sub_epi8(of, _mm512_set1_epi8(first.cast_signed()));
                _mm512_cmplt_epu8_mask(above, _mm512_set1_epi8(count.cast_signed()))
            };
            let letters = from(b'a', lower, 26);
            let is_word = letters | from(b'0', raw, 10);
            let ends_word = !is_word & (is_word << 1 | before) & there;
            let kept = is_word | ends_word;
            let spaced = _mm512_mask_blend_epi8(letters, raw, lower);
            let spaced = _mm512_mask_mov_epi8(_mm512_set1_epi8(0x20), is_word, spaced);
            let packed = _mm512_maskz_compress_epi8(kept, spaced);
            let to = &mut out[bytes..bytes + 64];
            // SAFETY: the slice has 64 bytes.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), packed) };
            // At most 32 words end here. Their number is unpredictable, so 32 offsets are written.
            let ends_kept = _pext_u64(ends_word, kept);
            let packed = _mm512_maskz_compress_epi8(ends_kept, all_indices);
            let begin = _mm512_set1_epi32(bytes as i32);
            let sixteen = |indices| _mm512_add_epi32(begin, _mm512_cvtepu8_epi32(indices));
            let to = ends[words..words + ENDS_SLACK].as_mut_ptr();
            // SAFETY: the slice has 32 numbers.
            unsafe {
                let low = sixteen(_mm512_castsi512_si128(packed));
                _mm512_storeu_si512(to.cast(), low);
                let high = sixteen(_mm512_extracti32x4_epi32::<1>(packed));
                _mm512_storeu_si512(to.wrapping_add(16).cast(), high);
            }
            words += ends_kept.count_ones() as usize;
            bytes += kept.count_ones() as usize;
            before = is_word >> 63;
        }
        Squeezed { bytes, words }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn squeezed(simd: Simd, ascii: &[u8], in_word: bool) -> (Vec<u8>, Vec<u32>) {
        let mut out = vec![b'?'; ascii.len() + SLACK];
        let mut ends = vec![0; ascii.len() / 2 + ENDS_SLACK];
        let Squeezed { bytes, words } = squeeze(simd, ascii, in_word, &mut out, &mut ends);
        out.truncate(bytes);
        ends.truncate(words);
        (out, ends)
    }

    #[test]
    fn words_are_lower_case_and_each_that_ends_is_followed_by_a_space() {
        for simd in Simd::available() {
            let (out, ends) = squeezed(simd, b" ?Tea, \nPOT-2_x", false);
            assert_eq!((&out[..], &ends[..]), (&b"tea pot 2 x"[..], &[3, 7, 9][..]), "{simd:?}");
            let (out, ends) = squeezed(simd, b"., a", true);
            assert_eq!((&out[..], &ends[..]), (&b" a"[..], &[0][..]), "{simd:?}");
            assert_eq!(squeezed(simd, b"", true), (vec![], vec![]), "{simd:?}");
        }
    }

    /// The largest number of words, written to the smallest output.
    #[test]
    fn a_word_may_end_at_every_second_byte() {
        for simd in Simd::available() {
            for pieces in 1..=3 {
                let ascii = b" a".repeat(32 * pieces);
                let (out, ends) = squeezed(simd, &ascii, true);
                assert_eq!(out, ascii, "{simd:?}");
                let expected: Vec<u32> = (0..64 * pieces as u32).step_by(2).collect();
                assert_eq!(ends, expected, "{simd:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn every_variant_writes_what_the_definition_writes(
            ascii in prop_oneof![
                prop::collection::vec(0..128_u8, 0..300),
                prop::collection::vec(prop::sample::select(b"aZ0 .".to_vec()), 0..300),
            ],
            in_word: bool,
        ) {
            let expected = squeezed(Simd::Portable, &ascii, in_word);
            for simd in Simd::available() {
                prop_assert_eq!(&squeezed(simd, &ascii, in_word), &expected, "{:?}", simd);
            }
        }
    }
}
