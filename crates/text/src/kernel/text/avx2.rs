//! Hashes short strings and mixes hashes with AVX2, four at a time.
//!
//! AVX2 multiplies no lanes of 64 bits, so [`multiply`] does it in six operations; a rotation by a
//! multiple of eight bits is a shuffle of bytes, and windows are shuffled out of sixteen bytes. The
//! compiler finds only the first of these. What is left at an end goes to the plain functions,
//! which define these.

#[allow(
    clippy::wildcard_imports,
    clippy::allow_attributes,
    reason = "thirty intrinsics, named by Intel"
)]
use std::arch::x86_64::*;

use super::{
    FLIP_1_TO_3, FLIP_4_TO_8, MIX, MULTIPLIER_4_TO_8, MULTIPLIERS_1_TO_3, SHINGLE_MULTIPLIER,
    hash_short_body, hash_windows_body, least_and_most, mix_elements_body, mix_shingles_body,
};

const FOUR: usize = 4;

#[inline]
#[target_feature(enable = "avx2")]
fn load(words: &[u64; FOUR]) -> __m256i {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(words: &mut [u64; FOUR], lanes: __m256i) {
    // SAFETY: the array has 32 bytes.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), lanes) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn all(word: u64) -> __m256i {
    _mm256_set1_epi64x(word.cast_signed())
}

/// The low 64 bits of each product: that of the low halves, plus the two products of a low and a
/// high half in the high half.
#[inline]
#[target_feature(enable = "avx2")]
fn multiply(a: __m256i, b: __m256i) -> __m256i {
    let crossed = _mm256_mullo_epi32(a, _mm256_shuffle_epi32::<0b10_11_00_01>(b));
    let sum = _mm256_add_epi32(crossed, _mm256_slli_epi64::<32>(crossed));
    let high = _mm256_blend_epi32::<0b1010_1010>(_mm256_setzero_si256(), sum);
    _mm256_add_epi64(_mm256_mul_epu32(a, b), high)
}

#[inline]
#[target_feature(enable = "avx2")]
fn fold<const BITS: i32>(h: __m256i) -> __m256i {
    _mm256_xor_si256(h, _mm256_srli_epi64::<BITS>(h))
}

/// The final mixing of `MurmurHash3`, as [`super::mix`].
#[inline]
#[target_feature(enable = "avx2")]
fn mix(h: __m256i) -> __m256i {
    let h = multiply(fold::<33>(h), all(MIX[0]));
    let h = multiply(fold::<33>(h), all(MIX[1]));
    fold::<33>(h)
}

/// The beginning of [`super::hash_4_to_8`], up to the first product: the last four bytes are the
/// low half of a lane, the first four the high half.
#[inline]
#[target_feature(enable = "avx2")]
fn begin_4_to_8(lanes: __m256i) -> __m256i {
    let h = _mm256_xor_si256(lanes, all(FLIP_4_TO_8));
    let rotated_24 = _mm256_shuffle_epi8(
        h,
        _mm256_setr_epi8(
            5, 6, 7, 0, 1, 2, 3, 4, 13, 14, 15, 8, 9, 10, 11, 12, //
            5, 6, 7, 0, 1, 2, 3, 4, 13, 14, 15, 8, 9, 10, 11, 12,
        ),
    );
    let rotated_49 = _mm256_xor_si256(_mm256_slli_epi64::<49>(h), _mm256_srli_epi64::<15>(h));
    _mm256_xor_si256(_mm256_xor_si256(h, rotated_24), rotated_49)
}

#[inline]
#[target_feature(enable = "avx2")]
fn hash_4_to_8(lanes: __m256i, length: __m256i) -> __m256i {
    let multiplier = all(MULTIPLIER_4_TO_8);
    let h = multiply(begin_4_to_8(lanes), multiplier);
    let h = _mm256_xor_si256(h, _mm256_add_epi64(_mm256_srli_epi64::<35>(h), length));
    fold::<28>(multiply(h, multiplier))
}

/// The last and the first four bytes of words of 4 to 8 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn halves(word: __m256i, length: __m256i) -> __m256i {
    let unused = _mm256_slli_epi64::<3>(_mm256_sub_epi64(length, all(4)));
    _mm256_blend_epi32::<0b1010_1010>(
        _mm256_srlv_epi64(word, unused),
        _mm256_slli_epi64::<32>(word),
    )
}

