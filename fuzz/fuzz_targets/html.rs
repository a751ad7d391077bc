//! libFuzzer on `nearprint_fuzz::html`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::html(bytes));
