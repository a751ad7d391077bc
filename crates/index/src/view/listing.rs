//! Listing documents in the order in which they were stored.
//!
//! The levels are sorted by fingerprint, so a listing is a pass over all documents in memory: about
//! 10 ns each, without the levels that lie outside the range. It keeps the first documents of the
//! range, at most twice as many as are wanted.

use std::collections::HashMap;

use nearprint_fingerprint::Fingerprint;

use crate::document::{Expiry, Sequence};
use crate::levels::delta::DeltaEvent;
use crate::levels::posting::{Common, Posting};
use crate::namespaces::NamespaceNumber;
use crate::permutation::Permuted;
use crate::view::View;

/// Which documents to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selection {
    /// Their namespace; `None` is all of them.
    pub namespace: Option<NamespaceNumber>,
    /// They were stored after this change,
    pub after: Sequence,
    /// and up to this one.
    pub upto: Sequence,
    /// The second, since 1970, up to which they have expired, or after which they expire.
    pub expired: Expired,
}

/// Whether to list documents that have expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expired {
    /// Only those that have not expired at this second.
    Not(u32),
    Any,
    /// Only those that have expired after the first second and up to the second one.
    Between(u32, u32),
}

/// A stored document of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    pub posting: Posting,
    /// Its fingerprint, combined with the mask of its namespace.
    pub masked: Fingerprint,
}

impl Selection {
    fn has(&self, posting: Posting) -> bool {
        let Posting { sequence, namespace, expiry, .. } = posting;
        let expiry = expiry.map(Expiry::second);
        let is_wanted = match self.expired {
            Expired::Not(now) => expiry.is_none_or(|expiry| expiry > now),
            Expired::Any => true,
            Expired::Between(from, upto) => {
                expiry.is_some_and(|expiry| from < expiry && expiry <= upto)
            }
        };
        is_wanted
            && self.after < sequence
            && sequence <= self.upto
            && self.namespace.is_none_or(|wanted| wanted == namespace)
    }

    /// Whether a level may have documents of the selection.
    fn meets(&self, common: &Common) -> bool {
        let in_range = common.last > self.after && common.first <= self.upto;
        let (first, last) = common.namespaces;
        let in_namespace = self.namespace.is_none_or(|wanted| first <= wanted && wanted <= last);
        let expires = match (self.expired, common.expiries) {
            (Expired::Not(now), Some((_, last))) => !common.all_expire || last.second() > now,
            (Expired::Not(_), None) | (Expired::Any, _) => true,
            (Expired::Between(from, upto), Some((first, last))) => {
                first.second() <= upto && last.second() > from
            }
            (Expired::Between(..), None) => false,
        };
        in_range && in_namespace && expires
    }
}

impl View {
    /// The first `at_most` documents of a selection, in the order in which they were stored.
    pub fn list(&self, selection: Selection, at_most: usize) -> Vec<Listed> {
        let mut first = First { at_most: at_most.max(1), selection, found: Vec::new() };
        self.visit(&mut first);
        let restore = |(posting, value): (Posting, Permuted)| Listed {
            posting,
            masked: self.shape.permutation.restore(value),
        };
        first.finish().into_iter().map(restore).collect()
    }

    /// Calls `each` with every document of a selection and its fingerprint as the index has it, in
    /// no particular order. About 10 ns for each stored document.
    pub(crate) fn each_document(&self, selection: Selection, each: impl FnMut(Permuted, Posting)) {
        self.visit(&mut Each { selection, each });
    }

    fn visit(&self, visitor: &mut impl Visitor) {
        let gone = Gone::of(self);
        for segment in self.segments.iter() {
            if !segment.common().is_some_and(|common| visitor.selection().meets(&common)) {
                continue;
            }
            let sorted = segment.sorted();
            for (key, number) in sorted.entries() {
                for posting in segment.postings_at(number) {
                    offer(visitor, &gone, (sorted.order().value(key), posting));
                }
            }
        }
        for delta in self.deltas() {
            for (value, event) in delta.all_events() {
                if let DeltaEvent::Put { posting, .. } = event {
                    offer(visitor, &gone, (value, *posting));
                }
            }
        }
    }
}

/// What a pass over the documents does with those of a selection.
trait Visitor {
    /// The documents that it takes; may become fewer on the way.
    fn selection(&self) -> &Selection;

    fn add(&mut self, value: Permuted, posting: Posting);
}

#[inline]
fn offer(visitor: &mut impl Visitor, gone: &Gone, (value, posting): (Permuted, Posting)) {
    if visitor.selection().has(posting) && !gone.contains(value, posting.sequence) {
        visitor.add(value, posting);
    }
}

/// Calls a function with each document.
struct Each<F> {
    selection: Selection,
    each: F,
}

impl<F: FnMut(Permuted, Posting)> Visitor for Each<F> {
    fn selection(&self) -> &Selection {
        &self.selection
    }

    fn add(&mut self, value: Permuted, posting: Posting) {
        (self.each)(value, posting);
    }
}

/// Collects the first documents of a selection.
struct First {
    at_most: usize,
    /// Ends before the documents that are surely not among the first.
    selection: Selection,
    found: Vec<(Posting, Permuted)>,
}

impl Visitor for First {
    fn selection(&self) -> &Selection {
        &self.selection
    }

    fn add(&mut self, value: Permuted, posting: Posting) {
        self.found.push((posting, value));
        if self.found.len() >= 2 * self.at_most {
            // Postings are ordered by sequence first.
            let (_, (last, _), _) = self.found.select_nth_unstable(self.at_most - 1);
            self.selection.upto = last.sequence;
            self.found.truncate(self.at_most);
        }
    }
}

impl First {
    fn finish(mut self) -> Vec<(Posting, Permuted)> {
        self.found.sort_unstable();
        self.found.truncate(self.at_most);
        self.found
    }
}

/// The documents that were removed and not merged away.
#[derive(Debug, Default)]
struct Gone {
    removed: Vec<Sequence>,
    /// The last reset of a fingerprint.
    resets: HashMap<Permuted, Sequence>,
}

impl Gone {
    fn of(view: &View) -> Self {
        let mut gone = Self::default();
        for segment in view.segments.iter() {
            gone.removed.extend(segment.removals().iter().map(|removal| removal.posting.sequence));
            gone.resets.extend(segment.resets().iter().map(|reset| (reset.value, reset.sequence)));
        }
        for delta in view.deltas() {
            if delta.delta().tombstones() == 0 {
                continue;
            }
            for (value, event) in delta.all_events() {
                match event {
                    DeltaEvent::Put { .. } => {}
                    DeltaEvent::Removed { posting } => gone.removed.push(posting.sequence),
                    DeltaEvent::Reset => {
                        gone.resets.extend(delta.last_reset(value).map(|at| (value, at)));
                    }
                }
            }
        }
        gone.removed.sort_unstable();
        gone
    }

    fn contains(&self, value: Permuted, sequence: Sequence) -> bool {
        // Most views have nothing to look for.
        if self.removed.is_empty() && self.resets.is_empty() {
            return false;
        }
        self.removed.binary_search(&sequence).is_ok()
            || self.resets.get(&value).is_some_and(|reset| sequence < *reset)
    }
}
