//! Hashes short strings, mixes hashes and counts their bits, many at a time.
//!
//! Plain Rust over arrays, written so that the compiler vectorises it, and compiled once for each
//! instruction set. The hash is XXH3-64 with seed 0, here only for strings of 1 to 8 bytes, where
//! it is a few operations on one word. Tested against the `xxhash-rust` crate, and each variant
//! against the portable one.
#![expect(
    clippy::inline_always,
    reason = "only code inlined into a function with an instruction set may use it"
)]

#[cfg(target_arch = "x86_64")]
mod avx2;

use crate::kernel::Simd;

/// The number of hashes processed at a time; a multiple of [`GROUP`].
pub(crate) const BLOCK: usize = 256;

/// The longest string that is hashed here, in bytes.
pub(crate) const SHORT_MAX: usize = 8;

/// The multiplier of shingles and of their counts.
pub(crate) const SHINGLE_MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// Declares functions with a variant for each instruction set. A variant calls the function of that
/// name in a module that follows the body, or else the body, which the compiler inlines and so
/// compiles with these instructions.
macro_rules! for_each_simd {
    ($($(#[$meta:meta])* $name:ident $([const $constant:ident])? ($($argument:ident: $type:ty),*) =
        $body:ident $(, $avx2:ident)?;)*) => {$(
        $(#[$meta])*
        pub(crate) fn $name $(<const $constant: usize>)? (simd: Simd, $($argument: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(
                enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi1,bmi2,lzcnt,popcnt"
            )]
            fn avx512 $(<const $constant: usize>)? ($($argument: $type),*) {
                $body $(::<$constant>)? ($($argument),*);
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
            fn avx2 $(<const $constant: usize>)? ($($argument: $type),*) {
                own_or!([$($avx2::$name)?] $body $(::<$constant>)? ($($argument),*));
            }
            match simd {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: `Simd::available` has checked that the processor has these instructions.
                Simd::Avx512 => unsafe { avx512 $(::<$constant>)? ($($argument),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Simd::Avx2 => unsafe { avx2 $(::<$constant>)? ($($argument),*) },
                // Every 64-bit Arm has NEON, so that the body is compiled with it: bits are counted
                // in lanes. Hashes stay scalar, because NEON multiplies no lanes of 64 bits, and
                // the six operations on two lanes instead take no less than two scalar products.
                #[cfg(target_arch = "aarch64")]
                Simd::Neon => $body $(::<$constant>)? ($($argument),*),
                Simd::Portable => $body $(::<$constant>)? ($($argument),*),
            }
        }
    )*};
}

/// The call of a function of its own, if there is one, or else that of the body.
#[cfg(target_arch = "x86_64")]
macro_rules! own_or {
    ([] $body:ident $($call:tt)*) => { $body $($call)* };
    ([$($own:tt)+] $body:ident $($call:tt)*) => { $($own)+ $($call)* };
}

for_each_simd! {
    /// Hashes strings of 1 to 8 bytes, each in the low bytes of a word whose other bytes are 0. A
    /// length of 0 leaves its word unchanged, for a hash that was computed elsewhere.
    hash_short(words: &mut [u64], lengths: &[u8]) = hash_short_body, avx2;

    /// Hashes the windows of `WINDOW` (4 to 8) bytes of ASCII text, as many as there are and as fit
    /// into `hashes`.
    hash_windows[const WINDOW](bytes: &[u8], hashes: &mut [u64]) = hash_windows_body, avx2;

    /// Counts for each bit the hashes that have it set.
    count_bits(hashes: &[u64], counts: &mut BitCounts) = count_bits_body;

    /// Adds the counts in the lanes to `ones`.
    empty_lanes(counts: &mut BitCounts) = empty_lanes_body;

    /// The shingle of each hash and the next one: n shingles of n + 1 hashes.
    mix_shingles(hashes: &[u64], shingles: &mut [u64]) = mix_shingles_body, avx2;

    /// Replaces each shingle, which occurred `earlier` times before, by its element.
    mix_elements(shingles: &mut [u64], earlier: &[u32]) = mix_elements_body, avx2;

    /// The codes of a sketch's bins as two planes of bits, 64 bins a word, the low bits first. The
    /// code of a bin with the least value v is 1 + v mod 3; that of an empty bin is 0.
    code_planes(least: &[u32; 64 * PLANE], planes: &mut [u64; 2 * PLANE]) = code_planes_body;
}

/// One bit for each string of a block.
pub(crate) type Marks = [u64; BLOCK / 64];

/// The number of words of a plane of codes.
const PLANE: usize = 8;

/// The value of a bin without an element.
pub(crate) const EMPTY_BIN: u32 = u32::MAX;

/// The bits that the secret of XXH3 flips in strings of 1 to 3 bytes.
const FLIP_1_TO_3: u64 = 0x396c_feb8 ^ 0xbe4b_a423;

/// The bits that it flips in strings of 4 to 8 bytes.
const FLIP_4_TO_8: u64 = 0x1cad_21f7_2c81_017c ^ 0xdb97_9083_e96d_d4de;

/// The multipliers of strings of 1 to 3 bytes, in their order, and that of 4 to 8 bytes.
const MULTIPLIERS_1_TO_3: [u64; 2] = [0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9];
const MULTIPLIER_4_TO_8: u64 = 0x9FB2_1C65_1E98_DF25;

/// The multipliers of [`mix`].
const MIX: [u64; 2] = [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53];

/// XXH3-64 of 4 to 8 bytes, given by the first four and the last four.
#[inline(always)]
const fn hash_4_to_8(first: u64, last: u64, length: u64) -> u64 {
    let mut h = (last | first << 32) ^ FLIP_4_TO_8;
    h ^= h.rotate_left(49) ^ h.rotate_left(24);
    h = h.wrapping_mul(MULTIPLIER_4_TO_8);
    h ^= (h >> 35).wrapping_add(length);
    h = h.wrapping_mul(MULTIPLIER_4_TO_8);
    h ^ h >> 28
}

/// XXH3-64 of 1 to 3 bytes.
#[inline(always)]
const fn hash_1_to_3(word: u64, length: u64) -> u64 {
    let first = word & 0xff;
    let middle = word >> (length >> 1 << 3 & 63) & 0xff;
    let last = word >> (length.wrapping_sub(1) << 3 & 63) & 0xff;
    let mut h = (first << 16 | middle << 24 | last | length << 8) ^ FLIP_1_TO_3;
    h ^= h >> 33;
    h = h.wrapping_mul(MULTIPLIERS_1_TO_3[0]);
    h ^= h >> 29;
    h = h.wrapping_mul(MULTIPLIERS_1_TO_3[1]);
    h ^ h >> 32
}

/// XXH3-64 of the 4 to 8 low bytes of a word.
#[inline(always)]
const fn hash_4_to_8_of(word: u64, length: u64) -> u64 {
    let last = word >> (length.wrapping_sub(4) << 3 & 63);
    hash_4_to_8(word & 0xffff_ffff, last & 0xffff_ffff, length)
}

/// The least and the largest length. In Han text, single characters have three bytes and pairs six,
/// so most blocks need one form. A loop, because a closure that is not inlined cannot use the
/// instructions of its variant.
#[inline(always)]
fn least_and_most(lengths: &[u8]) -> (u8, u8) {
    let (mut least, mut most) = (u8::MAX, 0);
    for &length in lengths {
        least = least.min(length);
        most = most.max(length);
    }
    (least, most)
}

#[inline(always)]
fn hash_short_body(words: &mut [u64], lengths: &[u8]) {
    let each = words.iter_mut().zip(lengths).map(|(word, &length)| (word, u64::from(length)));
    let (least, most) = least_and_most(lengths);
    if least >= 1 && most < 4 {
        for (word, length) in each {
            *word = hash_1_to_3(*word, length);
        }
    } else if least >= 4 {
        for (word, length) in each {
            *word = hash_4_to_8_of(*word, length);
        }
    } else {
        for (word, length) in each {
            let short = if length == 0 { *word } else { hash_1_to_3(*word, length) };
            *word = if length >= 4 { hash_4_to_8_of(*word, length) } else { short };
        }
    }
}

/// The highest bit of each of eight bytes that is an ASCII digit.
const fn highest_of_digits(bytes: u64) -> u64 {
    const fn all(byte: u8) -> u64 {
        u64::from_ne_bytes([byte; 8])
    }
    // A digit is 0 to 9 now, so that its sum with 0x76 stays below 0x80. No sum carries.
    let digits = bytes ^ all(0x30);
    !((digits & all(0x7f)) + all(0x76)) & !digits & all(0x80)
}

/// Whether there is an ASCII digit; for few bytes.
#[inline]
pub(crate) fn has_digit(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk() else { return bytes.iter().any(u8::is_ascii_digit) };
    let (eights, _) = bytes.as_chunks();
    let of_eight = |eight: &[u8; 8]| highest_of_digits(u64::from_le_bytes(*eight));
    eights.iter().fold(of_eight(last), |any, eight| any | of_eight(eight)) != 0
}

/// Which of 64 bytes are ASCII digits: bit b is byte b. A few instructions, so that a variant for
/// each instruction set would not pay.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn digits(bytes: &[u8; 64]) -> u64 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_set1_epi8,
        _mm_sub_epi8,
    };
    let (sixteens, _) = bytes.as_chunks::<16>();
    sixteens.iter().rev().fold(0, |digits, sixteen| {
        // SAFETY: the array has 16 bytes, and every 64-bit x86 has SSE2.
        let mask = unsafe {
            let values =
                _mm_sub_epi8(_mm_loadu_si128(sixteen.as_ptr().cast()), _mm_set1_epi8(0x30));
            _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(values, _mm_set1_epi8(9)), values))
        };
        digits << 16 | u64::from(mask.cast_unsigned())
    })
}

/// The same for other processors.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn digits(bytes: &[u8; 64]) -> u64 {
    digits_of_64(bytes)
}

