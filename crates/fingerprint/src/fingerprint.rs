//! The fingerprint and the Hamming distance.
//!
//! A [`Fingerprint`] is 64 bits (Charikar 2002; Manku, Jain, Das Sarma 2007). nearprint-text makes
//! it from a text; this module only writes, reads and compares it.

use std::fmt;
use std::str::FromStr;

/// A 64-bit SimHash fingerprint.
///
/// ```
/// use nearprint_fingerprint::Fingerprint;
/// let one: Fingerprint = "0x0000000000000001".parse()?;
/// assert_eq!(one.to_string(), "0000000000000001");
/// assert_eq!(one.distance(Fingerprint::new(6)).get(), 3);
/// # Ok::<(), nearprint_fingerprint::NotAFingerprint>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// A fingerprint of any 64 bits, such as those that another program has computed.
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// The 64 bits; bit 0 is the least significant.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The number of bits in which the two differ.
    pub const fn distance(self, other: Self) -> Distance {
        Distance((self.0 ^ other.0).count_ones() as u8)
    }
}

/// Sixteen lower-case hex digits, leading zeros kept.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// A text is not a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotAFingerprint;

impl fmt::Display for NotAFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fingerprint is 16 hex digits, with or without 0x")
    }
}

impl std::error::Error for NotAFingerprint {}

/// Sixteen hex digits of either case, with or without `0x`; nothing else.
impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Self, NotAFingerprint> {
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(text);
        if digits.len() != 16 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(NotAFingerprint);
        }
        u64::from_str_radix(digits, 16).map(Self).map_err(|_| NotAFingerprint)
    }
}

/// A Hamming distance between two fingerprints: 0 to 64.
///
/// Look-ups accept at most [`Distance::LOOKUP_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Distance(u8);

impl Distance {
    /// The largest distance an index can be built for.
    pub const LOOKUP_MAX: Self = Self(12);

    /// The distance of two equal fingerprints.
    pub const ZERO: Self = Self(0);

    /// A distance of `bits`; `None` above 64.
    pub const fn new(bits: u8) -> Option<Self> {
        if bits <= 64 { Some(Self(bits)) } else { None }
    }

    /// The distance of this many differing bits; `None` above 64.
    pub const fn counted(ones: u32) -> Option<Self> {
        if ones <= 64 { Some(Self(ones as u8)) } else { None }
    }

    /// The number of differing bits.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Distance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_zeros_are_kept_and_both_cases_and_0x_are_read() {
        for text in ["00000000000000aB", "0x00000000000000ab", "0X00000000000000AB"] {
            let fingerprint: Fingerprint = text.parse().unwrap();
            assert_eq!(fingerprint, Fingerprint::new(0xab));
            assert_eq!(fingerprint.to_string(), "00000000000000ab");
        }
    }

    #[test]
    fn anything_but_sixteen_hex_digits_is_refused() {
        for text in ["", "0x", "ab", "00000000000000ag", "+0000000000000ab", "000000000000000ab"] {
            assert_eq!(text.parse::<Fingerprint>(), Err(NotAFingerprint), "{text:?}");
        }
    }

    #[test]
    fn the_published_distance_example() {
        let (a, b) = (Fingerprint::new(0b0010_1110), Fingerprint::new(0b0000_1111));
        assert_eq!(a.distance(b).get(), 2);
    }
}
