//! Which SIMD instructions a processor has, and how it prefetches memory.
//!
//! The loops themselves are where they are used: those that compare index lines in nearprint-index,
//! those that read text in nearprint-text. Each has variants for AVX-512, for AVX2, for NEON (on a
//! 64-bit Arm) and in plain Rust, and chooses one at run time by [`Simd::best`].
#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    expect(unsafe_code, reason = "a prefetch takes an address")
)]

use std::sync::LazyLock;

/// An instruction set that loops have a variant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Simd {
    /// AVX-512 as Ice Lake and Zen 4 have it, with BMI2.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX2, with the bit operations that every processor with AVX2 from Intel and AMD has.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// NEON, which every 64-bit Arm has.
    #[cfg(target_arch = "aarch64")]
    Neon,
    /// Plain Rust, for any processor.
    Portable,
}

/// The variable that names the best instruction set to use, to measure and test the others.
const LIMIT_VARIABLE: &str = "NEARPRINT_TEST_SIMD";

/// The name of the instruction set in use, as `NEARPRINT_TEST_SIMD` takes it.
pub fn instruction_set() -> &'static str {
    Simd::best().name()
}

impl Simd {
    /// Every instruction set, the best first.
    const ALL: &[Self] = &[
        #[cfg(target_arch = "x86_64")]
        Self::Avx512,
        #[cfg(target_arch = "x86_64")]
        Self::Avx2,
        #[cfg(target_arch = "aarch64")]
        Self::Neon,
        Self::Portable,
    ];

    /// The best that this processor has, or the one that `NEARPRINT_TEST_SIMD` names.
    ///
    /// # Panics
    /// If the variable names none that this processor has.
    #[inline]
    pub fn best() -> Self {
        static BEST: LazyLock<Simd> =
            LazyLock::new(|| Simd::named(std::env::var_os(LIMIT_VARIABLE).as_deref()));
        *BEST
    }

    fn named(name: Option<&std::ffi::OsStr>) -> Self {
        let asked = |simd: &Self| name.is_none_or(|name| name == simd.name());
        Self::available().find(asked).unwrap_or_else(|| {
            let names: Vec<&str> = Self::available().map(Self::name).collect();
            panic!("{LIMIT_VARIABLE} must be one of {}", names.join(", "))
        })
    }

    const fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "aarch64")]
            Self::Neon => "neon",
            Self::Portable => "portable",
        }
    }

    /// Every instruction set that this processor has, the best first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.iter().copied().filter(|simd| simd.is_available())
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
                    && Self::Avx2.is_available()
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("bmi1")
                    && is_x86_feature_detected!("bmi2")
                    && is_x86_feature_detected!("lzcnt")
                    && is_x86_feature_detected!("popcnt")
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
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
pub fn prefetch<T>(items: &[T], at: u32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        let item = items.as_ptr().wrapping_add(at as usize);
        // SAFETY: a prefetch reads nothing and cannot fault, whatever the address; SSE is part of
        // every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(item.cast::<i8>()) };
    }
    #[cfg(target_arch = "aarch64")]
    {
        let item = items.as_ptr().wrapping_add(at as usize);
        // SAFETY: a prefetch changes no memory and no register, and cannot fault.
        unsafe {
            std::arch::asm!(
                "prfm pldl2keep, [{item}]",
                item = in(reg) item,
                options(nostack, preserves_flags, readonly)
            );
        }
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
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
