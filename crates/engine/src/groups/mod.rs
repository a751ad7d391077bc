//! Groups of near-duplicates: jobs that find them, and what they found.
//!
//! A job reads one published view off the writer and the async threads, at low priority
//! ([`crate::background::groups`]); jobs run one at a time. It changes nothing, so it is not
//! journaled: jobs and their results are in memory only, and a restart begins without any.

pub(crate) mod board;
pub(crate) mod judge;
pub(crate) mod pages;
