//! The kernel: SIMD operations on many lanes at a time. This module and
//! [`crate::index::memory::pages`] are the only ones with `unsafe`.
//!
//! [`scan`] compares the lines of an index with a query, [`permute`] permutes the bits of
//! fingerprints, [`squeeze`] normalises ASCII, [`han`] reads Han characters, and [`text`] hashes
//! short strings and counts their bits. The kernel knows neither index nor recipe: its input is
//! words and bytes, its output is words.
//!
//! Functions have variants for AVX-512, for AVX2 and in plain Rust. The choice is made at run time
//! ([`Simd`]), and the variants are tested against each other on random and adversarial input.
//! `unsafe` is used to call a function that needs an instruction set (after checking that the
//! processor has it), to load and store lanes within a slice, and to prefetch an address (which
//! cannot fault).
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "SIMD and prefetch need it; every block says why it is sound")
)]

pub(crate) mod han;
pub(crate) mod permute;
pub(crate) mod scan;
pub(crate) mod squeeze;
pub(crate) mod text;

use std::sync::LazyLock;

/// An instruction set that the kernel knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Simd {
    /// AVX-512 as Ice Lake and Zen 4 have it, with BMI2.
    Avx512,
    /// AVX2.
    Avx2,
    /// Any processor.
    Portable,
}

impl Simd {
    /// The best that this processor has.
    pub(crate) fn best() -> Self {
        static BEST: LazyLock<Simd> =
            LazyLock::new(|| Simd::available().next().unwrap_or(Simd::Portable));
        *BEST
    }

    /// Every instruction set that this processor has, the best first.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
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

/// Prefetches the cache line of an item. Does nothing useful if there is no such item.
///
/// The target is the second-level cache, not the first: a Zen 4 core can have about 24 misses of
/// the first level in flight, and twice as many of the second (measured: 8.1 ns for a random line
/// with the first level, 4.6 ns with the second).
#[inline]
pub(crate) fn prefetch<T>(items: &[T], at: u32) {
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
    fn any_index_can_be_prefetched() {
        prefetch::<u64>(&[], 0);
        prefetch(&[7_u32], u32::MAX);
    }
}
