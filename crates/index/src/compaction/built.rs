//! The results of background work: the parts of a view that are replaced, and their replacement.

use std::sync::Arc;

use crate::levels::level::Level;
use crate::levels::segment::Segment;
use crate::tables::secondary::SecondaryTable;
use crate::tables::table::Table;

/// The result of one step of background work.
#[derive(Debug)]
pub enum Built {
    /// A level, built from a delta.
    Flushed(Level),
    Segments {
        /// The adjacent ones that are replaced.
        from: Vec<Arc<Segment>>,
        /// Their replacement: one segment, or several while a partitioned merge is in progress.
        into: Vec<Arc<Segment>>,
        /// The secondary tables of fingerprints that were in small segments until now, by role.
        secondary_tables: Vec<Arc<Table>>,
        /// The number of dropped fingerprints that secondary tables may still have.
        dropped: u64,
    },
    /// Secondary tables, merged from secondary tables of one role.
    Tables {
        /// The adjacent ones that are replaced.
        from: Vec<SecondaryTable>,
        /// Their replacement: one table, or several while a partitioned merge is in progress.
        into: Vec<SecondaryTable>,
    },
}

impl Built {
    /// The segments that replace merged ones.
    pub fn segments(&self) -> &[Arc<Segment>] {
        match self {
            Self::Segments { into, .. } => into,
            Self::Flushed(_) | Self::Tables { .. } => &[],
        }
    }

    /// The secondary tables that replace merged ones.
    pub fn secondary_tables(&self) -> &[SecondaryTable] {
        match self {
            Self::Tables { into, .. } => into,
            Self::Flushed(_) | Self::Segments { .. } => &[],
        }
    }
}