/// The definition of [`digits`].
#[cfg(any(test, not(target_arch = "x86_64")))]
fn digits_of_64(bytes: &[u8; 64]) -> u64 {
    if bytes.iter().fold(0, |any, byte| any | u8::from(byte.wrapping_sub(b'0') < 10)) == 0 {
        return 0;
    }
    let (eights, _) = bytes.as_chunks();
    // Gathers the highest bits.
    let of_eight = |eight: &[u8; 8]| {
        let highest = highest_of_digits(u64::from_le_bytes(*eight));
        (highest >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
    };
    eights.iter().rev().fold(0, |digits, eight| digits << 8 | of_eight(eight))
}

/// The eight words of four bytes that begin at the first eight of these bytes.
#[inline(always)]
fn words_in(bytes: &[u8; 12]) -> [u64; LANES] {
    let eight =
        |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().expect("eight bytes"));
    let (low, high) = (eight(0), eight(4));
    let mut words = [low, low, low, low, high, high, high, high];
    for (i, word) in words.iter_mut().enumerate() {
        *word = *word >> (8 * (i % 4)) & 0xffff_ffff;
    }
    words
}

#[inline(always)]
fn hash_windows_body<const WINDOW: usize>(bytes: &[u8], hashes: &mut [u64]) {
    const { assert!(WINDOW >= 4 && WINDOW <= SHORT_MAX) };
    // Eight windows at a time are shifted out of two words. The compiler would turn a load at each
    // byte into gathers, which take twice as long as the hashing.
    let (eights, _) = hashes.as_chunks_mut::<LANES>();
    let mut done = 0;
    for (eight, bytes) in eights.iter_mut().zip(bytes.windows(12 + WINDOW - 4).step_by(LANES)) {
        let firsts = words_in(bytes.first_chunk().expect("twelve bytes"));
        let lasts = words_in(bytes.last_chunk().expect("twelve bytes"));
        for (hash, (first, last)) in eight.iter_mut().zip(firsts.into_iter().zip(lasts)) {
            *hash = hash_4_to_8(first, last, WINDOW as u64);
        }
        done += LANES;
    }
    let word = |bytes: &[u8]| u64::from(u32::from_le_bytes(bytes.try_into().expect("four bytes")));
    for (hash, window) in hashes[done..].iter_mut().zip(bytes[done..].windows(WINDOW)) {
        *hash = hash_4_to_8(word(&window[..4]), word(&window[WINDOW - 4..]), WINDOW as u64);
    }
}

