//! The background work on a view: what the compaction policy chooses, with the parts that it needs.

use std::sync::Arc;

use super::View;
use crate::compaction::merge::{self, Liveness};
use crate::compaction::policy::{self, LevelSizes, Load, Merge, SegmentSize, TableSize};
use crate::compaction::work::CompactionWork;
use crate::levels::segment::Segment;
use crate::memory::placed::Placement;
use crate::tables::secondary::SecondaryTable;

impl View {
    /// The flush of the oldest full delta, if there is one.
    pub fn next_flush(&self) -> Option<CompactionWork> {
        let delta = self.full_deltas().first().map(Arc::clone)?;
        Some(CompactionWork::Flush { delta, plans: Arc::clone(&self.plans) })
    }

    pub fn next_merge(&self, load: Load) -> Option<CompactionWork> {
        policy::next(&self.sizes(), load).map(|merge| self.work(merge))
    }

    /// The next merge towards one segment and one table of each role.
    #[cfg(test)]
    pub fn next_merge_towards_one(&self) -> Option<CompactionWork> {
        policy::next_towards_one(&self.sizes()).map(|merge| self.work(merge))
    }

    /// The next merge of the newest segments among themselves. `running` has the segments that a
    /// running merge owns, if one is running.
    pub fn next_merge_of_newest(
        &self,
        running: Option<&[Arc<Segment>]>,
        load: Load,
    ) -> Option<CompactionWork> {
        let free = match running {
            None => None,
            Some([]) => Some(0),
            // If it is missing, the running merge has just installed a step whose result is not in
            // the list yet.
            Some([.., last]) => {
                Some(self.segments.iter().position(|segment| Arc::ptr_eq(segment, last))? + 1)
            }
        };
        policy::next_of_newest(&self.sizes(), free, load).map(|merge| self.work(merge))
    }

    /// The sizes for the compaction policy.
    pub fn sizes(&self) -> LevelSizes {
        let segment = |segment: &Arc<Segment>| SegmentSize {
            entries: merge::size(segment),
            fingerprints: segment.fingerprints() as u64,
            is_small: segment.sorted().is_small(),
        };
        let table = |secondary: &SecondaryTable| TableSize {
            entries: secondary.table.len(),
            dropped: self.dropped - secondary.cleaned_at,
        };
        let of_role = |role| self.tables_of(role).map(table).collect();
        LevelSizes {
            segments: self.segments.iter().map(segment).collect(),
            tables: (1..self.plans.large.tables().len()).map(of_role).collect(),
            small_max: self.plans.small_max,
        }
    }

    /// Turns full deltas into segments, and runs the merges that are due then: for a program that
    /// has no threads for that. It takes milliseconds once in so many changes as fill a delta, and
    /// seconds where tens of millions of documents are merged.
    pub fn flush_and_merge(&mut self) {
        while let Some(work) = self.next_flush() {
            self.complete(work);
            while let Some(work) = self.next_merge(Load::Writing) {
                self.complete(work);
            }
        }
    }

    /// Runs a piece of work and installs its results, step by step.
    pub fn complete(&mut self, work: CompactionWork) {
        for built in work.steps() {
            self.install(&built);
        }
    }

    fn work(&self, merge: Merge) -> CompactionWork {
        match merge {
            Merge::Segments { range, into_large, partitioned } => {
                let (oldest, from) = (range.start == 0, self.segments[range].to_vec());
                let is_large = from.iter().all(|segment| !segment.sorted().is_small());
                let in_files = from.iter().any(|segment| segment.is_in_files())
                    || is_large && self.exceeds_memory();
                CompactionWork::MergeSegments {
                    oldest,
                    from,
                    into_large,
                    partitioned: partitioned && !in_files,
                    placement: self.placement_of_merge(in_files),
                    plans: Arc::clone(&self.plans),
                }
            }
            Merge::Tables { role, range, partitioned } => {
                let from = self.tables_of(role).skip(range.start).take(range.len());
                let from: Vec<SecondaryTable> = from.cloned().collect();
                let in_files =
                    from.iter().any(|other| other.table.file_bytes() > 0) || self.exceeds_memory();
                let dropped = self.dropped;
                let is_stale = self.secondary_tables.iter().any(|table| table.cleaned_at < dropped);
                let liveness = is_stale.then(|| {
                    let view = Arc::new(Self { secondary_tables: [].into(), ..self.clone() });
                    let next = Arc::clone(&view);
                    Liveness {
                        is_live: Arc::new(move |value| view.has_any_documents(value)),
                        prefetch: Arc::new(move |values| next.will_need_documents(values)),
                    }
                });
                CompactionWork::MergeTables {
                    from,
                    liveness,
                    dropped,
                    partitioned: partitioned && !in_files,
                    placement: self.placement_of_merge(in_files),
                }
            }
        }
    }

    /// What is merged from files stays in files, and what has no room in memory goes there.
    fn placement_of_merge(&self, in_files: bool) -> Placement {
        if in_files { self.placement.clone() } else { Placement::Memory }
    }

    fn tables_of(&self, role: usize) -> impl Iterator<Item = &SecondaryTable> {
        self.secondary_tables.iter().filter(move |secondary| secondary.table.role() == role)
    }
}