/// The beginning of [`super::hash_1_to_3`]. It has 32 bits, so the first shift by 33 gives 0.
#[inline]
#[target_feature(enable = "avx2")]
fn begin_1_to_3(word: __m256i, length: __m256i) -> __m256i {
    let byte = all(0xff);
    let shift_middle = _mm256_slli_epi64::<3>(_mm256_srli_epi64::<1>(length));
    let shift_last = _mm256_slli_epi64::<3>(_mm256_sub_epi64(length, all(1)));
    let first = _mm256_and_si256(word, byte);
    let middle = _mm256_and_si256(_mm256_srlv_epi64(word, shift_middle), byte);
    let last = _mm256_and_si256(_mm256_srlv_epi64(word, shift_last), byte);
    let high = _mm256_or_si256(_mm256_slli_epi64::<16>(first), _mm256_slli_epi64::<24>(middle));
    let low = _mm256_or_si256(last, _mm256_slli_epi64::<8>(length));
    _mm256_xor_si256(_mm256_or_si256(high, low), all(FLIP_1_TO_3))
}

/// The bytes of a lane that [`hash_same`] takes from words of this length; 0x80 gives 0. Those of 4
/// to 8 bytes give what [`halves`] gives, shorter ones the end, 0, the begin and the middle.
const fn sources(length: u8) -> u64 {
    if length >= 4 {
        ((length as u64 - 4) * 0x0101_0101 + 0x0302_0100) | 0x0302_0100 << 32
    } else {
        0x8080_8080_0000_8000 | (length as u64 - 1) | (length as u64 / 2) << 24
    }
}

/// Words that all have this length, of 1 to 8 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn hash_same(words: &mut [[u64; FOUR]], length: u8) {
    let second_half = _mm256_setr_epi64x(0, EIGHT_OF_EACH, 0, EIGHT_OF_EACH);
    let sources = _mm256_add_epi8(all(sources(length)), second_half);
    let length = u64::from(length);
    if length >= 4 {
        for words in words {
            let lanes = _mm256_shuffle_epi8(load(words), sources);
            store(words, hash_4_to_8(lanes, all(length)));
        }
    } else {
        let flip = all(FLIP_1_TO_3 ^ length << 8);
        for words in words {
            let h = _mm256_xor_si256(_mm256_shuffle_epi8(load(words), sources), flip);
            let h = multiply(h, all(MULTIPLIERS_1_TO_3[0]));
            store(words, fold::<32>(multiply(fold::<29>(h), all(MULTIPLIERS_1_TO_3[1]))));
        }
    }
}

/// Eight in every byte: the second word of sixteen bytes.
const EIGHT_OF_EACH: i64 = 0x0808_0808_0808_0808;

/// Words of 0 to 8 bytes. Both forms multiply twice, so the lanes share the products, each with the
/// multipliers and shifts of its form.
#[inline]
#[target_feature(enable = "avx2")]
fn hash_mixed(word: __m256i, length: __m256i) -> __m256i {
    let long = _mm256_cmpgt_epi64(length, all(3));
    let first = choose(long, all(MULTIPLIERS_1_TO_3[0]), all(MULTIPLIER_4_TO_8));
    let second = choose(long, all(MULTIPLIERS_1_TO_3[1]), all(MULTIPLIER_4_TO_8));
    let begin = choose(long, begin_1_to_3(word, length), begin_4_to_8(halves(word, length)));
    let h = multiply(begin, first);
    let shifted = _mm256_srlv_epi64(h, choose(long, all(29), all(35)));
    let h = _mm256_xor_si256(h, _mm256_add_epi64(shifted, _mm256_and_si256(length, long)));
    let h = multiply(h, second);
    let hash = _mm256_xor_si256(h, _mm256_srlv_epi64(h, choose(long, all(32), all(28))));
    let is_hash = _mm256_cmpeq_epi64(length, _mm256_setzero_si256());
    choose(is_hash, hash, word)
}

/// `yes` in the lanes where the condition is all ones, `no` where it is 0.
#[inline]
#[target_feature(enable = "avx2")]
fn choose(condition: __m256i, no: __m256i, yes: __m256i) -> __m256i {
    _mm256_blendv_epi8(no, yes, condition)
}