/// The final mixing of `MurmurHash3`.
#[inline(always)]
pub(crate) const fn mix(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(MIX[0]);
    h ^= h >> 33;
    h = h.wrapping_mul(MIX[1]);
    h ^ h >> 33
}

/// The shingle of two neighbouring tokens, given by their hashes.
#[inline(always)]
pub(crate) const fn shingle(one: u64, next: u64) -> u64 {
    mix(one.wrapping_mul(SHINGLE_MULTIPLIER).wrapping_add(next))
}

#[inline(always)]
fn mix_shingles_body(hashes: &[u64], shingles: &mut [u64]) {
    let pairs = hashes.iter().zip(hashes.get(1..).unwrap_or_default());
    for (to, (&one, &next)) in shingles.iter_mut().zip(pairs) {
        *to = shingle(one, next);
    }
}

#[inline(always)]
fn mix_elements_body(shingles: &mut [u64], earlier: &[u32]) {
    for (shingle, &earlier) in shingles.iter_mut().zip(earlier) {
        let step = u64::from(earlier).wrapping_mul(SHINGLE_MULTIPLIER);
        *shingle = mix(shingle.wrapping_add(step));
    }
}

#[inline(always)]
fn code_planes_body(least: &[u32; 64 * PLANE], planes: &mut [u64; 2 * PLANE]) {
    let (low, high) = planes.split_at_mut(PLANE);
    let (bins, _) = least.as_chunks::<64>();
    for ((low, high), bins) in low.iter_mut().zip(high).zip(bins) {
        (*low, *high) = (0, 0);
        for (bit, &value) in bins.iter().enumerate() {
            let code = u64::from(if value == EMPTY_BIN { 0 } else { 1 + value % 3 });
            *low |= (code & 1) << bit;
            *high |= (code >> 1) << bit;
        }
    }
}

