//! Squeezes ASCII: lower case, and one space for each run of characters other than letters
//! and digits.
//!
//! There are four variants: AVX-512 for 64 bytes at a time, which classifies them and packs them
//! with one instruction; AVX2 for 32 and NEON for 64 bytes at a time, which pack eight bytes by a
//! shuffle from a table; and a loop without branches on the text, which defines the others.

use crate::kernel::Simd;

/// What was written, in bytes and in ends of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Squeezed {
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
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Simd::Avx2 => unsafe { x86::avx2(ascii, in_word, out, ends) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        Simd::Neon => unsafe { arm::neon(ascii, in_word, out, ends) },
        Simd::Portable => portable(ascii, in_word, out, ends),
    }
}

/// Defines what the variants for other instruction sets write.
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

/// For each mask of eight bits, the positions of its ones, and then [`NOTHING`]. As the indices of
/// a shuffle of eight bytes they pack those that the mask selects. 2 KiB.
const ONES: [[u8; 8]; 256] = {
    let mut ones = [[NOTHING; 8]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut bit, mut count) = (0, 0);
        while bit < 8 {
            if mask >> bit & 1 == 1 {
                ones[mask][count] = bit;
                count += 1;
            }
            bit += 1;
        }
        mask += 1;
    }
    ones
};

