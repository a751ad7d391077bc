//! Compares the lines and buckets of an index with a query, 16 lanes at a time.
//!
//! A lane of a line has 32 bits. In a slot it is the low half of an entry's key; the lanes after
//! the slots have other data, and the last one ends in the flags of the line. For each line the
//! kernel returns 16 bits: which slots lie within the distance in the low half, and whether there
//! is more to visit. The found slots are candidates; the caller compares whole fingerprints.
//!
//! There are three variants: AVX-512 with VPOPCNTDQ (four instructions a line), AVX2 (population
//! counts by nibble shuffles), and plain Rust, [`portable`], which defines the others.

use bytemuck::{Pod, Zeroable};

use crate::kernel::Simd;

/// One cache line of a table; [`crate::index::tables::line`] defines its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Line(pub [u32; 16]);

/// The flag in the last word of a line that there is more to visit.
pub(crate) const MORE: u32 = 1 << 31;

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
pub(crate) struct Found {
    /// For each line, bit i is slot i, and bit 15 says that there is more to visit.
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
pub(crate) fn scan(simd: Simd, lines: &[Line], at: &[u32], pattern: Pattern, found: &mut Found) {
    match simd {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Simd::available` has checked that the processor has these instructions.
        Simd::Avx512 => unsafe { x86::scan_avx512(lines, at, pattern, found) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Simd::Avx2 => unsafe { x86::scan_avx2(lines, at, pattern, found) },
        #[cfg(not(target_arch = "x86_64"))]
        Simd::Avx512 | Simd::Avx2 => portable(lines, at, pattern, found),
        Simd::Portable => portable(lines, at, pattern, found),
    }
}

/// The definition.
pub(crate) fn portable(lines: &[Line], at: &[u32], pattern: Pattern, found: &mut Found) {
    (found.near, found.more) = (0, 0);
    for (i, &at) in at.iter().take(SCAN_MAX).enumerate() {
        let line = &lines[at as usize];
        let near = line.0.iter().take(pattern.slots as usize).enumerate().map(|(slot, low)| {
            u16::from((low ^ pattern.low).count_ones() <= pattern.distance) << slot
        });
        let more = u16::from(line.0[15] & MORE != 0) << 15;
        found.note(i, near.fold(more, |all, lane| all | lane));
    }
}

/// Which of these words (the first [`WORDS_MAX`] of them) lie within a distance of `word`: bit i is
/// word i.
#[inline]
pub(crate) fn scan_words(simd: Simd, words: &[u32], word: u32, distance: u32) -> u64 {
    match simd {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Simd::available` has checked that the processor has these instructions.
        Simd::Avx512 => unsafe { x86::scan_words_avx512(words, word, distance) },
        // A bucket has few words, so AVX2 would lose on the remainder what it gains.
        Simd::Avx2 | Simd::Portable => portable_words(words, word, distance),
        #[cfg(not(target_arch = "x86_64"))]
        Simd::Avx512 => portable_words(words, word, distance),
    }
}

/// The definition of [`scan_words`].
pub(crate) fn portable_words(words: &[u32], word: u32, distance: u32) -> u64 {
    let near = words.iter().take(WORDS_MAX).enumerate();
    near.fold(0, |all, (i, other)| all | u64::from((other ^ word).count_ones() <= distance) << i)
}

impl Found {
    #[inline]
    fn note(&mut self, i: usize, lanes: u16) {
        self.lanes[i % SCAN_MAX] = lanes;
        self.near |= u32::from(lanes & 0x7fff != 0) << (i % SCAN_MAX);
        self.more |= u32::from(lanes >> 15) << (i % SCAN_MAX);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[allow(
        clippy::wildcard_imports,
        clippy::allow_attributes,
        reason = "twenty intrinsics, named by Intel"
    )]
    use std::arch::x86_64::*;

    use super::{Found, Line, MORE, Pattern, SCAN_MAX, WORDS_MAX};

    /// For each lane, the bits to flip, those to count, and the largest number of ones.
    ///
    /// In the last lane only the flag counts, flipped, and no ones are accepted: the lane is
    /// accepted if the flag is set. Lanes after the slots are never accepted.
    #[repr(C, align(64))]
    struct Lanes {
        flip: [u32; 16],
        mask: [u32; 16],
        most: [i32; 16],
    }

    impl Lanes {
        fn of(pattern: Pattern) -> Self {
            let mut lanes = Self { flip: [MORE; 16], mask: [MORE; 16], most: [-1; 16] };
            lanes.most[15] = 0;
            for i in 0..pattern.slots.min(15) as usize {
                lanes.flip[i] = pattern.low;
                lanes.mask[i] = u32::MAX;
                lanes.most[i] = pattern.distance.cast_signed();
            }
            lanes
        }
    }

    #[target_feature(enable = "avx512f,avx512vpopcntdq,bmi2")]
    pub(super) fn scan_avx512(lines: &[Line], at: &[u32], pattern: Pattern, found: &mut Found) {
        let slots: u16 = (1 << pattern.slots.min(15)) - 1;
        let flag = _mm512_set1_epi32(MORE.cast_signed());
        let flip = _mm512_mask_set1_epi32(flag, slots, pattern.low.cast_signed());
        let mask = _mm512_mask_set1_epi32(flag, slots, -1);
        let most = _mm512_maskz_set1_epi32(!(1 << 15), -1);
        let most = _mm512_mask_set1_epi32(most, slots, pattern.distance.cast_signed());
        (found.near, found.more) = (0, 0);
        for (i, &at) in at.iter().take(SCAN_MAX).enumerate() {
            let line = &lines[at as usize];
            // SAFETY: a line has 64 bytes and is aligned to 64.
            let line = unsafe { _mm512_load_si512(std::ptr::from_ref(line).cast()) };
            // (line ^ flip) & mask
            let different = _mm512_ternarylogic_epi32::<0x28>(line, flip, mask);
            found.note(i, _mm512_cmple_epi32_mask(_mm512_popcnt_epi32(different), most));
        }
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

    #[target_feature(enable = "avx2")]
    pub(super) fn scan_avx2(lines: &[Line], at: &[u32], pattern: Pattern, found: &mut Found) {
        let lanes = Lanes::of(pattern);
        (found.near, found.more) = (0, 0);
        for (i, &at) in at.iter().take(SCAN_MAX).enumerate() {
            let line = &lines[at as usize].0;
            let taken = |first: usize| {
                let load = |from: *const u32| {
                    // SAFETY: 8 of 16 lanes are read, from an address that is a multiple of 32.
                    unsafe { _mm256_load_si256(from.wrapping_add(first).cast()) }
                };
                let different = _mm256_and_si256(
                    _mm256_xor_si256(load(line.as_ptr()), load(lanes.flip.as_ptr())),
                    load(lanes.mask.as_ptr()),
                );
                let more_than =
                    _mm256_cmpgt_epi32(ones(different), load(lanes.most.as_ptr().cast()));
                let more_than = _mm256_movemask_ps(_mm256_castsi256_ps(more_than));
                !more_than.cast_unsigned() as u16 & 0xff
            };
            found.note(i, taken(0) | taken(8) << 8);
        }
    }

    /// The ones of each 32-bit lane: those of each nibble by a shuffle, then sums (Mula 2016).
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
            let mut expected = Found::default();
            portable(&lines, &at, pattern, &mut expected);
            for simd in Simd::available() {
                let mut found = Found { near: 7, more: 7, ..Found::default() };
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
        let mut found = Found::default();
        portable(&lines, &[1, 0, 1], Pattern { low: 0, distance: 3, slots: 15 }, &mut found);
        assert_eq!(found.lanes[..4], [0x8002, 0x0002, 0x8002, 0]);
        assert_eq!((found.near, found.more), (0b111, 0b101));
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn an_index_without_a_line_is_a_bug() {
        let pattern = Pattern { low: 0, distance: 0, slots: 1 };
        scan(Simd::best(), &[], &[0], pattern, &mut Found::default());
    }
}
