//! A merge of large segments, a quarter of all keys at a time.
//!
//! A merge needs its result beside its inputs: of a hundred million fingerprints half as much again as all of
//! them. So large segments are taken apart into quarters ([`crate::index::table::quarters`]), each
//! quarter is merged by itself and handed over, upon which those of the inputs go; the four results are
//! one segment in the end. At no time is there more than a quarter of the result too many. In between a
//! look-up visits as many lines as before, in more tables.
//!
//! What stands in the view meanwhile is in the order in which an id's newest document is found first: what
//! is left of each input, and behind it what was merged. An older document of the same id is removed by the
//! change that put the newer one, so that no merge keeps it.

use std::sync::Arc;

use crate::index::distinct;
use crate::index::merge;
use crate::index::plan::Plans;
use crate::index::segment::{Builder, Segment};
use crate::index::table::quarters::QUARTERS;
use crate::index::work::Built;

/// Merges of more fingerprints than so many small segments may have go by quarters: of fewer, the result is
/// little memory.
const SMALL_SEGMENTS: u64 = 8;

/// A merge that is under way.
#[derive(Debug)]
pub struct Quartered {
    /// All that is older than its inputs.
    older: Vec<Arc<Segment>>,
    /// What its last step left in the view.
    standing: Vec<Arc<Segment>>,
    /// For each input, oldest first, the quarters that are not merged yet.
    inputs: Vec<[Option<Arc<Segment>>; QUARTERS]>,
    /// For each quarter that is not merged yet.
    builders: std::array::IntoIter<Builder, QUARTERS>,
    merged: Vec<Arc<Segment>>,
}

impl Quartered {
    /// Begins to merge large segments, oldest first; what its first step builds are their quarters. `None`
    /// where they are few or have none.
    pub fn begin(
        plans: &Plans,
        from: &[Arc<Segment>],
        older: &[Arc<Segment>],
    ) -> Option<(Self, Built)> {
        let size: u64 = from.iter().map(|segment| merge::size(segment)).sum();
        let is_small = from.iter().any(|segment| segment.sorted().is_small());
        if is_small || size < SMALL_SEGMENTS * plans.small_max {
            return None;
        }
        let (_, common) = merge::extent(from);
        let counts = merge::count_rows(plans, from, older.is_empty());
        let builders = Builder::quarters(&counts, common)?.into_iter();
        let quarters = |segment: &Arc<Segment>| Some(segment.in_quarters()?.map(|q| Some(Arc::new(q))));
        let inputs = from.iter().map(quarters).collect::<Option<Vec<_>>>()?;
        let (older, merged) = (older.to_vec(), Vec::new());
        let mut begun = Self { older, standing: from.to_vec(), inputs, builders, merged };
        let built = begun.hand_over(0);
        Some((begun, built))
    }

    /// The view holds from now on what is left of the inputs, and what was merged.
    fn hand_over(&mut self, dropped: u64) -> Built {
        let left = self.inputs.iter().flatten().flatten().chain(&self.merged);
        let into: Vec<_> = left.cloned().collect();
        let from = std::mem::replace(&mut self.standing, into.clone());
        Built::Segments { from, into, others: Vec::new(), dropped }
    }
}

impl Iterator for Quartered {
    type Item = Built;

    fn next(&mut self) -> Option<Built> {
        let Some(builder) = self.builders.next() else {
            let quarters = std::mem::take(&mut self.merged);
            let [a, b, c, d] = &quarters[..] else { return None };
            self.merged = vec![Arc::new(Segment::joined([a, b, c, d]))];
            return Some(self.hand_over(0));
        };
        let quarter = self.merged.len();
        let from: Vec<_> = self.inputs.iter_mut().filter_map(|of| of[quarter].take()).collect();
        let (segment, dropped) = merge::fill(builder, &from, self.older.is_empty());
        let segment = Arc::new(segment);
        distinct::count_merged(&self.older, &from, &segment);
        self.merged.push(segment);
        Some(self.hand_over(dropped))
    }
}