/// An index that selects no byte: a shuffle gives 0, which is neither a letter nor a space.
const NOTHING: u8 = 0x80;

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[allow(
        clippy::wildcard_imports,
        clippy::allow_attributes,
        reason = "ten intrinsics, named by Intel"
    )]
    use std::arch::x86_64::*;

    use super::{ENDS_SLACK, ONES, Squeezed};

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

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn avx2(ascii: &[u8], in_word: bool, out: &mut [u8], ends: &mut [u32]) -> Squeezed {
        let (mut bytes, mut words, mut before) = (0, 0, u32::from(in_word));
        for piece in ascii.chunks(32) {
            let mut last = [0; 32];
            let whole = piece.first_chunk().unwrap_or_else(|| {
                last[..piece.len()].copy_from_slice(piece);
                &last
            });
            // SAFETY: the array has 32 bytes.
            let raw = unsafe { _mm256_loadu_si256(whole.as_ptr().cast()) };
            let lower = _mm256_or_si256(raw, _mm256_set1_epi8(0x20));
            let words_here = _mm256_or_si256(within(lower, b'a', 26), within(raw, b'0', 10));
            let is_word = _mm256_movemask_epi8(words_here).cast_unsigned();
            let there = _bzhi_u32(u32::MAX, piece.len() as u32);
            let kept = is_word | (is_word << 1 | before) & there;
            // The bit of a digit that differs in `lower` is set in all digits.
            let spaced = _mm256_blendv_epi8(_mm256_set1_epi8(0x20), lower, words_here);
            let halves = [_mm256_castsi256_si128(spaced), _mm256_extracti128_si256::<1>(spaced)];
            let out = &mut out[bytes..bytes + 32];
            let ends = &mut ends[words..words + 32];
            let (mut packed, mut ended) = (0, 0);
            for (half, sixteen) in halves.into_iter().enumerate() {
                let kept = kept >> (16 * half);
                let (low, high) = ((kept & 0xff) as usize, (kept >> 8 & 0xff) as usize);
                let sources = _mm_set_epi64x(index(high) + EIGHT_OF_EACH, index(low));
                let eights = _mm_shuffle_epi8(sixteen, sources);
                // Every space that is kept ends a word.
                let spaces = _mm_cmpeq_epi8(eights, _mm_set1_epi8(0x20));
                let spaces = _mm_movemask_epi8(spaces).cast_unsigned() as usize;
                // SAFETY: at most 24 bytes of the 32 are packed before these eight.
                unsafe { _mm_storel_epi64(out.as_mut_ptr().add(packed).cast(), eights) };
                let begin = bytes + packed;
                packed += low.count_ones() as usize;
                let high_eight = _mm_unpackhi_epi64(eights, eights);
                // SAFETY: as above.
                unsafe { _mm_storel_epi64(out.as_mut_ptr().add(packed).cast(), high_eight) };
                note_ends(spaces & 0xff, begin, &mut ends[ended..]);
                ended += (spaces & 0xff).count_ones() as usize;
                note_ends(spaces >> 8, bytes + packed, &mut ends[ended..]);
                ended += (spaces >> 8).count_ones() as usize;
                packed += high.count_ones() as usize;
            }
            bytes += packed;
            words += ended;
            before = is_word >> 31;
        }
        Squeezed { bytes, words }
    }

    /// Eight in every byte: the second half of sixteen bytes.
    const EIGHT_OF_EACH: i64 = 0x0808_0808_0808_0808;

    #[inline]
    #[target_feature(enable = "avx2")]
    fn index(mask: usize) -> i64 {
        i64::from_le_bytes(ONES[mask])
    }

    /// Which bytes are one of the `count` from `first` on.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn within(bytes: __m256i, first: u8, count: u8) -> __m256i {
        // Lanes compare as signed numbers, so the first becomes the least of those.
        let above = _mm256_add_epi8(bytes, _mm256_set1_epi8(i8::MIN.wrapping_sub_unsigned(first)));
        _mm256_cmpgt_epi8(_mm256_set1_epi8(i8::MIN.wrapping_add_unsigned(count)), above)
    }

    /// Writes the positions of the ones of a mask, at most four, plus `begin`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn note_ends(mask: usize, begin: usize, ends: &mut [u32]) {
        let four = _mm_cvtepu8_epi32(_mm_cvtsi32_si128(index(mask) as i32));
        let to = &mut ends[..4];
        // SAFETY: the slice has four numbers.
        unsafe {
            _mm_storeu_si128(
                to.as_mut_ptr().cast(),
                _mm_add_epi32(four, _mm_set1_epi32(begin as i32)),
            );
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    #[allow(
        clippy::wildcard_imports,
        clippy::allow_attributes,
        reason = "twenty intrinsics, named by Arm"
    )]
    use std::arch::aarch64::*;

    use nearprint_fingerprint::neon::{load, mask_of_64};

    use super::{ONES, Squeezed};

    #[target_feature(enable = "neon")]
    pub(super) fn neon(ascii: &[u8], in_word: bool, out: &mut [u8], ends: &mut [u32]) -> Squeezed {
        let (mut bytes, mut words, mut before) = (0, 0, u64::from(in_word));
        for piece in ascii.chunks(64) {
            let mut whole = [0; 64];
            whole[..piece.len()].copy_from_slice(piece);
            let (sixteens, _) = whole.as_chunks_mut::<16>();
            let is_word = mask_of_64(std::array::from_fn(|i| space(&mut sixteens[i])));
            let there = u64::MAX >> (64 - piece.len());
            let kept = is_word | (is_word << 1 | before) & there;
            let (eights, _) = whole.as_chunks::<8>();
            for (eight, kept) in eights.iter().zip(kept.to_le_bytes()) {
                let to = out[bytes..].first_chunk_mut().expect("the output has slack");
                let ended = pack(eight, kept, to);
                let ends = ends[words..].first_chunk_mut().expect("the ends have slack");
                note_ends(ended, bytes as u32, ends);
                bytes += kept.count_ones() as usize;
                words += ended.count_ones() as usize;
            }
            before = is_word >> 63;
        }
        Squeezed { bytes, words }
    }

    /// Makes letters small, and everything but letters and digits a space. Returns which are one.
    #[inline]
    #[target_feature(enable = "neon")]
    fn space(bytes: &mut [u8; 16]) -> uint8x16_t {
        let raw = load(bytes);
        let lower = vorrq_u8(raw, vdupq_n_u8(0x20));
        let letters = vcltq_u8(vsubq_u8(lower, vdupq_n_u8(b'a')), vdupq_n_u8(26));
        let digits = vcltq_u8(vsubq_u8(raw, vdupq_n_u8(b'0')), vdupq_n_u8(10));
        let is_word = vorrq_u8(letters, digits);
        // The bit of a digit that differs in `lower` is set in all digits.
        let spaced = vbslq_u8(is_word, lower, vdupq_n_u8(b' '));
        // SAFETY: the array has 16 bytes.
        unsafe { vst1q_u8(bytes.as_mut_ptr(), spaced) };
        is_word
    }

    /// Packs the bytes that a mask selects. Returns which of the packed bytes are spaces: every
    /// space that is kept ends a word.
    #[inline]
    #[target_feature(enable = "neon")]
    fn pack(eight: &[u8; 8], kept: u8, to: &mut [u8; 8]) -> u8 {
        // SAFETY: all three arrays have eight bytes.
        let (bytes, sources, weights) = unsafe {
            (
                vld1_u8(eight.as_ptr()),
                vld1_u8(ONES[usize::from(kept)].as_ptr()),
                vld1_u8([1, 2, 4, 8, 16, 32, 64, 128].as_ptr()),
            )
        };
        let packed = vtbl1_u8(bytes, sources);
        // SAFETY: the array has eight bytes.
        unsafe { vst1_u8(to.as_mut_ptr(), packed) };
        vaddv_u8(vand_u8(vceq_u8(packed, vdup_n_u8(b' ')), weights))
    }

    /// Writes the positions of the ones of a mask, at most four, plus `begin`.
    #[inline]
    #[target_feature(enable = "neon")]
    fn note_ends(mask: u8, begin: u32, ends: &mut [u32; 4]) {
        // SAFETY: the array has eight bytes.
        let ones = unsafe { vld1_u8(ONES[usize::from(mask)].as_ptr()) };
        let four = vmovl_u16(vget_low_u16(vmovl_u8(ones)));
        // SAFETY: the array has four numbers.
        unsafe { vst1q_u32(ends.as_mut_ptr(), vaddq_u32(four, vdupq_n_u32(begin))) };
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
