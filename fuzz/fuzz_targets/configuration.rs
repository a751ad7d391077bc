//! libFuzzer on `nearprint_fuzz::configuration`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::configuration(bytes));
