//! The groups of all documents of a view, by one rule: for `dedup` and the Python package, which
//! fill a view once and search it.

use std::sync::Arc;

use nearprint_fingerprint::{Distance, Threshold};

use super::{EvidenceSource, GroupMember, Groups, PairSearch, SketchJudge};
use crate::compaction::policy::Load;
use crate::document::Sequence;
use crate::permutation::Permutation;
use crate::plan::SMALL_MAX;
use crate::view::{Expired, Selection, Shape, View};
use crate::visibility::Visibility;

/// Changes in a delta. Fingerprints of similar texts often begin with the same bits and share a
/// hash chain, and long deltas make long chains: 2^18 changes make the index of 60,000 texts 0.3 s
/// slower.
pub const DELTA_EVENTS: usize = 1 << 14;

/// Nobody chooses the fingerprints and sees the answers of one search, so it needs no secret.
const SEED: u64 = 1;

/// What counts as a near-duplicate.
#[derive(Debug, Clone, Copy)]
pub struct GroupingCriteria {
    /// The largest distance of two fingerprints.
    pub distance: Distance,
    /// What two sketches must reach; `None` does not compare them.
    pub threshold: Option<Threshold>,
    /// Whether texts are also searched beyond the distance, for what their sketches confirm.
    pub is_likely: bool,
    /// Threads that search.
    pub threads: usize,
}

impl GroupingCriteria {
    /// The groups of at least two documents. The largest comes first; of the same size, the one
    /// with the first document. `source` gives each thread the evidence of documents, `member`
    /// makes what is kept of each; `watch` receives how many pieces of the search are done, and how
    /// many there are, and ends the search by an error.
    ///
    /// # Errors
    /// Those of a source and of `watch`.
    pub fn groups<S: EvidenceSource<Error: Send>, M>(
        self,
        view: &View,
        source: impl Fn() -> S + Sync,
        watch: impl Fn(u64, u64) -> Result<(), S::Error> + Sync,
        member: impl Fn(GroupMember) -> M,
    ) -> Result<Groups<M>, S::Error> {
        let threshold = self.threshold.filter(|_| view.may_have_sketches());
        let mut search = PairSearch::begin(view, all_of(view), self.distance);
        let (pieces, is_likely) = (search.pieces() as u64, self.is_likely && threshold.is_some());
        let all = pieces + if is_likely { PairSearch::LIKELY_PIECES as u64 } else { 0 };
        let judge = || SketchJudge::new(view, Visibility::DEFAULT, threshold, source());
        search.run(self.threads, judge, |done| watch(done, all))?;
        if is_likely {
            search.run_likely(self.threads, judge, |done| watch(pieces + done, all))?;
        }
        search.count_partly_compared(&mut judge())?;
        Ok(search.finish(2, member))
    }
}

/// Every document of a view whose documents do not expire.
pub(super) fn all_of(view: &View) -> Selection {
    Selection {
        namespace: None,
        after: Sequence::ZERO,
        upto: view.sequence(),
        expired: Expired::Not(0),
    }
}

/// The shape of a view that is filled once and then searched.
pub fn shape(distance_max: Distance, has_labels: bool) -> Shape {
    Shape {
        distance_max,
        delta_events: DELTA_EVENTS,
        small_max: SMALL_MAX,
        permutation: Arc::new(Permutation::from_secret(SEED)),
        has_labels,
    }
}

/// Does the background work of a view.
pub fn settle(view: &mut View, load: Load) {
    while let Some(work) = view.next_flush().or_else(|| view.next_merge(load)) {
        view.complete(work);
    }
}
