//! libFuzzer on `nearprint_fuzz::charset`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::charset(bytes));
