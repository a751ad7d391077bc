//! Opening a data directory: recovery, repair, and commands that work without a service.

pub(crate) mod model;
pub(crate) mod offline;
pub(crate) mod recovery;
pub(crate) mod repair;
