//! Commands that read many documents from files.

mod collection;
pub(crate) mod dedup;
pub(crate) mod import;
