//! Merging sorted runs, one stretch of all runs at a time.
//!
//! A plain k-way merge mispredicts about one branch an entry. So each run is read some hundred
//! items ahead, and the items below the smallest last key of any run form a complete stretch: they
//! are concatenated run by run and sorted by the stable sort of the standard library, which detects
//! the runs and merges them without unpredictable branches.

use crate::plan::Key;

/// A key, and the number of an entry with this key.
pub(crate) type RunItem = (Key, u32);

/// The smallest number of items that a run reads ahead; it reads on once half of them are left.
const AHEAD: usize = 256;

/// Appends the next items of a run; returns whether there were any.
type Read<'a> = dyn FnMut(&mut Vec<RunItem>) -> bool + 'a;

/// A run: items ascending by key.
pub(crate) struct Run<'a> {
    read: Box<Read<'a>>,
    ahead: Vec<RunItem>,
    /// The number of items taken from `ahead`.
    taken: usize,
    ended: bool,
}

impl<'a> Run<'a> {
    /// The run that `read` appends piece by piece; `read` returns false at the end.
    pub(crate) fn new(read: impl FnMut(&mut Vec<RunItem>) -> bool + 'a) -> Self {
        let ahead = Vec::with_capacity(2 * AHEAD);
        Self { read: Box::new(read), ahead, taken: 0, ended: false }
    }

    pub(crate) fn of(mut items: impl Iterator<Item = RunItem> + 'a) -> Self {
        Self::new(move |ahead| {
            items.next().is_some_and(|item| {
                ahead.push(item);
                true
            })
        })
    }

    /// The items that were read and not taken.
    fn left(&self) -> &[RunItem] {
        &self.ahead[self.taken..]
    }

    /// Whether at least `count` items with more than one key are left, or the run has ended.
    fn is_ahead(&self, count: usize) -> bool {
        let left = self.left();
        self.ended || left.len() >= count && left.first().map(key) < left.last().map(key)
    }

    fn read_on(&mut self) {
        if self.is_ahead(AHEAD / 2) {
            return;
        }
        self.ahead.drain(..std::mem::take(&mut self.taken));
        while !self.is_ahead(AHEAD) {
            self.ended = !(self.read)(&mut self.ahead);
        }
    }

    /// The last key that was read, unless the run has ended. Further items may have the same key.
    fn last(&self) -> Option<Key> {
        if self.ended { None } else { self.ahead.last().map(key) }
    }

    fn take_before(&mut self, end: Option<Key>) -> &[RunItem] {
        let left = self.left();
        let count = end.map_or(left.len(), |end| left.partition_point(|item| item.0 < end));
        self.taken += count;
        &self.ahead[self.taken - count..self.taken]
    }
}

/// Calls `each` with the items of all runs, by key, and within a key in the order of the runs: one
/// stretch at a time, which has all items of its keys.
pub(crate) fn each_stretch(mut runs: Vec<Run<'_>>, mut each: impl FnMut(&[RunItem])) {
    let mut stretch = Vec::new();
    loop {
        runs.iter_mut().for_each(Run::read_on);
        let end = runs.iter().filter_map(Run::last).min();
        stretch.clear();
        for run in &mut runs {
            stretch.extend_from_slice(run.take_before(end));
        }
        if stretch.is_empty() {
            return;
        }
        stretch.sort_by_key(key);
        each(&stretch);
    }
}

fn key(item: &RunItem) -> Key {
    item.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stretches_are_all_runs_sorted(
            runs in prop::collection::vec((0..3_000_usize, 1..2_000_u64, 1..9_usize), 0..6),
            seed: u64,
        ) {
            let mut all: Vec<RunItem> = Vec::new();
            let mut sources = Vec::new();
            for &(count, keys, piece) in &runs {
                let random = |i: u64| (seed ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                let mut run: Vec<Key> = (0..count as u64).map(|i| random(i) % keys).collect();
                run.sort_unstable();
                let run: Vec<RunItem> = run.into_iter().zip(all.len() as u32..).collect();
                all.extend(&run);
                let mut pieces = run.into_iter();
                sources.push(if piece == 1 {
                    Run::of(pieces)
                } else {
                    Run::new(move |ahead| {
                        let few: Vec<RunItem> = pieces.by_ref().take(piece).collect();
                        ahead.extend(&few);
                        !few.is_empty()
                    })
                });
            }
            let mut got: Vec<RunItem> = Vec::new();
            each_stretch(sources, |stretch| {
                assert!(got.last().map(key) < stretch.first().map(key), "a key is in one stretch");
                got.extend(stretch);
            });
            // By number, for those come in the order of the runs.
            all.sort_unstable();
            prop_assert_eq!(got, all);
        }
    }
}
