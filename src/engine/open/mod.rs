//! Opening a data directory: recovery, repair, and commands that work without a service.

pub mod offline;
pub mod recovery;
pub mod repair;
