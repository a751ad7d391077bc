//! What the NEON variants share: loads, and masks with a bit for each byte of a vector, for which
//! NEON has no instruction.

#![expect(unsafe_code, reason = "a load takes an address")]

use std::arch::aarch64::{
    uint8x16_t, vandq_u8, vgetq_lane_u16, vgetq_lane_u64, vld1q_u8, vpaddq_u8,
    vreinterpretq_u16_u8, vreinterpretq_u64_u8,
};

#[inline]
#[target_feature(enable = "neon")]
pub fn load(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the array has 16 bytes.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

/// The bit of each byte in its half of a mask.
#[inline]
#[target_feature(enable = "neon")]
fn weights() -> uint8x16_t {
    load(&[1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128])
}

/// Bit i is set if byte i is 0xff; the others are 0.
#[inline]
#[target_feature(enable = "neon")]
pub fn mask_of_16(bytes: uint8x16_t) -> u16 {
    let bits = vandq_u8(bytes, weights());
    let pairs = vpaddq_u8(bits, bits);
    let fours = vpaddq_u8(pairs, pairs);
    vgetq_lane_u16::<0>(vreinterpretq_u16_u8(vpaddq_u8(fours, fours)))
}

/// The same of 64 bytes.
#[inline]
#[target_feature(enable = "neon")]
pub fn mask_of_64(bytes: [uint8x16_t; 4]) -> u64 {
    let bits = bytes.map(|bytes| vandq_u8(bytes, weights()));
    let fours = vpaddq_u8(vpaddq_u8(bits[0], bits[1]), vpaddq_u8(bits[2], bits[3]));
    vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(fours, fours)))
}
