//! The results of background work: what takes the place of which parts of a view.

use std::sync::Arc;

use crate::index::levels::level::Level;
use crate::index::levels::segment::Segment;
use crate::index::tables::secondary::SecondaryTable;
use crate::index::tables::table::Table;

/// What was built.
#[derive(Debug)]
pub enum Built {
    /// Of a delta.
    Flushed(Level),
    /// Of segments.
    Segments {
        /// What they take the place of, adjacent ones.
        from: Vec<Arc<Segment>>,
        /// The segments: one, or what stands in between where it is merged by quarters.
        into: Vec<Arc<Segment>>,
        /// Tables of what was in small segments until now, by role.
        secondary_tables: Vec<Arc<Table>>,
        /// How many fingerprints went, of which other tables may still have entries.
        dropped: u64,
    },
    /// Of tables.
    Tables {
        /// What they take the place of, adjacent ones.
        from: Vec<SecondaryTable>,
        /// The tables: one, or what stands in between where it is merged by quarters.
        into: Vec<SecondaryTable>,
    },
}

impl Built {
    /// The segments that came of segments.
    pub fn segments(&self) -> &[Arc<Segment>] {
        match self {
            Self::Segments { into, .. } => into,
            Self::Flushed(_) | Self::Tables { .. } => &[],
        }
    }
}