#[target_feature(enable = "avx2")]
pub(super) fn hash_short(words: &mut [u64], lengths: &[u8]) {
    let count = words.len().min(lengths.len());
    let (words, lengths) = (&mut words[..count], &lengths[..count]);
    let (least, most) = least_and_most(lengths);
    let (words, last_words) = words.as_chunks_mut::<FOUR>();
    let (lengths, last_lengths) = lengths.as_chunks::<FOUR>();
    if least == most && least > 0 {
        hash_same(words, least);
    } else {
        for (words, lengths) in words.iter_mut().zip(lengths) {
            let lengths = _mm_cvtsi32_si128(i32::from_le_bytes(*lengths));
            store(words, hash_mixed(load(words), _mm256_cvtepu8_epi64(lengths)));
        }
    }
    hash_short_body(last_words, last_lengths);
}

/// The number of windows that one load of sixteen bytes gives.
const EIGHT: usize = 8;

/// The hashes of eight windows, the first of which begins at an offset of up to 9 - `WINDOW` in
/// these bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn hash_eight<const WINDOW: usize>(
    bytes: &[u8; 16],
    offset: usize,
    hashes: &mut [[u64; FOUR]; EIGHT / FOUR],
) {
    // SAFETY: the array has 16 bytes.
    let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    let bytes = _mm256_broadcastsi128_si256(bytes);
    let length = all(WINDOW as u64);
    let (one, two) = (0x0101_0101_0101_0101, 0x0202_0202_0202_0202);
    let which =
        _mm256_add_epi8(_mm256_setr_epi64x(0, one, two, one + two), _mm256_set1_epi8(offset as i8));
    let sources = _mm256_add_epi8(all(sources(WINDOW as u8)), which);
    let next = _mm256_add_epi8(sources, _mm256_set1_epi8(FOUR as i8));
    let [low, high] = hashes;
    store(low, hash_4_to_8(_mm256_shuffle_epi8(bytes, sources), length));
    store(high, hash_4_to_8(_mm256_shuffle_epi8(bytes, next), length));
}

#[target_feature(enable = "avx2")]
pub(super) fn hash_windows<const WINDOW: usize>(bytes: &[u8], hashes: &mut [u64]) {
    let count = hashes.len().min((bytes.len() + 1).saturating_sub(WINDOW));
    let hashes = &mut hashes[..count];
    let Some(last) = bytes.len().checked_sub(16).filter(|_| count >= EIGHT) else {
        return hash_windows_body::<WINDOW>(bytes, hashes);
    };
    let mut done = 0;
    while done < count {
        // At the end, some windows once more, and out of the last sixteen bytes.
        let first = done.min(count - EIGHT);
        let from = first.min(last);
        let some = bytes[from..].first_chunk().expect("sixteen bytes");
        let hashes = hashes[first..].first_chunk_mut().expect("eight hashes");
        hash_eight::<WINDOW>(some, first - from, fours(hashes));
        done = first + EIGHT;
    }
}

fn fours(hashes: &mut [u64; EIGHT]) -> &mut [[u64; FOUR]; EIGHT / FOUR] {
    bytemuck::cast_mut(hashes)
}

#[target_feature(enable = "avx2")]
pub(super) fn mix_shingles(hashes: &[u64], shingles: &mut [u64]) {
    let count = shingles.len().min(hashes.len().saturating_sub(1));
    let multiplier = all(SHINGLE_MULTIPLIER);
    let (fours, rest) = shingles[..count].as_chunks_mut::<FOUR>();
    let done = FOUR * fours.len();
    for (to, five) in fours.iter_mut().zip(hashes.windows(FOUR + 1).step_by(FOUR)) {
        let one = load(five.first_chunk().expect("five words"));
        let next = load(five.last_chunk().expect("five words"));
        store(to, mix(_mm256_add_epi64(multiply(one, multiplier), next)));
    }
    mix_shingles_body(&hashes[done..], rest);
}

#[target_feature(enable = "avx2")]
pub(super) fn mix_elements(shingles: &mut [u64], earlier: &[u32]) {
    let count = shingles.len().min(earlier.len());
    let multiplier = all(SHINGLE_MULTIPLIER);
    let (shingles, last_shingles) = shingles[..count].as_chunks_mut::<FOUR>();
    let (earlier, last_earlier) = earlier[..count].as_chunks::<FOUR>();
    for (shingles, earlier) in shingles.iter_mut().zip(earlier) {
        // SAFETY: the array has 16 bytes.
        let earlier = unsafe { _mm_loadu_si128(earlier.as_ptr().cast()) };
        let step = multiply(_mm256_cvtepu32_epi64(earlier), multiplier);
        store(shingles, mix(_mm256_add_epi64(load(shingles), step)));
    }
    mix_elements_body(last_shingles, last_earlier);
}
