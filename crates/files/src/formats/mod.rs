//! One reader a format. Each takes a source and yields records.

pub(super) mod array;
mod cell;
pub(super) mod document;
pub(super) mod hex;
pub(super) mod lines;
pub(super) mod parquet;
pub(super) mod table;
pub(super) mod warc;

#[cfg(test)]
mod damage_tests;
