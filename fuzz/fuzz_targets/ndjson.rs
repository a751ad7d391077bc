//! libFuzzer on `nearprint_fuzz::ndjson`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::ndjson(bytes));
