//! Commands that read many documents from files.

pub(crate) mod dedup;
pub(crate) mod import;
