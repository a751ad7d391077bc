//! Compares the lines and buckets of an index with a query, 16 lanes at a time.
//!
//! A lane of a line has 32 bits. In a slot it is the low half of an entry's key; the lanes after
//! the slots have other data, and the last one ends in the flags of the line. For each line the
//! kernel returns 16 bits: which slots lie within the distance in the low half, and whether there
//! is more to visit. The found slots are candidates; the caller compares whole fingerprints.
//!
//! There are four variants: AVX-512 with VPOPCNTDQ (four instructions a line); AVX2, which removes
//! ones up to distance 3 and from there on counts them by nibble shuffles; NEON, which counts the
//! ones of bytes; and plain Rust, [`portable`], which defines the others.

use bytemuck::{Pod, Zeroable};

use crate::kernel::Simd;

/// One cache line of a table; [`crate::tables::line`] defines its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub struct Line(pub [u32; 16]);

/// The flag in the last word of a line that there is more to visit.
pub const MORE: u32 = 1 << 31;

/// The largest number of lines of a scan.
pub(crate) const SCAN_MAX: usize = 32;

/// The largest number of words of a bucket that a scan compares.
pub(crate) const WORDS_MAX: usize = 64;

/// The query that lines are compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    /// The low half of the query's key.
    pub low: u32,
    /// The largest distance of the low halves.
    pub distance: u32,
    /// The number of slots of a line, at most 15.
    pub slots: u32,
}

/// The result of a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LineMatches {
    /// For each line, bit i is slot i, and bit 15 is set if there is more to visit.
    pub lanes: [u16; SCAN_MAX],
    /// The lines with a slot within the distance.
    pub near: u32,
    /// The lines with more to visit.
    pub more: u32,
}

