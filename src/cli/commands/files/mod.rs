//! The commands that read files of many documents.

pub(crate) mod dedup;
pub(crate) mod import;
pub(crate) mod matching;
mod scanning;

pub(crate) use scanning::SearchRule;
