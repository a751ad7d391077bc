//! libFuzzer on `nearprint_fuzz::image`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::image(bytes));
