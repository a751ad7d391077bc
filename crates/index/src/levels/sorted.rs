//! The fingerprints of a segment, sorted: in one of two forms, by their number.

use nearprint_fingerprint::Distance;

use crate::buckets::{self, Buckets};
use crate::memory::placed::Placement;
use crate::permutation::Permuted;
use crate::plan::{Key, TablePlan};
use crate::tables::table::build;
use crate::tables::table::entries;
use crate::tables::table::{Number, Table};

/// The fingerprints of a segment. The *number* of one is its place among the slots.
#[derive(Debug)]
pub enum Sorted {
    /// With all tables of the plan for small segments.
    Small(Buckets),
    /// The first table of the plan for large segments; the others are secondary tables.
    Large(Table),
}

impl Sorted {
    /// The order of the fingerprints.
    pub fn order(&self) -> TablePlan {
        match self {
            Self::Small(_) => buckets::ORDER,
            Self::Large(table) => table.plan(),
        }
    }

    /// Whether it has the form of a small segment.
    pub fn is_small(&self) -> bool {
        matches!(self, Self::Small(_))
    }

    /// Prefetches the line where [`Self::find`] begins.
    pub fn prefetch_value(&self, value: Permuted) {
        match self {
            Self::Small(buckets) => buckets.prefetch_value(value),
            Self::Large(table) => table.prefetch_value(value),
        }
    }

    /// Prefetches the data that the prefetched home leads to.
    pub fn locate_value(&self, value: Permuted) {
        match self {
            Self::Small(buckets) => buckets.locate_value(value),
            Self::Large(table) => table.locate_value(value),
        }
    }

    /// The number of a fingerprint, if it is stored.
    pub fn find(&self, value: Permuted) -> Option<Number> {
        match self {
            Self::Small(buckets) => buckets.find(value),
            Self::Large(table) => table.find(value),
        }
    }

    /// The fingerprint with a number that [`Self::find`] or [`Self::entries`] gave.
    pub fn value(&self, number: Number) -> Permuted {
        match self {
            Self::Small(buckets) => buckets.value(number),
            Self::Large(table) => table.value(number),
        }
    }

    /// All fingerprints, ascending by key, with their numbers.
    pub fn entries(&self) -> SortedEntries<'_> {
        match self {
            Self::Small(buckets) => SortedEntries::Small(buckets.entries()),
            Self::Large(table) => SortedEntries::Large(table.entries()),
        }
    }

    /// The number of fingerprints.
    pub fn len(&self) -> usize {
        match self {
            Self::Small(buckets) => buckets.len(),
            Self::Large(table) => table.len() as usize,
        }
    }

    /// Whether there are no fingerprints.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One more than the largest possible number.
    pub fn numbers(&self) -> usize {
        match self {
            Self::Small(buckets) => buckets.len(),
            Self::Large(table) => table.numbers(),
        }
    }

    /// The bytes in files.
    pub fn file_bytes(&self) -> u64 {
        match self {
            Self::Small(_) => 0,
            Self::Large(table) => table.file_bytes(),
        }
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Small(buckets) => buckets.bytes(),
            Self::Large(table) => table.bytes(),
        }
    }
}

/// The entries of either form.
#[derive(Debug)]
pub enum SortedEntries<'a> {
    Small(buckets::Entries<'a>),
    Large(entries::TableEntries<'a>),
}

impl SortedEntries<'_> {
    /// Calls `each` with the next entries; returns whether there were any.
    pub fn next_few(&mut self, each: impl FnMut((Key, Number))) -> bool {
        match self {
            Self::Small(entries) => entries.next_few(each),
            Self::Large(entries) => entries.next_few(each),
        }
    }
}

impl Iterator for SortedEntries<'_> {
    type Item = (Key, Number);

    #[inline]
    fn next(&mut self) -> Option<(Key, Number)> {
        match self {
            Self::Small(entries) => entries.next(),
            Self::Large(entries) => entries.next(),
        }
    }

    fn fold<B, F: FnMut(B, Self::Item) -> B>(self, init: B, each: F) -> B {
        match self {
            Self::Small(entries) => entries.fold(init, each),
            Self::Large(entries) => entries.fold(init, each),
        }
    }
}

/// Takes the keys of a segment in ascending order.
#[derive(Debug)]
pub(crate) enum SortedBuilder {
    /// Of a small segment, whose keys are the fingerprints.
    Small {
        /// The largest distance of a look-up.
        distance_max: Distance,
        /// The keys taken so far.
        values: Vec<Permuted>,
    },
    Large(Box<build::TableBuilder>),
}

impl SortedBuilder {
    /// A builder of a small segment with about `count` fingerprints.
    pub(crate) fn small(distance_max: Distance, count: usize) -> Self {
        Self::Small { distance_max, values: Vec::with_capacity(count) }
    }

    /// A builder of a large segment with at most `count` fingerprints.
    pub(crate) fn large(placement: &Placement, order: TablePlan, count: u64) -> Self {
        Self::Large(Box::new(build::TableBuilder::placed(placement, order, 0, count)))
    }

    /// A builder of the first partition of such a segment.
    pub(crate) fn of_first_partition(order: TablePlan, count: u64) -> Self {
        Self::Large(Box::new(build::TableBuilder::of_first_partition(order, 0, count)))
    }

    /// The plan that gives the keys.
    pub(crate) fn order(&self) -> TablePlan {
        match self {
            Self::Small { .. } => buckets::ORDER,
            Self::Large(builder) => builder.plan(),
        }
    }

    /// An upper bound of the numbers.
    pub(crate) fn numbers(&self) -> usize {
        match self {
            Self::Small { values, .. } => values.capacity(),
            Self::Large(builder) => builder.numbers(),
        }
    }

    /// Adds the next larger key and returns its number.
    pub(crate) fn push(&mut self, key: Key) -> Number {
        match self {
            Self::Small { values, .. } => {
                values.push(key);
                (values.len() - 1) as Number
            }
            Self::Large(builder) => builder.push(key),
        }
    }

    pub(crate) fn finish(self) -> Sorted {
        match self {
            Self::Small { distance_max, values } => {
                Sorted::Small(Buckets::build(distance_max, &values))
            }
            Self::Large(builder) => Sorted::Large(builder.finish()),
        }
    }

    /// The fingerprints of a partition, and a builder of the next one.
    pub(crate) fn finish_partition(self) -> (Sorted, Option<Self>) {
        match self {
            Self::Small { .. } => (self.finish(), None),
            Self::Large(builder) => {
                let (table, next) = builder.finish_partition();
                (Sorted::Large(table), next.map(|next| Self::Large(Box::new(next))))
            }
        }
    }
}
