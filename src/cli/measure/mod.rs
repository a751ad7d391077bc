//! Reads and formats figures and times, for the commands and for the benchmark program (`bench/`).

pub mod arguments;
pub mod numbers;
pub(crate) mod times;
