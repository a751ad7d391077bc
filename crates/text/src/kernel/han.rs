//! Reads Han characters, U+4E00 to U+9FFF with three bytes of UTF-8 each, sixteen at a time.
//!
//! There are four variants: one permutation of 48 bytes with AVX-512; AVX2 and NEON, which shuffle
//! four characters at a time out of sixteen bytes; and a loop, which defines the others.

use crate::kernel::Simd;

/// The largest number of characters read at a time.
pub(crate) const HAN_MAX: usize = 16;

/// The bytes of the first and the last Han character; the first byte is the highest.
const FIRST: u32 = 0xe4_b8_80;
const LAST: u32 = 0xe9_bf_bf;

/// The number of bits of a character.
const BITS: u32 = 24;

/// Whether the text begins with a Han character.
#[inline]
pub(crate) fn begins_with_han(utf_8: &[u8]) -> bool {
    utf_8.first_chunk().is_some_and(|&three| is_han(three))
}

#[inline]
fn is_han([a, b, c]: [u8; 3]) -> bool {
    (FIRST..=LAST).contains(&u32::from_be_bytes([0, a, b, c]))
}

/// Reads the Han characters at the beginning of `utf_8`, at most [`HAN_MAX`], and returns their
/// number. The bytes of each character become a word, the first byte lowest, and those of each two
/// neighbours a pair. The rest of `words` and `pairs` is undefined.
#[inline]
pub(crate) fn han(
    simd: Simd,
    utf_8: &[u8],
    words: &mut [u64; HAN_MAX],
    pairs: &mut [u64; HAN_MAX],
) -> usize {
    match simd {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Simd::available` has checked that the processor has these instructions.
        Simd::Avx512 => unsafe { x86::avx512(utf_8, words, pairs) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Simd::Avx2 => unsafe { x86::avx2(utf_8, words, pairs) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        Simd::Neon => unsafe { arm::neon(utf_8, words, pairs) },
        Simd::Portable => portable(utf_8, words, pairs),
    }
}

/// Defines what the variants for other instruction sets find.
pub(crate) fn portable(
    utf_8: &[u8],
    words: &mut [u64; HAN_MAX],
    pairs: &mut [u64; HAN_MAX],
) -> usize {
    let (characters, _) = utf_8.as_chunks::<3>();
    let mut count = 0;
    for (word, &[a, b, c]) in
        words.iter_mut().zip(characters.iter().take_while(|&&three| is_han(three)))
    {
        *word = u64::from(u32::from_le_bytes([a, b, c, 0]));
        count += 1;
    }
    for (pair, two) in pairs.iter_mut().zip(words.windows(2)) {
        *pair = two[0] | two[1] << BITS;
    }
    count
}

/// The bytes that are read for [`HAN_MAX`] characters, of which each four come from sixteen bytes.
const BYTES: usize = 3 * HAN_MAX + 4;

/// The text; a shorter one with zeros after its last whole character, which begin no Han character.
fn padded<'a>(utf_8: &'a [u8], end: &'a mut [u8; BYTES]) -> &'a [u8; BYTES] {
    if let Some(bytes) = utf_8.first_chunk() {
        return bytes;
    }
    let whole = utf_8.len() / 3 * 3;
    end[..whole].copy_from_slice(&utf_8[..whole]);
    end
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[allow(
        clippy::wildcard_imports,
        clippy::allow_attributes,
        reason = "twenty intrinsics, named by Intel"
    )]
    use std::arch::x86_64::*;

    use super::{BITS, BYTES, FIRST, HAN_MAX, LAST, padded};

    /// The source of each byte of a lane: the bytes of a character, either reversed, so that lanes
    /// compare as characters do, or in order. [`THREE`] sets the fourth byte of a lane to 0.
    const REVERSED: [u8; 64] = sources([2, 1, 0]);
    const IN_ORDER: [u8; 64] = sources([0, 1, 2]);
    const THREE: u64 = 0x7777_7777_7777_7777;

    const fn sources(order: [u8; 3]) -> [u8; 64] {
        let mut sources = [0; 64];
        let mut lane = 0;
        while lane < HAN_MAX {
            let mut byte = 0;
            while byte < 3 {
                sources[4 * lane + byte] = 3 * lane as u8 + order[byte];
                byte += 1;
            }
            lane += 1;
        }
        sources
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi2")]
    pub(super) fn avx512(
        utf_8: &[u8],
        words: &mut [u64; HAN_MAX],
        pairs: &mut [u64; HAN_MAX],
    ) -> usize {
        let whole = utf_8.len().min(3 * HAN_MAX) / 3;
        let there = _bzhi_u64(u64::MAX, 3 * whole as u32);
        // SAFETY: the mask reads only bytes of the text.
        let bytes = unsafe { _mm512_maskz_loadu_epi8(there, utf_8.as_ptr().cast()) };
        // SAFETY: both arrays have 64 bytes.
        let (reversed, in_order) = unsafe {
            (
                _mm512_loadu_si512(REVERSED.as_ptr().cast()),
                _mm512_loadu_si512(IN_ORDER.as_ptr().cast()),
            )
        };
        let ordered = _mm512_maskz_permutexvar_epi8(THREE, reversed, bytes);
        let above = _mm512_sub_epi32(ordered, _mm512_set1_epi32(FIRST.cast_signed()));
        let range = _mm512_set1_epi32((LAST - FIRST).cast_signed());
        // Lanes after the text are 0, which is not Han.
        let is_han = _mm512_cmple_epu32_mask(above, range);
        let read = _mm512_maskz_permutexvar_epi8(THREE, in_order, bytes);
        let low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(read));
        let high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(read));
        // The next character of each.
        let low_next = _mm512_alignr_epi64::<1>(high, low);
        let high_next = _mm512_alignr_epi64::<1>(_mm512_setzero_si512(), high);
        let two = |first, next| _mm512_or_si512(first, _mm512_slli_epi64::<BITS>(next));
        let store = |to: &mut [u64; HAN_MAX], low, high| {
            let to = to.as_mut_ptr();
            // SAFETY: the array has sixteen words.
            unsafe {
                _mm512_storeu_si512(to.cast(), low);
                _mm512_storeu_si512(to.wrapping_add(8).cast(), high);
            }
        };
        store(words, low, high);
        store(pairs, two(low, low_next), two(high, high_next));
        is_han.trailing_ones() as usize
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn avx2(
        utf_8: &[u8],
        words: &mut [u64; HAN_MAX],
        pairs: &mut [u64; HAN_MAX],
    ) -> usize {
        let mut end = [0; BYTES];
        let bytes = padded(utf_8, &mut end);
        let reversed = _mm_setr_epi8(2, 1, 0, -1, 5, 4, 3, -1, 8, 7, 6, -1, 11, 10, 9, -1);
        let single = _mm256_setr_epi8(
            0, 1, 2, -1, -1, -1, -1, -1, 3, 4, 5, -1, -1, -1, -1, -1, //
            6, 7, 8, -1, -1, -1, -1, -1, 9, 10, 11, -1, -1, -1, -1, -1,
        );
        let pair = _mm256_setr_epi8(
            0, 1, 2, 3, 4, 5, -1, -1, 3, 4, 5, 6, 7, 8, -1, -1, //
            6, 7, 8, 9, 10, 11, -1, -1, 9, 10, 11, 12, 13, 14, -1, -1,
        );
        let mut is_han = 0;
        for four in 0..HAN_MAX / 4 {
            // SAFETY: the last of these sixteen bytes are the last of the array.
            let sixteen = unsafe { _mm_loadu_si128(bytes.as_ptr().add(12 * four).cast()) };
            // Three bytes are a positive number, so that lanes may compare as signed ones.
            let ordered = _mm_shuffle_epi8(sixteen, reversed);
            let below = _mm_cmpgt_epi32(_mm_set1_epi32(FIRST.cast_signed()), ordered);
            let above = _mm_cmpgt_epi32(ordered, _mm_set1_epi32(LAST.cast_signed()));
            let other = _mm_movemask_ps(_mm_castsi128_ps(_mm_or_si128(below, above)));
            is_han |= (!other & 0xf) << (4 * four);
            let both = _mm256_broadcastsi128_si256(sixteen);
            // SAFETY: both arrays have sixteen words.
            unsafe {
                let (words, pairs) = (words.as_mut_ptr(), pairs.as_mut_ptr());
                let single = _mm256_shuffle_epi8(both, single);
                _mm256_storeu_si256(words.add(4 * four).cast(), single);
                _mm256_storeu_si256(pairs.add(4 * four).cast(), _mm256_shuffle_epi8(both, pair));
            }
        }
        is_han.trailing_ones() as usize
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    #[allow(
        clippy::wildcard_imports,
        clippy::allow_attributes,
        reason = "fifteen intrinsics, named by Arm"
    )]
    use std::arch::aarch64::*;

    use nearprint_fingerprint::neon::load;

    use super::{BYTES, FIRST, HAN_MAX, LAST, padded};

    /// An index that selects no byte.
    const NO: u8 = u8::MAX;

    const REVERSED: [u8; 16] = [2, 1, 0, NO, 5, 4, 3, NO, 8, 7, 6, NO, 11, 10, 9, NO];
    const SINGLE: [u8; 16] = [0, 1, 2, NO, NO, NO, NO, NO, 3, 4, 5, NO, NO, NO, NO, NO];
    const PAIR: [u8; 16] = [0, 1, 2, 3, 4, 5, NO, NO, 3, 4, 5, 6, 7, 8, NO, NO];

    #[target_feature(enable = "neon")]
    pub(super) fn neon(
        utf_8: &[u8],
        words: &mut [u64; HAN_MAX],
        pairs: &mut [u64; HAN_MAX],
    ) -> usize {
        let mut end = [0; BYTES];
        let bytes = padded(utf_8, &mut end);
        let (single, pair) = (load(&SINGLE), load(&PAIR));
        let mut is_han = 0;
        let (words, _) = words.as_chunks_mut::<4>();
        let (pairs, _) = pairs.as_chunks_mut::<4>();
        for (four, (words, pairs)) in words.iter_mut().zip(pairs).enumerate() {
            let sixteen = load(bytes[12 * four..].first_chunk().expect("sixteen bytes"));
            is_han |= han_of(sixteen) << (4 * four);
            // The third character is six bytes after the first.
            let further = vextq_u8::<6>(sixteen, sixteen);
            store(words, [vqtbl1q_u8(sixteen, single), vqtbl1q_u8(further, single)]);
            store(pairs, [vqtbl1q_u8(sixteen, pair), vqtbl1q_u8(further, pair)]);
        }
        is_han.trailing_ones() as usize
    }

    /// Which of four characters are Han.
    #[inline]
    #[target_feature(enable = "neon")]
    fn han_of(sixteen: uint8x16_t) -> u32 {
        let ordered = vreinterpretq_u32_u8(vqtbl1q_u8(sixteen, load(&REVERSED)));
        let above = vsubq_u32(ordered, vdupq_n_u32(FIRST));
        let is_han = vcleq_u32(above, vdupq_n_u32(LAST - FIRST));
        // SAFETY: the array has four numbers.
        let weights = unsafe { vld1q_u32([1, 2, 4, 8].as_ptr()) };
        vaddvq_u32(vandq_u32(is_han, weights))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    fn store(to: &mut [u64; 4], [low, high]: [uint8x16_t; 2]) {
        // SAFETY: the array has four words.
        unsafe {
            vst1q_u64(to.as_mut_ptr(), vreinterpretq_u64_u8(low));
            vst1q_u64(to.as_mut_ptr().add(2), vreinterpretq_u64_u8(high));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The words, after checking the pairs.
    fn read(simd: Simd, utf_8: &[u8]) -> Vec<u64> {
        let (mut words, mut pairs) = ([u64::MAX; HAN_MAX], [u64::MAX; HAN_MAX]);
        let count = han(simd, utf_8, &mut words, &mut pairs);
        assert_eq!(count > 0, begins_with_han(utf_8));
        let words = words[..count].to_vec();
        let expected: Vec<u64> = words.windows(2).map(|two| two[0] | two[1] << 24).collect();
        assert_eq!(pairs[..expected.len()], expected, "{simd:?}");
        words
    }

    #[test]
    fn the_first_and_the_last_are_read_and_their_neighbours_are_not() {
        let word =
            |c: char| c.to_string().bytes().rev().fold(0, |word, b| word << 8 | u64::from(b));
        let text = "\u{4e00}\u{9fff}\u{4e00}\u{4dff}\u{4e00}";
        let expected = ['\u{4e00}', '\u{9fff}', '\u{4e00}'].map(word);
        for simd in Simd::available() {
            assert_eq!(read(simd, text.as_bytes()), expected, "{simd:?}");
            for other in ["\u{a000}", "\u{4dff}", "abc", "\u{e4}\u{b8}", "\u{20000}", ""] {
                assert!(read(simd, other.as_bytes()).is_empty(), "{simd:?}: {other}");
            }
            assert_eq!(read(simd, &text.as_bytes()[..5]), [expected[0]], "{simd:?}: cut");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn every_variant_reads_what_the_definition_reads(
            text in prop_oneof![
                prop::collection::vec(
                    prop_oneof![9 => prop::char::range('\u{4d00}', '\u{a0ff}'), 1 => any::<char>()],
                    0..40,
                ),
                prop::collection::vec(prop::char::range('\u{4e00}', '\u{9fff}'), 0..40),
            ],
            cut in 0..4_usize,
        ) {
            let text: String = text.into_iter().collect();
            let utf_8 = &text.as_bytes()[..text.len().saturating_sub(cut)];
            let expected = read(Simd::Portable, utf_8);
            for simd in Simd::available() {
                prop_assert_eq!(&read(simd, utf_8), &expected, "{:?}", simd);
            }
        }
    }
}