/// The number of hashes added at a time: sixteen for each lane.
const GROUP: usize = 16 * LANES;

const LANES: usize = 8;

/// The number of binary digits of the counters of a lane.
const DIGITS: usize = 16;

/// The number of groups that the lanes can count without an overflow.
const GROUPS_MAX: u32 = (1 << DIGITS) / 16 - 1;

/// For each bit, the number of hashes that have it set.
///
/// The counters are bit-sliced: word d of a lane has digit d of the counters of all 64 bits, so
/// that bitwise operations on words are 64 additions at once (Harley and Seal's carry-save adders).
/// Each of eight lanes counts every eighth hash.
#[derive(Debug, Clone)]
pub(crate) struct BitCounts {
    digits: [[u64; LANES]; DIGITS],
    /// The number of groups counted in the lanes.
    groups: u32,
    /// The counts that the lanes had when they were emptied.
    ones: [u64; 64],
    total: u64,
}

impl Default for BitCounts {
    fn default() -> Self {
        Self { digits: [[0; LANES]; DIGITS], groups: 0, ones: [0; 64], total: 0 }
    }
}

impl BitCounts {
    /// The number of counted hashes.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// How many of them have each bit set, bit 0 first.
    pub(crate) fn ones(&mut self) -> [u64; 64] {
        empty_lanes(Simd::best(), self);
        self.ones
    }

    /// Adds sixteen hashes to each lane.
    #[inline(always)]
    fn add(&mut self, group: &[u64; GROUP]) {
        let (rows, _) = group.as_chunks::<LANES>();
        for lane in 0..LANES {
            let digits = &mut self.digits;
            let mut low = [digits[0][lane], digits[1][lane], digits[2][lane]];
            let mut d3 = digits[3][lane];
            let (eight, other) =
                (add_eight(&mut low, rows, 0, lane), add_eight(&mut low, rows, 8, lane));
            let mut carry = add_three(&mut d3, eight, other);
            (digits[0][lane], digits[1][lane], digits[2][lane]) = (low[0], low[1], low[2]);
            digits[3][lane] = d3;
            for digit in &mut digits[4..] {
                let sum = digit[lane] ^ carry;
                carry &= digit[lane];
                digit[lane] = sum;
            }
        }
        self.groups += 1;
        if self.groups == GROUPS_MAX {
            empty_lanes_body(self);
        }
    }
}

/// Adds up the lanes in halves, still bit-sliced, so that the bits of only one lane are counted one
/// by one: for a short text this is most of the work.
#[inline(always)]
fn empty_lanes_body(counts: &mut BitCounts) {
    // Each lane counted at most 16 hashes a group.
    let used = (u32::BITS - (16 * counts.groups).leading_zeros()) as usize;
    let mut digits = [[0; LANES]; DIGITS + 3];
    digits[..used].copy_from_slice(&counts.digits[..used]);
    counts.digits[..used].fill([0; LANES]);
    counts.groups = 0;
    add_halves::<4>(&mut digits, used);
    add_halves::<2>(&mut digits, used + 1);
    add_halves::<1>(&mut digits, used + 2);
    for (d, digit) in digits[..used + 3].iter().enumerate() {
        for (bit, ones) in counts.ones.iter_mut().enumerate() {
            *ones = ones.wrapping_add((digit[0] >> bit & 1) << d);
        }
    }
}

