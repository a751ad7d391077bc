//! Background work on a view: what to build next, and building it.
//!
//! A full delta becomes a *level*: a segment, and for a large segment also the secondary tables.
//! Segments are merged with segments, and secondary tables with those of their role, independently
//! of each other. No answer changes, so nothing waits for the work and it may finish at any time.
//! The owner of the newest view installs the result ([`View::install`]). Pure: no thread, no clock.

use std::ops::Range;
use std::sync::Arc;

use crate::index::compaction::built::Built;
use crate::index::compaction::merge;
use crate::index::compaction::partition::PartitionedMerge;
use crate::index::levels::delta::Delta;
use crate::index::levels::distinct;
use crate::index::levels::segment::Segment;
use crate::index::permutation::Permuted;
use crate::index::plan::Plans;
use crate::index::tables::secondary::SecondaryTable;
use crate::index::view::View;

/// One piece of background work.
#[derive(Debug)]
pub enum Work {
    /// Builds a level from the oldest full delta.
    Flush {
        /// The delta.
        delta: Arc<Delta>,
        /// All that is older.
        older: Arc<[Arc<Segment>]>,
        /// The index's plans.
        plans: Arc<Plans>,
    },
    /// Merges adjacent segments into one.
    MergeSegments {
        /// Oldest first.
        from: Vec<Arc<Segment>>,
        /// All that is older.
        older: Vec<Arc<Segment>>,
        /// Whether the result is a large segment.
        into_large: bool,
        /// Whether to merge one partition at a time, if the inputs have partitions
        /// ([`crate::index::compaction::partition`]).
        partitioned: bool,
        /// The index's plans.
        plans: Arc<Plans>,
    },
    /// Merges secondary tables of one role into one.
    MergeTables {
        /// Oldest first.
        from: Vec<SecondaryTable>,
        /// Tells which fingerprints have a document; absent if none were dropped.
        liveness: Option<Box<View>>,
        /// The number of fingerprints that all merges of segments have dropped.
        dropped: u64,
        /// As for segments.
        partitioned: bool,
    },
}

/// A table is rebuilt once one in this many of its fingerprints may have been dropped.
const GONE_SHARE: u64 = 8;

impl Work {
    /// The flush of the oldest full delta, if there is one.
    pub fn flush(view: &View) -> Option<Self> {
        let delta = view.full_deltas().first().map(Arc::clone)?;
        let (older, plans) = (Arc::clone(view.segments()), Arc::clone(view.plans()));
        Some(Self::Flush { delta, older, plans })
    }

    /// The next merge, for levels that are at least `ratio` percent as large as all newer ones
    /// together.
    pub fn merge(view: &View, ratio: u64) -> Option<Self> {
        let segments = || Self::merge_segments(view, ratio);
        let tables = || Self::merge_tables(view, ratio);
        // A look-up visits segments and tables alike, so neither list may fall behind the other.
        let large = view.segments().iter().filter(|segment| !segment.sorted().is_small()).count();
        let roles = view.plans().large.tables().len() - 1;
        if view.secondary_tables().len() > (large + 1) * roles {
            tables().or_else(segments)
        } else {
            segments().or_else(tables)
        }
    }

    /// The next merge of the newest segments while a larger merge is running. It takes only
    /// segments newer than those in `apart`, which the larger merge owns, and at most `max`
    /// entries. `ratio` is as in [`Self::merge`].
    pub fn merge_newest(view: &View, apart: &[Arc<Segment>], max: u64, ratio: u64) -> Option<Self> {
        let segments = view.segments();
        let behind = match apart.last() {
            None => 0,
            // If it is missing, the running merge has just installed a step whose result is not in
            // `apart` yet.
            Some(last) => segments.iter().position(|segment| Arc::ptr_eq(segment, last))? + 1,
        };
        let mut sum = 0;
        let fits = |segment: &&Arc<Segment>| {
            sum += merge::size(segment);
            sum <= max
        };
        let newest = segments[behind..].iter().rev().take_while(fits).count();
        let first = segments.len() - newest;
        let sizes: Vec<u64> = segments[first..].iter().map(|s| merge::size(s)).collect();
        let range = merge::choose(&sizes, ratio)?;
        let range = first + range.start..first + range.end;
        let (range, into_large) = merge::run_of_one_kind(view.plans(), segments, range);
        Some(Self::merge_range(view, range, into_large, ratio))
    }

