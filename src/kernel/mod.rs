//! The kernel: SIMD operations on many lanes at a time. This module and
//! [`crate::index::memory::pages`] are the only ones with `unsafe`.
//!
//! [`scan`] compares the lines of an index with a query, [`permute`] permutes the bits of
//! fingerprints, [`squeeze`] normalises ASCII, [`han`] reads Han characters, and [`text`] hashes
//! short strings and counts their bits. The kernel knows neither index nor recipe: its input is
//! words and bytes, its output is words.
//!
//! Functions have variants for AVX-512, for AVX2, for NEON (on a 64-bit Arm) and in plain Rust. The
//! choice is made at run time ([`Simd`]), and each variant that the processor has is tested against
//! plain Rust on random and adversarial input.
//! `unsafe` is used to call a function that needs an instruction set (after checking that the
//! processor has it), to load and store lanes within a slice, and to prefetch an address (which
//! cannot fault).
#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    expect(unsafe_code, reason = "SIMD and prefetch need it; every block says why it is sound")
)]

pub(crate) mod han;
pub(crate) mod permute;
pub(crate) mod scan;
pub(crate) mod squeeze;
pub(crate) mod text;

pub(crate) use nearprint_fingerprint::{Simd, prefetch};
