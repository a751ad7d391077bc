//! libFuzzer on `nearprint_fuzz::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::message(bytes));
