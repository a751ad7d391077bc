//! Random numbers that can be inverted.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The constants of `SplitMix64`, all odd, so that multiplying by one can be undone.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const FIRST: u64 = 0xbf58_476d_1ce4_e5b9;
const SECOND: u64 = 0x94d0_49bb_1331_11eb;

/// A random bijection of the numbers (`SplitMix64`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    base: u64,
}

impl Stream {
    /// The stream for one purpose of a run with a seed.
    pub fn of(purpose: &str, seed: u64) -> Self {
        Self { base: xxh3_64_with_seed(purpose.as_bytes(), seed) }
    }

    /// The number at a place, which follows from seed and place alone.
    pub fn number(self, place: u64) -> u64 {
        let mut z = self.base.wrapping_add(place.wrapping_mul(GOLDEN));
        z = (z ^ (z >> 30)).wrapping_mul(FIRST);
        z = (z ^ (z >> 27)).wrapping_mul(SECOND);
        z ^ (z >> 31)
    }

    /// The place of a number: the inverse of [`Self::number`].
    pub fn place(self, number: u64) -> u64 {
        let mut z = number ^ (number >> 31) ^ (number >> 62);
        z = z.wrapping_mul(const { inverse(SECOND) });
        z = z ^ (z >> 27) ^ (z >> 54);
        z = z.wrapping_mul(const { inverse(FIRST) });
        z = z ^ (z >> 30) ^ (z >> 60);
        z.wrapping_sub(self.base).wrapping_mul(const { inverse(GOLDEN) })
    }
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration. It starts with the three low
/// bits, which every odd number has right, and doubles the number of right bits each time.
const fn inverse(odd: u64) -> u64 {
    let mut x = odd;
    let mut right_bits = 3;
    while right_bits < 64 {
        x = x.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(x)));
        right_bits *= 2;
    }
    x
}
