//! The kernel: operations on many lanes at a time. With [`crate::index::memory::pages`] the only
//! module with `unsafe`.
//!
//! [`scan`] compares the lines of an index with a query, [`permute`] moves the bits of
//! fingerprints, [`squeeze`] normalises ASCII, [`han`] reads Han characters, [`text`] hashes short
//! strings and counts their bits, and [`places`] filters hashes that may have occurred before. The
//! kernel knows neither index nor recipe: words and bytes in, words out.
//!
//! Each function has variants for AVX-512, for AVX2 and in plain Rust, chosen at run time
//! ([`Simd`]) and tested against each other on random and adversarial input. `unsafe` here means:
//! calling a function that needs an instruction set (after asking the processor for it), loading
//! and storing lanes within a slice, and prefetching an address (which cannot fault).
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "SIMD and prefetch need it; every block says why it is sound")
)]

pub mod han;
pub mod permute;
pub mod places;
pub mod scan;
pub mod squeeze;
pub mod text;

use std::sync::LazyLock;

/// An instruction set that the kernel knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Simd {
    /// AVX-512 as Ice Lake and Zen 4 have it, with BMI2.
    Avx512,
    /// AVX2.
    Avx2,
    /// Any processor.
    Portable,
}

impl Simd {
    /// The best that this processor has.
    pub fn best() -> Self {
        static BEST: LazyLock<Simd> =
            LazyLock::new(|| Simd::available().next().unwrap_or(Simd::Portable));
        *BEST
    }

    /// All that this processor has, the best first.
    pub fn available() -> impl Iterator<Item = Self> {
        [Self::Avx512, Self::Avx2, Self::Portable].into_iter().filter(|simd| simd.is_available())
    }

    fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512vbmi")
                    && is_x86_feature_detected!("avx512vbmi2")
                    && is_x86_feature_detected!("avx512vpopcntdq")
                    && is_x86_feature_detected!("avx512bitalg")
                    && is_x86_feature_detected!("bmi2")
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::Avx2 => false,
            Self::Portable => true,
        }
    }
}

/// Prefetches the cache line of an item. Does nothing if there is no such item.
///
/// It prefetches into the second-level cache, not the first: a Zen 4 core can have about 24 misses
/// of the first in flight, and twice as many of the second (measured: 8.1 ns a random line, and
/// 4.6).
#[inline]
pub fn prefetch<T>(items: &[T], at: u32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        let item = items.as_ptr().wrapping_add(at as usize);
        // SAFETY: a prefetch reads nothing and cannot fault, whatever the address; SSE is part of
        // every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(item.cast::<i8>()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, at);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_place_can_be_prefetched() {
        prefetch::<u64>(&[], 0);
        prefetch(&[7_u32], u32::MAX);
    }
}
