//! Merging: which segments and tables are merged next, and how.
//!
//! [`merge`] chooses and merges, [`work`] is a step of background work on a view, [`partition`] merges large
//! inputs in parts.

pub mod built;
pub mod entries;
pub mod merge;
pub mod partition;
pub mod runs;
pub mod work;
