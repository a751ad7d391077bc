//! libFuzzer on `nearprint_fuzz::state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::state(bytes));
