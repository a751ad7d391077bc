//! Merging: which segments and tables are merged next, and how.
//!
//! [`merge`] chooses and merges, [`work`] is a step of background work on a view, [`quartered`] merges large
//! inputs in parts.

pub mod built;
pub mod merge;
pub mod quartered;
pub mod runs;
pub mod sayings;
pub mod work;
