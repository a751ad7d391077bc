//! The commands on one document of a running service: look it up, store it, show it, remove it.
//!
//! They share how a document is named on the command line, the options of look-ups and of writes,
//! and how hits are shown.

pub(crate) mod check;
pub(crate) mod delete;
pub(crate) mod get;
mod hits;
pub(crate) mod insert;
mod options;
pub(crate) mod query;
