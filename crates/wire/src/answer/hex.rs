//! Fingerprints and request ids in replies.

use std::borrow::Cow;
use std::fmt;

use nearprint_fingerprint::Fingerprint;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A fingerprint in a reply: a string of 16 lower-case hex digits, because a JavaScript client
/// would lose bits of a number above 2^53.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^[0-9a-f]{16}$", example = "5f3a8c1e90b7d264"))]
pub struct Hex(pub u64);

impl From<Fingerprint> for Hex {
    fn from(fingerprint: Fingerprint) -> Self {
        Self(fingerprint.bits())
    }
}

impl Hex {
    /// The 16 digits, in ASCII.
    pub fn digits(self) -> [u8; 16] {
        let mut digits = [0; 16];
        for (digit, shift) in digits.iter_mut().zip((0..16_u32).rev()) {
            let nibble = (self.0 >> shift.wrapping_mul(4) & 0xf) as u8;
            *digit = match nibble {
                0..=9 => nibble.wrapping_add(b'0'),
                _ => nibble.wrapping_add(b'a' - 10),
            };
        }
        digits
    }
}

impl fmt::Display for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let digits = Cow::<str>::deserialize(deserializer)?;
        u64::from_str_radix(&digits, 16).map(Self).map_err(D::Error::custom)
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digits = self.digits();
        serializer.serialize_str(std::str::from_utf8(&digits).expect("hex digits are ASCII"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_goes_out_as_sixteen_digits_in_a_string() {
        let json = |bits| serde_json::to_string(&Hex(bits)).unwrap();
        assert_eq!(json(1), "\"0000000000000001\"");
        assert_eq!(json(u64::MAX), "\"ffffffffffffffff\"");
        assert_eq!(json(0x0123_4567_89ab_cdef), "\"0123456789abcdef\"");
        let read: Hex = serde_json::from_str(&json(0x0123_4567_89ab_cdef)).unwrap();
        assert_eq!(read.to_string(), "0123456789abcdef");
    }
}
