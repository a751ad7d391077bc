//! libFuzzer on `nearprint_fuzz::sealed`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::sealed(bytes));
