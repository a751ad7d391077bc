//! libFuzzer on `nearprint_fuzz::journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::journal(bytes));
