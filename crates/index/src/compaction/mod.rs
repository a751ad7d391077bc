//! Compaction: which segments and tables are merged next, and how.
//!
//! [`policy`] chooses, [`work`] is one piece of background work, [`merge`] merges, and [`built`] is
//! the result. [`partition`] merges large inputs one partition of the keys at a time. [`entries`]
//! brings the entries of several segments into one order, and [`numbers`] remembers where their
//! documents went.

pub mod built;
pub(crate) mod entries;
pub mod merge;
pub(crate) mod numbers;
pub(crate) mod partition;
pub mod policy;
pub(crate) mod ranks;
pub mod work;
