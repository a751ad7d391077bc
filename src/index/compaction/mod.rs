//! Compaction: which segments and tables are merged next, and how.
//!
//! [`merge`] chooses and merges, [`work`] is one piece of background work on a view, [`built`] its
//! result. [`partition`] merges large inputs one partition of the keys at a time. [`entries`] and
//! [`runs`] bring the entries of several segments into one order.

pub mod built;
pub mod entries;
pub mod merge;
pub mod partition;
pub mod runs;
pub mod work;
