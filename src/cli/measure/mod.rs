//! Measuring this machine: `plan` says what an index costs here, and the benchmark program
//! (`bench/`) prints the same next to its figures.

pub mod arguments;
pub mod clock;
pub mod limits;
pub mod numbers;
pub mod process;
pub mod progress;
pub mod random;
