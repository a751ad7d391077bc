//! The commands on what a running service has stored: they list it, and make the service forget it.

pub(crate) mod export;
pub(crate) mod groups;
pub(crate) mod jobs;
pub(crate) mod list;
pub(crate) mod namespaces;
pub(crate) mod originals;
pub(crate) mod purge;
mod rows;
mod selection;
pub(crate) mod stats;