/// Adds to each lane the one that is `HALF` lanes further; the sums have a digit more.
#[inline(always)]
fn add_halves<const HALF: usize>(digits: &mut [[u64; LANES]; DIGITS + 3], used: usize) {
    let mut carry = [0; LANES];
    for digit in &mut digits[..used] {
        let further: [u64; LANES] = std::array::from_fn(|lane| digit[(lane + HALF) % LANES]);
        for lane in 0..LANES {
            carry[lane] = add_three(&mut digit[lane], further[lane], carry[lane]);
        }
    }
    digits[used] = carry;
}

/// Adds the hashes of eight rows to the three low digits of a lane; returns the carry. Not a
/// closure, because one that is not inlined cannot use the instructions of its variant.
#[inline(always)]
fn add_eight([d0, d1, d2]: &mut [u64; 3], rows: &[[u64; LANES]], from: usize, lane: usize) -> u64 {
    let row = |i: usize| rows[from + i][lane];
    let twos = [
        add_three(d0, row(0), row(1)),
        add_three(d0, row(2), row(3)),
        add_three(d0, row(4), row(5)),
        add_three(d0, row(6), row(7)),
    ];
    let fours = [add_three(d1, twos[0], twos[1]), add_three(d1, twos[2], twos[3])];
    add_three(d2, fours[0], fours[1])
}

/// Adds two bits to a digit, for 64 counters at once; returns the carry.
#[inline(always)]
const fn add_three(digit: &mut u64, a: u64, b: u64) -> u64 {
    let half = *digit ^ a;
    let carry = *digit & a | half & b;
    *digit = half ^ b;
    carry
}

