//! libFuzzer on `nearprint_fuzz::json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::json(bytes));
