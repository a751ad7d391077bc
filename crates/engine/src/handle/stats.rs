//! The state of the engine in numbers.

use nearprint_index::levels::segment::Segment;
use nearprint_index::plan::Plans;
use nearprint_machine::document::Sequence;

use crate::api::clock;
use crate::api::replies::{SegmentStats, Stats};
use crate::handle::Engine;
use crate::state::memory::memory_stats;

impl Engine {
    /// The number of the last change that readers see.
    pub fn sequence(&self) -> Sequence {
        self.shared.published.load().view.sequence()
    }

    /// Resolves when readers see this change.
    pub async fn reached(&self, sequence: Sequence) {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.sequence() >= sequence {
                return;
            }
            changed.await;
        }
    }

    /// The state in numbers.
    pub fn stats(&self) -> Stats {
        let state = self.shared.published.load_full();
        let view = &state.view;
        let extent = state.records.extent();
        let options = &self.shared.options;
        let clock_ms = clock::now_ms();
        Stats {
            documents: view.documents(),
            namespaces: view.namespaces().len() as u64,
            sequence: view.sequence(),
            distance_max: view.shape().distance_max,
            durability: options.durability,
            recipe: options.recipe,
            segments: view
                .segments()
                .iter()
                .map(|segment| segment_stats(segment, view.plans()))
                .collect(),
            index_file_bytes: view.file_bytes(),
            delta_events: view.deltas().map(|delta| u64::from(delta.length())).sum(),
            memory: memory_stats(view),
            journal_bytes: extent.bytes,
            journal_files: extent.files,
            packs: extent.packs,
            space: **self.shared.space.load(),
            disk: **self.shared.disk.stats.load(),
            last_snapshot: self.shared.snapshots.load().first().cloned(),
            clock_ms,
            clock_behind_ms: view.times().now_ms().saturating_sub(clock_ms),
        }
    }
}

fn segment_stats(segment: &Segment, plans: &Plans) -> SegmentStats {
    SegmentStats {
        documents: segment.documents() as u64,
        fingerprints: segment.fingerprints() as u64,
        bytes: segment.bytes().total() + segment.file_bytes(),
        plan: plans.of_segment(segment.sorted().is_small()).to_string(),
    }
}
