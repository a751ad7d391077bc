//! From a directory to a running engine: its identity, recovery, repair, and what works without a service.

pub mod offline;
pub mod recovery;
pub mod repair;