/// Compares the lines at these indices (the first [`SCAN_MAX`] of them) with a pattern, and
/// overwrites `found`.
///
/// # Panics
/// If there is no line at one of the indices.
#[inline]
pub(crate) fn scan(
    simd: Simd,
    lines: &[Line],
    at: &[u32],
    pattern: Pattern,
    found: &mut LineMatches,
) {
    match simd {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Simd::available` has checked that the processor has these instructions.
        Simd::Avx512 => unsafe { x86::scan_avx512(lines, at, pattern, found) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Simd::Avx2 => unsafe { x86::scan_avx2(lines, at, pattern, found) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        Simd::Neon => unsafe { arm::scan(lines, at, pattern, found) },
        Simd::Portable => portable(lines, at, pattern, found),
    }
}

/// Defines what the variants for other instruction sets find.
pub(crate) fn portable(lines: &[Line], at: &[u32], pattern: Pattern, found: &mut LineMatches) {
    for (found, &at) in found.lanes.iter_mut().zip(at) {
        let line = &lines[at as usize];
        let near = line.0.iter().take(pattern.slots as usize).enumerate().map(|(slot, low)| {
            u16::from((low ^ pattern.low).count_ones() <= pattern.distance) << slot
        });
        let more = u16::from(line.0[15] & MORE != 0) << 15;
        *found = near.fold(more, |all, lane| all | lane);
    }
    found.sum_up(at.len());
}

/// Which of these words (the first [`WORDS_MAX`] of them) lie within a distance of `word`: bit i is
/// word i.
#[inline]
pub(crate) fn scan_words(simd: Simd, words: &[u32], word: u32, distance: u32) -> u64 {
    match simd {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Simd::available` has checked that the processor has these instructions.
        Simd::Avx512 => unsafe { x86::scan_words_avx512(words, word, distance) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Simd::Avx2 => unsafe { x86::scan_words_avx2(words, word, distance) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        Simd::Neon => unsafe { arm::scan_words(words, word, distance) },
        Simd::Portable => portable_words(words, word, distance),
    }
}

/// The definition of [`scan_words`].
pub(crate) fn portable_words(words: &[u32], word: u32, distance: u32) -> u64 {
    let near = words.iter().take(WORDS_MAX).enumerate();
    near.fold(0, |all, (i, other)| all | u64::from((other ^ word).count_ones() <= distance) << i)
}

impl LineMatches {
    /// Which of the first `count` lines have a slot within the distance, or more to visit.
    fn sum_up(&mut self, count: usize) {
        (self.near, self.more) = (0, 0);
        for (i, &lanes) in self.lanes.iter().enumerate().take(count) {
            self.near |= u32::from(lanes & !LINE_MORE != 0) << i;
            self.more |= u32::from(lanes & LINE_MORE != 0) << i;
        }
    }
}

/// The bit of a line's lanes that is set if there is more to visit.
const LINE_MORE: u16 = 1 << 15;

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[allow(
        clippy::wildcard_imports,
        clippy::allow_attributes,
        reason = "thirty intrinsics, named by Intel"
    )]
    use std::arch::x86_64::*;

    use super::{LINE_MORE, Line, LineMatches, MORE, Pattern, SCAN_MAX, WORDS_MAX};

    #[target_feature(enable = "avx512f,avx512bw,avx512vpopcntdq,bmi1,bmi2")]
    pub(super) fn scan_avx512(
        lines: &[Line],
        at: &[u32],
        pattern: Pattern,
        found: &mut LineMatches,
    ) {
        let slots: u16 = (1 << pattern.slots.min(15)) - 1;
        let flag = _mm512_set1_epi32(MORE.cast_signed());
        let flip = _mm512_mask_set1_epi32(flag, slots, pattern.low.cast_signed());
        let mask = _mm512_mask_set1_epi32(flag, slots, -1);
        let most = _mm512_maskz_set1_epi32(!(1 << 15), -1);
        let most = _mm512_mask_set1_epi32(most, slots, pattern.distance.cast_signed());
        for (found, &at) in found.lanes.iter_mut().zip(at) {
            let line = &lines[at as usize];
            // SAFETY: a line has 64 bytes and is aligned to 64.
            let line = unsafe { _mm512_load_si512(std::ptr::from_ref(line).cast()) };
            // (line ^ flip) & mask
            let different = _mm512_ternarylogic_epi32::<0x28>(line, flip, mask);
            *found = _mm512_cmple_epi32_mask(_mm512_popcnt_epi32(different), most);
        }
        // Summed up once: with each line it would take longer than comparing the line.
        // SAFETY: the array has 64 bytes.
        let all = unsafe { _mm512_loadu_si512(found.lanes.as_ptr().cast()) };
        let slots = _mm512_set1_epi16((!LINE_MORE).cast_signed());
        found.near = _bzhi_u32(_mm512_test_epi16_mask(all, slots), at.len().min(SCAN_MAX) as u32);
        found.more = _bzhi_u32(_mm512_movepi16_mask(all), at.len().min(SCAN_MAX) as u32);
    }

    #[target_feature(enable = "avx512f,avx512vpopcntdq,bmi2")]
    pub(super) fn scan_words_avx512(words: &[u32], word: u32, distance: u32) -> u64 {
        let words = &words[..words.len().min(WORDS_MAX)];
        let word = _mm512_set1_epi32(word.cast_signed());
        let most = _mm512_set1_epi32(distance.cast_signed());
        let near = |first: usize| {
            let lanes = _bzhi_u32(u32::MAX, words.len().saturating_sub(first) as u32) as u16;
            // SAFETY: the mask reads only words of the slice.
            let some = unsafe {
                _mm512_maskz_loadu_epi32(lanes, words.as_ptr().wrapping_add(first).cast())
            };
            let ones = _mm512_popcnt_epi32(_mm512_xor_si512(some, word));
            u64::from(_mm512_mask_cmple_epu32_mask(lanes, ones, most)) << first
        };
        // Two loads at a time: a branch on more than 16 words would be mispredicted. The second
        // load ends at the last word, so that it touches no line after the bucket: a Zen 4 waits
        // for a line even if the mask selects none of it.
        let length = words.len();
        let mut all = near(0) | near(length.min(32).saturating_sub(16));
        if length > 32 {
            all |= near(32) | near(length - 16);
        }
        all
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn scan_avx2(lines: &[Line], at: &[u32], pattern: Pattern, found: &mut LineMatches) {
        match pattern.distance {
            0 => scan_within::<0>(lines, at, pattern, found),
            1 => scan_within::<1>(lines, at, pattern, found),
            2 => scan_within::<2>(lines, at, pattern, found),
            3 => scan_within::<3>(lines, at, pattern, found),
            _ => scan_within::<COUNTED>(lines, at, pattern, found),
        }
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn scan_within<const DISTANCE: u32>(
        lines: &[Line],
        at: &[u32],
        pattern: Pattern,
        found: &mut LineMatches,
    ) {
        let slots = _bzhi_u32(0x7fff, pattern.slots) as u16;
        let low = _mm256_set1_epi32(pattern.low.cast_signed());
        let most = _mm256_set1_epi32(pattern.distance.min(32).cast_signed());
        for (found, &at) in found.lanes.iter_mut().zip(at) {
            let line = &lines[at as usize].0;
            // SAFETY: a line has 64 bytes and is aligned to 64.
            let (first, second) = unsafe {
                let line: *const __m256i = line.as_ptr().cast();
                (_mm256_load_si256(line), _mm256_load_si256(line.add(1)))
            };
            let near = near::<DISTANCE>(_mm256_xor_si256(first, low), most)
                | near::<DISTANCE>(_mm256_xor_si256(second, low), most) << 8;
            *found = near as u16 & slots | (line[15] >> 16) as u16 & LINE_MORE;
        }
        // SAFETY: the array has 64 bytes.
        let (low, high) = unsafe {
            let all: *const __m256i = found.lanes.as_ptr().cast();
            (_mm256_loadu_si256(all), _mm256_loadu_si256(all.add(1)))
        };
        // The signs are the bits of `LINE_MORE`, and packing keeps them.
        let more = mask_of_lanes(low, high);
        let slots = _mm256_set1_epi16((!LINE_MORE).cast_signed());
        let none = _mm256_setzero_si256();
        let near = mask_of_lanes(
            _mm256_cmpgt_epi16(_mm256_and_si256(low, slots), none),
            _mm256_cmpgt_epi16(_mm256_and_si256(high, slots), none),
        );
        found.near = _bzhi_u32(near, at.len().min(SCAN_MAX) as u32);
        found.more = _bzhi_u32(more, at.len().min(SCAN_MAX) as u32);
    }

    /// The signs of 32 lanes of 16 bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn mask_of_lanes(low: __m256i, high: __m256i) -> u32 {
        // Packing takes four lanes from each in turn.
        let bytes = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high));
        _mm256_movemask_epi8(bytes).cast_unsigned()
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn scan_words_avx2(words: &[u32], word: u32, distance: u32) -> u64 {
        let words = &words[..words.len().min(WORDS_MAX)];
        match distance {
            0 => words_within::<0>(words, word, distance),
            1 => words_within::<1>(words, word, distance),
            2 => words_within::<2>(words, word, distance),
            3 => words_within::<3>(words, word, distance),
            _ => words_within::<COUNTED>(words, word, distance),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn words_within<const DISTANCE: u32>(words: &[u32], word: u32, distance: u32) -> u64 {
        let word = _mm256_set1_epi32(word.cast_signed());
        let most = _mm256_set1_epi32(distance.min(32).cast_signed());
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let mut all = 0;
        for first in (0..WORDS_MAX).step_by(STEP) {
            for first in (first..first + STEP).step_by(8) {
                let there = words.len().saturating_sub(first) as i32;
                let there = _mm256_cmpgt_epi32(_mm256_set1_epi32(there), lanes);
                // SAFETY: the mask reads only words of the slice.
                let some = unsafe {
                    _mm256_maskload_epi32(words.as_ptr().wrapping_add(first).cast(), there)
                };
                let near = near::<DISTANCE>(_mm256_xor_si256(some, word), most);
                all |= u64::from(near) << first;
            }
            if words.len() <= first + STEP {
                break;
            }
        }
        _bzhi_u64(all, words.len() as u32)
    }

    /// The words that are compared without a branch on their number, which would be mispredicted.
    const STEP: usize = 16;

    /// A distance for which [`near`] counts ones.
    const COUNTED: u32 = u32::MAX;

    /// Which lanes have at most `DISTANCE` ones: removing the lowest one so often leaves none. From
    /// four on, counting them is quicker.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn near<const DISTANCE: u32>(mut lanes: __m256i, most: __m256i) -> u32 {
        if DISTANCE == COUNTED {
            let more = _mm256_cmpgt_epi32(ones(lanes), most);
            return !_mm256_movemask_ps(_mm256_castsi256_ps(more)).cast_unsigned() & 0xff;
        }
        for _ in 0..DISTANCE {
            lanes = _mm256_and_si256(lanes, _mm256_add_epi32(lanes, _mm256_set1_epi32(-1)));
        }
        let none = _mm256_cmpeq_epi32(lanes, _mm256_setzero_si256());
        _mm256_movemask_ps(_mm256_castsi256_ps(none)).cast_unsigned()
    }

    /// The ones of each 32-bit lane: those of each nibble by a shuffle, then sums (Mula 2016).
    #[inline]
    #[target_feature(enable = "avx2")]
    fn ones(lanes: __m256i) -> __m256i {
        let nibble = _mm256_set1_epi8(0x0f);
        let counts = _mm256_setr_epi8(
            0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, //
            0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
        );
        let low = _mm256_shuffle_epi8(counts, _mm256_and_si256(lanes, nibble));
        let high = _mm256_and_si256(_mm256_srli_epi16::<4>(lanes), nibble);
        let bytes = _mm256_add_epi8(low, _mm256_shuffle_epi8(counts, high));
        let pairs = _mm256_maddubs_epi16(bytes, _mm256_set1_epi8(1));
        _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::{
        uint8x16_t, vcleq_u8, vcntq_u8, vdupq_n_u8, vdupq_n_u32, veorq_u32, vld1q_u32, vpaddq_u8,
        vreinterpretq_u8_u32,
    };

    use nearprint_fingerprint::neon::mask_of_16;

    use super::{LINE_MORE, Line, LineMatches, Pattern, WORDS_MAX};

    #[target_feature(enable = "neon")]
    pub(super) fn scan(lines: &[Line], at: &[u32], pattern: Pattern, found: &mut LineMatches) {
        let slots = (1_u16 << pattern.slots.min(15)) - 1;
        for (found, &at) in found.lanes.iter_mut().zip(at) {
            let line = &lines[at as usize].0;
            let more = (line[15] >> 16) as u16 & LINE_MORE;
            *found = near(line, pattern.low, pattern.distance) & slots | more;
        }
        found.sum_up(at.len());
    }

    #[target_feature(enable = "neon")]
    pub(super) fn scan_words(words: &[u32], word: u32, distance: u32) -> u64 {
        let words = &words[..words.len().min(WORDS_MAX)];
        let (sixteens, rest) = words.as_chunks::<16>();
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        let there = (1_u16 << rest.len()) - 1;
        let rest = u64::from(near(&last, word, distance) & there);
        sixteens
            .iter()
            .rev()
            .fold(rest, |all, sixteen| all << 16 | u64::from(near(sixteen, word, distance)))
    }

    /// Which words lie within a distance of another one.
    #[inline]
    #[target_feature(enable = "neon")]
    fn near(words: &[u32; 16], other: u32, distance: u32) -> u16 {
        let other = vdupq_n_u32(other);
        let ones = |i: usize| -> uint8x16_t {
            // SAFETY: four of sixteen words are read.
            let four = unsafe { vld1q_u32(words[4 * i..4 * i + 4].as_ptr()) };
            vcntq_u8(vreinterpretq_u8_u32(veorq_u32(four, other)))
        };
        // Sums of neighbouring bytes, twice: the ones of a word in a byte, in the order of words.
        let low = vpaddq_u8(ones(0), ones(1));
        let high = vpaddq_u8(ones(2), ones(3));
        let most = vdupq_n_u8(distance.min(32) as u8);
        mask_of_16(vcleq_u8(vpaddq_u8(low, high), most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Words that are near a pattern, and near the limits of the distance.
    fn words(low: u32) -> impl Strategy<Value = u32> {
        prop_oneof![
            any::<u32>(),
            prop::collection::vec(0..32_u32, 0..10)
                .prop_map(move |flips| flips.iter().fold(low, |word, bit| word ^ 1 << bit)),
            Just(0),
            Just(u32::MAX),
            Just(!low),
        ]
    }

    fn lines_for(low: u32) -> impl Strategy<Value = Vec<Line>> {
        let line = prop::collection::vec(words(low), 16)
            .prop_map(|words| Line(words.try_into().expect("16 words")));
        prop::collection::vec(line, 1..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn every_variant_finds_what_the_definition_finds(
            (low, lines) in prop_oneof![any::<u32>(), Just(0), Just(u32::MAX)]
                .prop_flat_map(|low| (Just(low), lines_for(low))),
            distance in 0..=32_u32,
            slots in 1..=15_u32,
            visits in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let at: Vec<u32> = visits.iter().map(|visit| visit.index(lines.len()) as u32).collect();
            let pattern = Pattern { low, distance, slots };
            let mut expected = LineMatches::default();
            portable(&lines, &at, pattern, &mut expected);
            for simd in Simd::available() {
                let mut found = LineMatches { near: 7, more: 7, ..LineMatches::default() };
                scan(simd, &lines, &at, pattern, &mut found);
                prop_assert_eq!(&found, &expected, "{:?}", simd);
            }
        }
    }

    proptest! {
        #[test]
        fn every_variant_finds_the_words_that_the_definition_finds(
            (word, words) in prop_oneof![any::<u32>(), Just(0), Just(u32::MAX)]
                .prop_flat_map(|word| (Just(word), prop::collection::vec(words(word), 0..80))),
            distance in 0..=64_u32,
            from in 0..20_usize,
        ) {
            let words = &words[from.min(words.len())..];
            for simd in Simd::available() {
                let found = scan_words(simd, words, word, distance);
                prop_assert_eq!(found, portable_words(words, word, distance), "{:?}", simd);
            }
        }
    }

    #[test]
    fn the_definition_of_words_counts_ones_of_the_first_64() {
        let mut words = [u32::MAX; 70];
        (words[3], words[63], words[64]) = (0b1011, 0b11, 0);
        assert_eq!(portable_words(&words, 0, 2), 1 << 63);
        assert_eq!(portable_words(&words, 0, 3), 1 << 63 | 1 << 3);
        assert_eq!(portable_words(&[], 0, 64), 0);
    }

    #[test]
    fn the_definition_counts_ones_and_reports_more() {
        let mut words = [u32::MAX; 16];
        words[1] = 0b111;
        words[2] = 0b1111;
        words[15] = 0;
        let mut with_more = words;
        with_more[15] = MORE;
        let lines = [Line(words), Line(with_more)];
        let mut found = LineMatches::default();
        portable(&lines, &[1, 0, 1], Pattern { low: 0, distance: 3, slots: 15 }, &mut found);
        assert_eq!(found.lanes[..4], [0x8002, 0x0002, 0x8002, 0]);
        assert_eq!((found.near, found.more), (0b111, 0b101));
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn an_index_without_a_line_is_a_bug() {
        let pattern = Pattern { low: 0, distance: 0, slots: 1 };
        scan(Simd::best(), &[], &[0], pattern, &mut LineMatches::default());
    }
}
