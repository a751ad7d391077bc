//! Runs: long pieces of lists in the order of age, kept for the pages that come next.
//!
//! The index is sorted by fingerprint, and knows namespaces by their hash, so the order of age
//! takes a pass over everything in memory. A pass finds a run of up to [`RUN_MAX`] items. The run
//! then serves the pages and streams of all clients, so that a page costs its own length.
//!
//! A run serves the state that it was made from and all later ones: numbers are not given twice,
//! what is stored later comes after all runs, and its readers leave out what was removed since. It
//! does not serve a stream of an earlier state, because it lacks what was removed in between.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The most items of a run: 4 MiB.
pub(crate) const RUN_MAX: usize = 1 << 18;
/// The most items of all kept runs of one kind: 32 MiB. The run that was used longest ago goes
/// first.
const KEPT_MAX: usize = 1 << 21;
/// A short run counts as this many items, so that there are not too many to go through.
const COUNTED_MIN: usize = 1 << 13;

/// All items of a list with a number after one and up to another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListRun<T> {
    pub after: u64,
    pub upto: u64,
    /// The last change of the state that it was made of.
    made_at: u64,
    /// By number.
    pub items: Vec<(u64, T)>,
}

impl<T> ListRun<T> {
    /// What a pass has found, at most [`RUN_MAX`] items, of a list whose last number is `last`.
    pub(crate) fn found(after: u64, items: Vec<(u64, T)>, (last, made_at): (u64, u64)) -> Self {
        let cut = items.last().map(|(number, _)| *number).filter(|_| items.len() >= RUN_MAX);
        Self { after, upto: cut.unwrap_or(last).max(after), made_at, items }
    }

    /// The items after a number.
    pub(crate) fn after(&self, number: u64) -> &[(u64, T)] {
        &self.items[self.items.partition_point(|(item, _)| *item <= number)..]
    }

    fn counted(&self) -> usize {
        self.items.len().max(COUNTED_MIN)
    }
}

/// The runs of one kind of list that are kept, the last used first; `K` names the list.
#[derive(Debug)]
pub(crate) struct ListRuns<K, T>(Mutex<VecDeque<(K, Arc<ListRun<T>>)>>);

impl<K, T> Default for ListRuns<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: PartialEq, T> ListRuns<K, T> {
    /// The run that continues a list after a number, in a state whose last change is `at`.
    pub(crate) fn find(&self, list: &K, after: u64, at: u64) -> Option<Arc<ListRun<T>>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let continues = |(of, run): &(K, Arc<ListRun<T>>)| {
            of == list && (run.after..run.upto).contains(&after) && run.made_at <= at
        };
        let at = kept.iter().position(continues)?;
        let used = kept.remove(at)?;
        let run = Arc::clone(&used.1);
        kept.push_front(used);
        Some(run)
    }

    pub(crate) fn keep(&self, list: K, run: ListRun<T>) -> Arc<ListRun<T>> {
        let run = Arc::new(run);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever made it could not use another one that begins where it begins.
        kept.retain(|(of, old)| *of != list || old.after != run.after);
        kept.push_front((list, Arc::clone(&run)));
        let mut items = 0;
        kept.retain(|(_, run)| {
            items += run.counted();
            items <= KEPT_MAX
        });
        run
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000;

    fn run(after: u64, count: u64, upto: u64) -> ListRun<()> {
        let items = (after + 1..=after + count).map(|number| (number, ())).collect();
        ListRun { after, upto, made_at: NOW, items }
    }

    #[test]
    fn a_run_continues_its_list_up_to_its_end() {
        let runs = ListRuns::default();
        runs.keep(1, run(10, 2, 15));
        runs.keep(1, ListRun::found(15, vec![(20, ())], (99, NOW)));
        runs.keep(2, ListRun::found(0, Vec::new(), (99, NOW)));
        let found = |list, after| runs.find(&list, after, NOW).map(|run| (run.after, run.upto));
        assert_eq!(found(1, 9), None);
        assert_eq!(found(1, 10), Some((10, 15)));
        assert_eq!(found(1, 14), Some((10, 15)));
        assert_eq!(found(1, 15), Some((15, 99)));
        assert_eq!(found(1, 98), Some((15, 99)));
        assert_eq!(found(1, 99), None, "what comes next is not known");
        assert_eq!(found(2, 50), Some((0, 99)), "that there is nothing is known");
        let after = |number| runs.find(&1, 10, NOW).unwrap().after(number).len();
        assert_eq!([10, 11, 12, 14].map(after), [2, 1, 0, 0]);
        // A full pass may have missed something after its last item.
        let items = (1..=RUN_MAX as u64).map(|number| (number, ())).collect();
        assert_eq!(ListRun::found(0, items, (NOW << 20, NOW)).upto, RUN_MAX as u64);
    }

    #[test]
    fn an_earlier_state_has_runs_of_its_own() {
        let runs = ListRuns::default();
        runs.keep((), run(0, 5, 9));
        assert!(runs.find(&(), 0, NOW - 1).is_none());
        runs.keep((), ListRun { made_at: NOW - 1, ..run(0, 6, 9) });
        for at in [NOW - 1, NOW, NOW + 1] {
            assert_eq!(runs.find(&(), 0, at).unwrap().items.len(), 6);
        }
    }

    #[test]
    fn the_runs_that_were_used_longest_ago_go_first() {
        let runs = ListRuns::default();
        let many = KEPT_MAX as u64 / 4;
        for list in 0..4 {
            runs.keep(list, run(0, many, many));
        }
        assert!(runs.find(&0, 0, NOW).is_some());
        runs.keep(4, run(0, 1, 1));
        let kept = [0, 1, 2, 3, 4].map(|list| runs.find(&list, 0, NOW).is_some());
        assert_eq!(kept, [true, false, true, true, true]);
        // Short ones are bounded by their number.
        for list in 10..10_000 {
            runs.keep(list, run(0, 1, 1));
        }
        assert_eq!(runs.0.lock().unwrap().len(), KEPT_MAX / COUNTED_MIN);
    }
}
