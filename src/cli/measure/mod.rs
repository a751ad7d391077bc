//! Measures the memory of this machine for `plan`, and formats figures and times. The benchmark
//! program (`bench/`) prints the same figures next to its own.

pub mod arguments;
pub mod limits;
pub mod numbers;
pub(crate) mod times;
