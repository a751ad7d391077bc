//! libFuzzer on `nearprint_fuzz::export`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::export(bytes));
