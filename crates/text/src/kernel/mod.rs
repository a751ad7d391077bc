//! The loops over text that use SIMD instructions: [`squeeze`] normalises ASCII, [`han`] reads Han
//! characters, and [`text`] hashes short strings and counts their bits.
//!
//! Functions have variants for AVX-512, for AVX2, for NEON (on a 64-bit Arm) and in plain Rust. The
//! choice is made at run time ([`Simd`]), and each variant that the processor has is tested against
//! plain Rust on random and adversarial input. `unsafe` is used to call a function that needs an
//! instruction set (after checking that the processor has it), and to load and store lanes within a
//! slice.
#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    expect(unsafe_code, reason = "SIMD needs it; every block says why it is sound")
)]

pub(crate) mod han;
pub(crate) mod squeeze;
pub(crate) mod text;

pub(crate) use nearprint_fingerprint::{Simd, prefetch};
