//! The tables of large segments, except those that the segments have themselves.

use std::sync::Arc;

use crate::tables::table::Table;

/// A table of any role but the first.
#[derive(Debug, Clone)]
pub struct SecondaryTable {
    pub table: Arc<Table>,
    /// The number of fingerprints that segments had dropped when this table last dropped them too.
    pub cleaned_at: u64,
}
