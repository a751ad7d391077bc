//! One piece of background work, which [`crate::compaction::policy`] chose.
//!
//! A full delta becomes a *level*: a segment, and for a large segment also the secondary tables.
//! Segments are merged with segments, and secondary tables with those of their role, independently
//! of each other. No answer changes, so nothing waits for the work, and it may finish at any time.
//! The owner of the newest view installs the result. Pure: no thread, no clock.

use std::sync::Arc;

use crate::compaction::built::Built;
use crate::compaction::merge;
use crate::compaction::merge::Liveness;
use crate::compaction::partition::PartitionedMerge;
use crate::levels::delta::Delta;
use crate::levels::segment::Segment;
use crate::memory::placed::Placement;
use crate::plan::Plans;
use crate::tables::secondary::SecondaryTable;

/// One piece of background work.
#[derive(Debug)]
pub enum CompactionWork {
    /// Builds a level from the oldest full delta.
    Flush {
        /// The delta.
        delta: Arc<Delta>,
        /// The index's plans.
        plans: Arc<Plans>,
    },
    /// Merges adjacent segments into one.
    MergeSegments {
        /// Oldest first.
        from: Vec<Arc<Segment>>,
        /// Whether there are no older segments.
        oldest: bool,
        /// Whether the result is a large segment.
        into_large: bool,
        /// Whether to merge one partition at a time, if the inputs have partitions
        /// ([`crate::compaction::partition`]).
        partitioned: bool,
        /// Where the arrays of the result lie.
        placement: Placement,
        plans: Arc<Plans>,
    },
    /// Merges secondary tables of one role into one.
    MergeTables {
        /// Oldest first.
        from: Vec<SecondaryTable>,
        /// Which fingerprints have a document; `None` if none were dropped.
        liveness: Option<Liveness>,
        /// The number of fingerprints that all merges of segments have dropped.
        dropped: u64,
        /// Whether to merge one partition at a time, as for segments.
        partitioned: bool,
        /// Where the arrays of the result lie.
        placement: Placement,
    },
}

impl CompactionWork {
    /// The segments that the result replaces.
    pub fn segments(&self) -> &[Arc<Segment>] {
        match self {
            Self::MergeSegments { from, .. } => from,
            Self::Flush { .. } | Self::MergeTables { .. } => &[],
        }
    }

    /// The secondary tables that the result replaces.
    pub fn secondary_tables(&self) -> &[SecondaryTable] {
        match self {
            Self::MergeTables { from, .. } => from,
            Self::Flush { .. } | Self::MergeSegments { .. } => &[],
        }
    }

    /// Whether to merge one partition at a time, if the inputs have partitions.
    pub fn is_partitioned(&self) -> bool {
        match *self {
            Self::Flush { .. } => false,
            Self::MergeSegments { partitioned, .. } | Self::MergeTables { partitioned, .. } => {
                partitioned
            }
        }
    }

    /// The bytes that its result may take in files; 0 if it is in memory.
    pub fn file_bytes_max(&self) -> u64 {
        match self {
            Self::MergeSegments { from, placement: Placement::Files(_), .. } => {
                from.iter().map(|s| s.bytes().total() + s.file_bytes()).sum()
            }
            Self::MergeTables { from, placement: Placement::Files(_), .. } => {
                from.iter().map(|o| o.table.bytes() as u64 + o.table.file_bytes()).sum()
            }
            Self::Flush { .. } | Self::MergeSegments { .. } | Self::MergeTables { .. } => 0,
        }
    }

    /// The number of entries that it reads.
    pub fn size(&self) -> u64 {
        match self {
            Self::Flush { delta, .. } => u64::from(delta.len()),
            Self::MergeSegments { from, .. } => from.iter().map(|s| merge::size(s)).sum(),
            Self::MergeTables { from, .. } => from.iter().map(|other| other.table.len()).sum(),
        }
    }

    /// Runs the work step by step. Install the result of a step before asking for the next one.
    /// Most work is one step.
    pub fn steps(self) -> Steps {
        Steps { first: Some(self), further: None }
    }

    fn run(self) -> (Built, Option<PartitionedMerge>) {
        let partitioned = self.is_partitioned();
        let built = match self {
            Self::Flush { delta, plans } => Built::Flushed(delta.at(u32::MAX).to_level(&plans)),
            Self::MergeSegments { from, oldest, into_large, plans, placement, .. } => {
                if partitioned
                    && let Some((built, further)) =
                        PartitionedMerge::of_segments(&plans, &from, oldest)
                {
                    return (built, Some(further));
                }
                let merge::Merged { segment: merged, secondary_tables, dropped } =
                    merge::merge_placed(&placement, &plans, &from, (into_large, oldest));
                Built::Segments { from, into: vec![merged], secondary_tables, dropped }
            }
            Self::MergeTables { from, liveness, dropped, placement, .. } => {
                if partitioned
                    && let Some((built, further)) =
                        PartitionedMerge::of_tables(&from, liveness.as_ref(), dropped)
                {
                    return (built, Some(further));
                }
                let tables: Vec<_> = from.iter().map(|other| Arc::clone(&other.table)).collect();
                let table = Arc::new(merge::merge_tables(&placement, &tables, liveness.as_ref()));
                Built::Tables { from, into: vec![SecondaryTable { table, cleaned_at: dropped }] }
            }
        };
        (built, None)
    }
}

/// The steps of one piece of work.
#[derive(Debug)]
pub struct Steps {
    first: Option<CompactionWork>,
    further: Option<PartitionedMerge>,
}

impl Iterator for Steps {
    type Item = Built;

    fn next(&mut self) -> Option<Built> {
        let Some(work) = self.first.take() else { return self.further.as_mut()?.next() };
        let (built, further) = work.run();
        self.further = further;
        Some(built)
    }
}
