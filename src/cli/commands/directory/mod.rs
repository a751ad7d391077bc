//! The commands that change the data directory of a stopped service.

pub(crate) mod promote;
pub(crate) mod reindex;
pub(crate) mod repair;