#[inline(always)]
fn count_bits_body(hashes: &[u64], counts: &mut BitCounts) {
    counts.total += hashes.len() as u64;
    let (groups, rest) = hashes.as_chunks::<GROUP>();
    for group in groups {
        counts.add(group);
    }
    if !rest.is_empty() {
        // Hashes of 0 set no bit.
        let mut last = [0; GROUP];
        last[..rest.len()].copy_from_slice(rest);
        counts.add(&last);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_64;

    use super::*;

    fn word(bytes: &[u8]) -> u64 {
        bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
    }

    proptest! {
        #[test]
        fn short_strings_hash_as_in_xxhash_rust(
            strings in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..=8), 0..70),
        ) {
            let words: Vec<u64> = strings.iter().map(|string| word(string)).collect();
            let lengths: Vec<u8> = strings.iter().map(|string| string.len() as u8).collect();
            let expected: Vec<u64> = strings.iter().map(|string| xxh3_64(string)).collect();
            for simd in Simd::available() {
                let mut hashes = words.clone();
                hash_short(simd, &mut hashes, &lengths);
                prop_assert_eq!(&hashes, &expected, "{:?}", simd);
                hash_short(simd, &mut hashes, &vec![0; lengths.len()]);
                prop_assert_eq!(&hashes, &expected, "{:?}: of length 0", simd);
            }
        }

        #[test]
        fn digits_are_found(bytes in prop::collection::vec(0..=255_u8, 64), at in 0..64_usize) {
            let mut bytes: [u8; 64] = bytes.try_into().unwrap();
            bytes[at] = b'0' + (at % 10) as u8;
            for (at, byte) in bytes.iter().enumerate() {
                prop_assert_eq!(digits(&bytes) >> at & 1 == 1, byte.is_ascii_digit(), "{}", at);
            }
            prop_assert_eq!(digits(&bytes), digits_of_64(&bytes));
            for end in 0..=64 {
                prop_assert_eq!(has_digit(&bytes[..end]), bytes[..end].iter().any(u8::is_ascii_digit));
            }
            prop_assert_eq!(digits(&[bytes[at] ^ 0x40; 64]), 0);
        }

        #[test]
        fn windows_hash_as_in_xxhash_rust(bytes in prop::collection::vec(any::<u8>(), 8..300)) {
            fn check<const WINDOW: usize>(bytes: &[u8]) -> Result<(), TestCaseError> {
                let expected: Vec<u64> = bytes.windows(WINDOW).map(xxh3_64).collect();
                for simd in Simd::available() {
                    let mut hashes = vec![0; expected.len()];
                    hash_windows::<WINDOW>(simd, bytes, &mut hashes);
                    prop_assert_eq!(&hashes, &expected, "{:?}", simd);
                }
                Ok(())
            }
            check::<4>(&bytes)?;
            check::<5>(&bytes)?;
            check::<8>(&bytes)?;
        }

        #[test]
        fn every_bit_is_counted(
            distinct in prop::collection::vec(
                prop_oneof![any::<u64>(), Just(u64::MAX), Just(0)],
                1..9,
            ),
            lengths in prop::collection::vec(0..400_usize, 0..9),
        ) {
            let mut hashes = distinct.iter().copied().cycle();
            let blocks: Vec<Vec<u64>> =
                lengths.iter().map(|&length| hashes.by_ref().take(length).collect()).collect();
            let all = || blocks.iter().flatten();
            let expected: [u64; 64] =
                std::array::from_fn(|bit| all().map(|hash| hash >> bit & 1).sum());
            for simd in Simd::available() {
                let mut counts = BitCounts::default();
                for block in &blocks {
                    count_bits(simd, block, &mut counts);
                }
                prop_assert_eq!(counts.total(), all().count() as u64);
                prop_assert_eq!(counts.ones(), expected, "{:?}", simd);
                prop_assert_eq!(counts.ones(), expected, "{:?}: again", simd);
            }
        }

        #[test]
        fn every_variant_mixes_as_the_definition_does(
            hashes in prop::collection::vec(any::<u64>(), 0..70),
            earlier in prop::collection::vec(any::<u32>(), 70),
        ) {
            let mixed = |simd| {
                let mut shingles = vec![0; hashes.len().saturating_sub(1)];
                mix_shingles(simd, &hashes, &mut shingles);
                let mut elements = shingles.clone();
                mix_elements(simd, &mut elements, &earlier);
                (shingles, elements)
            };
            let (shingles, elements) = mixed(Simd::Portable);
            for (i, shingle) in shingles.into_iter().enumerate() {
                let joined = hashes[i].wrapping_mul(SHINGLE_MULTIPLIER).wrapping_add(hashes[i + 1]);
                prop_assert_eq!(shingle, mix(joined));
                let step = u64::from(earlier[i]).wrapping_mul(SHINGLE_MULTIPLIER);
                prop_assert_eq!(elements[i], mix(shingle.wrapping_add(step)));
            }
            for simd in Simd::available() {
                prop_assert_eq!(mixed(simd), mixed(Simd::Portable), "{:?}", simd);
            }
        }
    }

    #[test]
    fn codes_are_one_more_than_the_remainder_of_three() {
        let mut least = [EMPTY_BIN; 64 * PLANE];
        (least[0], least[1], least[2], least[511]) = (0, 1, 2, u32::MAX - 1);
        for (bin, value) in least.iter_mut().enumerate().take(300).skip(100) {
            *value = (bin as u32).wrapping_mul(0x9e37_79b1);
        }
        for simd in Simd::available() {
            let mut planes = [7; 2 * PLANE];
            code_planes(simd, &least, &mut planes);
            for (bin, &value) in least.iter().enumerate() {
                let bit = |plane: usize| planes[PLANE * plane + bin / 64] >> (bin % 64) & 1;
                let expected = if value == EMPTY_BIN { 0 } else { 1 + u64::from(value % 3) };
                assert_eq!(bit(0) | bit(1) << 1, expected, "{simd:?}: bin {bin}, {value}");
            }
        }
    }

    /// One group more than the lanes can count.
    #[test]
    fn lanes_do_not_overflow() {
        let ones = [u64::MAX; GROUP];
        for simd in Simd::available() {
            let mut counts = BitCounts::default();
            let groups = u64::from(GROUPS_MAX) + 2;
            (0..groups).for_each(|_| count_bits(simd, &ones, &mut counts));
            assert_eq!(counts.ones(), [groups * GROUP as u64; 64], "{simd:?}");
        }
    }
}