    /// The segments that the result replaces.
    pub fn segments(&self) -> &[Arc<Segment>] {
        match self {
            Self::MergeSegments { from, .. } => from,
            Self::Flush { .. } | Self::MergeTables { .. } => &[],
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
            Self::Flush { delta, older, plans } => {
                let full = delta.at(u32::MAX);
                let level = full.to_level(&plans);
                if let Some(added) = distinct::added_by_full(&older, full) {
                    level.segment.added(|| added);
                }
                Built::Flushed(level)
            }
            Self::MergeSegments { from, older, into_large, plans, .. } => {
                if partitioned
                    && let Some((built, further)) =
                        PartitionedMerge::of_segments(&plans, &from, &older)
                {
                    return (built, Some(further));
                }
                let oldest = older.is_empty();
                let merge::Merged { segment: merged, secondary_tables, dropped } =
                    merge::merge(&plans, &from, into_large, oldest);
                distinct::count_merged(&older, &from, &merged);
                Built::Segments { from, into: vec![merged], secondary_tables, dropped }
            }
            Self::MergeTables { from, liveness, dropped, .. } => {
                let liveness = liveness.as_deref();
                if partitioned
                    && let Some((built, further)) =
                        PartitionedMerge::of_tables(&from, liveness, dropped)
                {
                    return (built, Some(further));
                }
                let tables: Vec<_> = from.iter().map(|other| Arc::clone(&other.table)).collect();
                let is_live = liveness.map(|view| |value| view.has_documents(value));
                let is_live = is_live.as_ref().map(|is_live| is_live as &dyn Fn(Permuted) -> bool);
                let table = Arc::new(merge::merge_tables(&tables, is_live));
                Built::Tables { from, into: vec![SecondaryTable { table, cleaned_at: dropped }] }
            }
        };
        (built, None)
    }

    fn merge_segments(view: &View, ratio: u64) -> Option<Self> {
        let segments = view.segments();
        if let Some(range) = merge::promotable(view.plans(), segments) {
            return Some(Self::merge_range(view, range, true, ratio));
        }
        let sizes: Vec<u64> = segments.iter().map(|s| merge::size(s)).collect();
        let range = merge::choose(&sizes, ratio)?;
        let (mut range, into_large) = merge::run_of_one_kind(view.plans(), segments, range);
        if !merge::is_idle(ratio) {
            range = merge::without_newest(segments, range);
        }
        Some(Self::merge_range(view, range, into_large, ratio))
    }

    fn merge_range(view: &View, range: Range<usize>, into_large: bool, ratio: u64) -> Self {
        let segments = view.segments();
        let (older, from) = (segments[..range.start].to_vec(), segments[range].to_vec());
        let size = from.iter().map(|segment| merge::size(segment)).sum();
        // Small segments are in another order, so they have no partitions.
        let partitioned = view.plans().is_partitioned(size, merge::is_idle(ratio))
            && !from.iter().any(|segment| segment.sorted().is_small());
        Self::MergeSegments {
            from,
            older,
            into_large,
            partitioned,
            plans: Arc::clone(view.plans()),
        }
    }

    fn merge_tables(view: &View, ratio: u64) -> Option<Self> {
        let of_role = |role: usize| {
            view.secondary_tables().iter().filter(move |other| other.table.role() == role)
        };
        (1..view.plans().large.tables().len()).find_map(|role| {
            let sizes: Vec<u64> = of_role(role).map(|other| other.table.len()).collect();
            let gone = |other: &SecondaryTable| {
                let gone = view.dropped() - other.cleaned_at;
                gone > 0 && gone >= other.table.len() / GONE_SHARE
            };
            let range = merge::choose(&sizes, ratio).or_else(|| {
                let at = of_role(role).position(gone)?;
                Some(at..at + 1)
            })?;
            let from = of_role(role).skip(range.start).take(range.len()).cloned();
            let from: Vec<SecondaryTable> = from.collect();
            let size = from.iter().map(|other| other.table.len()).sum();
            let partitioned = view.plans().is_partitioned(size, merge::is_idle(ratio));
            let dropped = view.dropped();
            let gone = view.secondary_tables().iter().any(|other| other.cleaned_at < dropped);
            let liveness = gone.then(|| Box::new(view.without_secondary_tables()));
            Some(Self::MergeTables { from, liveness, dropped, partitioned })
        })
    }
}

/// The steps of one piece of work.
#[derive(Debug)]
pub struct Steps {
    first: Option<Work>,
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

impl View {
    /// Runs a piece of work and installs its results, step by step.
    pub fn complete(&mut self, work: Work) {
        for built in work.steps() {
            self.install(&built);
        }
    }
}
