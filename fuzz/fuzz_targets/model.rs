//! libFuzzer on `nearprint_fuzz::model`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::model(bytes));
