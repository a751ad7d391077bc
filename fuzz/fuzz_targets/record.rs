//! libFuzzer on `nearprint_fuzz::record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::record(bytes));
