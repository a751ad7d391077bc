//! Union-find that many threads may use at once, without a lock.
//!
//! The parent of an item has a smaller number, so there are no cycles, and the root of a set is
//! always its smallest item: the result does not depend on the order in which sets were joined.
//! (Anderson and Woll 1991; paths are halved on the way.)

use std::sync::atomic::{AtomicU32, Ordering};

/// Disjoint sets of the numbers from 0 on.
#[derive(Debug, Default)]
pub struct UnionFind {
    parents: Vec<AtomicU32>,
}

impl UnionFind {
    /// As many sets of one number each.
    pub fn new(count: usize) -> Self {
        Self { parents: (0..count as u32).map(AtomicU32::new).collect() }
    }

    /// Adds a set of one number, the next one, and returns it.
    pub fn add(&mut self) -> usize {
        let next = self.parents.len();
        self.parents.push(AtomicU32::new(next as u32));
        next
    }

    /// The smallest number of a set. If other threads join sets meanwhile, one that was.
    pub fn root(&self, of: usize) -> usize {
        let mut at = of as u32;
        loop {
            let parent = self.parent(at).load(Ordering::Acquire);
            if parent == at {
                return at as usize;
            }
            let grandparent = self.parent(parent).load(Ordering::Acquire);
            if grandparent == parent {
                return parent as usize;
            }
            // Both are ancestors, and parents only become smaller.
            self.parent(at).fetch_min(grandparent, Ordering::AcqRel);
            at = grandparent;
        }
    }

    /// Whether two numbers are in one set. If other threads join sets meanwhile, false may be out
    /// of date.
    pub fn are_joined(&self, one: usize, other: usize) -> bool {
        self.root(one) == self.root(other)
    }

    /// Joins the sets of two numbers.
    pub fn join(&self, one: usize, other: usize) {
        loop {
            let (one, other) = (self.root(one) as u32, self.root(other) as u32);
            if one == other {
                return;
            }
            let (low, high) = (one.min(other), one.max(other));
            let linked =
                self.parent(high).compare_exchange(high, low, Ordering::AcqRel, Ordering::Acquire);
            if linked.is_ok() {
                return;
            }
        }
    }

    fn parent(&self, of: u32) -> &AtomicU32 {
        &self.parents[of as usize]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against sets whose items all carry the name of their set, joined from two threads.
        #[test]
        fn it_joins_like_sets_that_are_renamed(
            pairs in prop::collection::vec((0..60_usize, 0..60_usize), 0..80),
        ) {
            let mut joined = UnionFind::new(59);
            prop_assert_eq!(joined.add(), 59);
            let halves = pairs.split_at(pairs.len() / 2);
            std::thread::scope(|scope| {
                for half in [halves.0, halves.1] {
                    let joined = &joined;
                    scope.spawn(move || half.iter().for_each(|&(a, b)| joined.join(a, b)));
                }
            });
            let mut names: Vec<usize> = (0..60).collect();
            for (a, b) in pairs {
                let (low, high) = (names[a].min(names[b]), names[a].max(names[b]));
                names.iter_mut().filter(|name| **name == high).for_each(|name| *name = low);
            }
            let roots: Vec<usize> = (0..60).map(|at| joined.root(at)).collect();
            prop_assert_eq!(roots, names);
        }
    }
}
