//! Compares the lines and buckets of an index with a query, 16 lanes at a time.
//!
//! A line has the low halves of the keys of 16 entries. The kernel returns which entries of some
//! runs of entries are near in the low half ([`ScanQuery`]). These are candidates; the caller
//! compares whole fingerprints.
//!
//! There are four variants: AVX-512 with VPOPCNTDQ (four instructions a line); AVX2, which removes
//! ones up to distance 3 and from there on counts them by nibble shuffles; NEON, which counts the
//! ones of bytes; and plain Rust, [`portable`], which defines the others.

use bytemuck::{Pod, Zeroable};

use crate::kernel::Simd;

/// One cache line of a table: the low halves of the keys of 16 entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [u32; LANES]);

/// The entries of a line.
pub(crate) const LANES: usize = 16;

/// Entries that are compared: those of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct CellRun {
    /// The cell of these entries.
    pub(crate) cell: u32,
    /// The first entry.
    pub(crate) first: u32,
    /// The entry after the last one; the first one if there is none.
    pub(crate) end: u32,
}

/// What entries are compared with, and which of them are near.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanQuery {
    /// The low half of the key of the query.
    pub(crate) low: u32,
    /// The cell of the query.
    pub(crate) cell: u32,
    /// The distance within which entries of this cell are near.
    pub(crate) distance: u32,
    /// The distance within which entries of other cells are near: at most `distance`.
    pub(crate) distance_elsewhere: u32,
}

impl ScanQuery {
    /// The distance within which entries of a cell are near.
    #[inline]
    fn distance_in(self, cell: u32) -> u32 {
        if cell == self.cell { self.distance } else { self.distance_elsewhere }
    }
}

/// An entry whose low half is near.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) cell: u32,
    pub(crate) entry: u32,
}

/// The largest number of words of a bucket that a scan compares.
pub(crate) const WORDS_MAX: usize = 64;

