//! libFuzzer on `nearprint_fuzz::parquet`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nearprint_fuzz::parquet(bytes));