/// Appends to `found` the entries of some runs whose low halves are near, in order.
///
/// # Panics
/// If there is no line for an entry.
#[inline]
pub(crate) fn scan(
    simd: Simd,
    lines: &[Line],
    runs: &[CellRun],
    query: ScanQuery,
    found: &mut Vec<Candidate>,
) {
    match simd {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `Simd::available` has checked that the processor has these instructions.
        Simd::Avx512 => unsafe { x86::scan_avx512(lines, runs, query, found) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Simd::Avx2 => unsafe { x86::scan_avx2(lines, runs, query, found) },
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        Simd::Neon => unsafe { arm::scan(lines, runs, query, found) },
        Simd::Portable => portable(lines, runs, query, found),
    }
}

/// Defines what the variants for other instruction sets find.
pub(crate) fn portable(
    lines: &[Line],
    runs: &[CellRun],
    query: ScanQuery,
    found: &mut Vec<Candidate>,
) {
    for &CellRun { cell, first, end } in runs {
        let is_near = |entry: &u32| {
            let word = lines[*entry as usize / LANES].0[*entry as usize % LANES];
            (word ^ query.low).count_ones() <= query.distance_in(cell)
        };
        found.extend((first..end).filter(is_near).map(|entry| Candidate { cell, entry }));
    }
}

/// Appends the entries of a run that are near. `near` returns which entries of a line are;
/// `may_be_near` returns more of them, but is quicker, because it is the same for all runs.
///
/// The first and the last line, which are often the same, are compared in any case: a branch on
/// their number would be mispredicted.
#[inline]
fn of_run(
    run: CellRun,
    found: &mut Vec<Candidate>,
    may_be_near: impl Fn(usize) -> u16,
    near: impl Fn(usize) -> u16,
) {
    let CellRun { cell, first, end } = run;
    if first == end {
        return;
    }
    let last = end.wrapping_sub(1);
    let (line, last_line) = (first / LANES as u32, last / LANES as u32);
    let from = u16::MAX.wrapping_shl(first % LANES as u32);
    let to = u16::MAX.wrapping_shr(!last % LANES as u32);
    let is_one = line == last_line;
    let ones = may_be_near(line as usize) & from & if is_one { to } else { u16::MAX };
    let ones_of_last = may_be_near(last_line as usize) & if is_one { 0 } else { to };
    let mut push = |line: u32, lanes: u16| {
        let ones = near(line as usize) & lanes;
        if ones != 0 {
            push_ones(ones, (cell, line), found);
        }
    };
    if last_line.wrapping_sub(line) > 1 {
        push(line, ones);
        (line.wrapping_add(1)..last_line).for_each(|line| push(line, u16::MAX));
        push(last_line, ones_of_last);
    } else if ones | ones_of_last != 0 {
        push(line, ones);
        push(last_line, ones_of_last);
    }
}

/// Rare, and kept apart so that the loop around it stays in registers.
#[cold]
#[inline(never)]
fn push_ones(mut lanes: u16, (cell, line): (u32, u32), found: &mut Vec<Candidate>) {
    while lanes != 0 {
        let entry = line.wrapping_mul(LANES as u32).wrapping_add(lanes.trailing_zeros());
        found.push(Candidate { cell, entry });
        lanes &= lanes.wrapping_sub(1);
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

#[cfg(target_arch = "x86_64")]
mod x86 {
    #[allow(
        clippy::wildcard_imports,
        clippy::allow_attributes,
        reason = "thirty intrinsics, named by Intel"
    )]
    use std::arch::x86_64::*;

    use super::{Candidate, CellRun, Line, ScanQuery, WORDS_MAX, of_run};

    #[target_feature(enable = "avx512f,avx512vpopcntdq,bmi1,bmi2")]
    pub(super) fn scan_avx512(
        lines: &[Line],
        runs: &[CellRun],
        query: ScanQuery,
        found: &mut Vec<Candidate>,
    ) {
        let low = _mm512_set1_epi32(query.low.cast_signed());
        let within = |line: usize, most| {
            // SAFETY: a line has 64 bytes and is aligned to 64.
            let line = unsafe { _mm512_load_si512(std::ptr::from_ref(&lines[line]).cast()) };
            let ones = _mm512_popcnt_epi32(_mm512_xor_si512(line, low));
            _mm512_cmple_epu32_mask(ones, most)
        };
        let most = _mm512_set1_epi32(query.distance.cast_signed());
        for &run in runs {
            let most_here = || _mm512_set1_epi32(query.distance_in(run.cell).cast_signed());
            of_run(run, found, |line| within(line, most), |line| within(line, most_here()));
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

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    pub(super) fn scan_avx2(
        lines: &[Line],
        runs: &[CellRun],
        query: ScanQuery,
        found: &mut Vec<Candidate>,
    ) {
        match query.distance {
            0 => scan_within::<0>(lines, runs, query, found),
            1 => scan_within::<1>(lines, runs, query, found),
            2 => scan_within::<2>(lines, runs, query, found),
            3 => scan_within::<3>(lines, runs, query, found),
            _ => scan_within::<COUNTED>(lines, runs, query, found),
        }
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn scan_within<const DISTANCE: u32>(
        lines: &[Line],
        runs: &[CellRun],
        query: ScanQuery,
        found: &mut Vec<Candidate>,
    ) {
        let low = _mm256_set1_epi32(query.low.cast_signed());
        let most = _mm256_set1_epi32(query.distance.min(32).cast_signed());
        for &run in runs {
            let most_here = || {
                let most = query.distance_in(run.cell).min(32);
                _mm256_set1_epi32(most.cast_signed())
            };
            of_run(
                run,
                found,
                |line| line_within::<DISTANCE>(&lines[line], low, most),
                |line| line_within::<COUNTED>(&lines[line], low, most_here()),
            );
        }
    }

    /// Which entries of a line are within a distance: `DISTANCE`, or `most` if that is [`COUNTED`].
    #[inline]
    #[target_feature(enable = "avx2")]
    fn line_within<const DISTANCE: u32>(line: &Line, low: __m256i, most: __m256i) -> u16 {
        // SAFETY: a line has 64 bytes and is aligned to 64.
        let (first, second) = unsafe {
            let line: *const __m256i = line.0.as_ptr().cast();
            (_mm256_load_si256(line), _mm256_load_si256(line.add(1)))
        };
        let near = near::<DISTANCE>(_mm256_xor_si256(first, low), most)
            | near::<DISTANCE>(_mm256_xor_si256(second, low), most) << 8;
        near as u16
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

    use super::{Candidate, CellRun, Line, ScanQuery, WORDS_MAX, of_run};

    #[target_feature(enable = "neon")]
    pub(super) fn scan(
        lines: &[Line],
        runs: &[CellRun],
        query: ScanQuery,
        found: &mut Vec<Candidate>,
    ) {
        for &run in runs {
            let within = |line: usize, distance| near(&lines[line].0, query.low, distance);
            let here = query.distance_in(run.cell);
            of_run(run, found, |line| within(line, query.distance), |line| within(line, here));
        }
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
            distances in (0..=64_u32).prop_flat_map(|most| (Just(most), 0..=most)),
            own_cell in 0..40_u32,
            runs in prop::collection::vec((any::<prop::sample::Index>(), 0..50_u32), 0..40),
        ) {
            let entries = (lines.len() * LANES) as u32;
            let run = |(cell, (first, more)): (u32, &(prop::sample::Index, u32))| {
                let first = first.index(entries as usize) as u32;
                CellRun { cell, first, end: (first + more).min(entries) }
            };
            let runs: Vec<CellRun> = (0..).zip(&runs).map(run).collect();
            let (distance, distance_elsewhere) = distances;
            let query = ScanQuery { low, cell: own_cell, distance, distance_elsewhere };
            let before = Candidate { cell: 7, entry: 7 };
            let mut expected = vec![before];
            portable(&lines, &runs, query, &mut expected);
            for simd in Simd::available() {
                let mut found = vec![before];
                scan(simd, &lines, &runs, query, &mut found);
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
    fn the_definition_counts_the_ones_of_the_entries_of_runs() {
        let mut words = [u32::MAX; LANES];
        (words[1], words[2], words[15]) = (0b111, 0b1111, 0);
        let lines = [Line([u32::MAX; LANES]), Line(words)];
        let mut found = Vec::new();
        let run = |cell, first, end| CellRun { cell, first, end };
        let runs = [run(1, 0, 32), run(2, 3, 17), run(3, 17, 31), run(4, 31, 32), run(5, 32, 32)];
        let query = ScanQuery { low: 0, cell: 3, distance: 3, distance_elsewhere: 2 };
        portable(&lines, &runs, query, &mut found);
        let found: Vec<(u32, u32)> = found.iter().map(|found| (found.cell, found.entry)).collect();
        assert_eq!(found, [(1, 31), (3, 17), (4, 31)]);
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn an_entry_without_a_line_is_a_bug() {
        let run = CellRun { cell: 0, first: 0, end: 1 };
        let query = ScanQuery { low: 0, cell: 0, distance: 0, distance_elsewhere: 0 };
        scan(Simd::best(), &[], &[run], query, &mut Vec::new());
    }
}
