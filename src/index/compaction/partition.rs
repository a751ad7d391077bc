//! A merge of large segments or tables, a quarter of all keys at a time.
//!
//! A merge needs its result beside its inputs: of a hundred million fingerprints half as much again as all of
//! them. So large ones are taken apart into quarters ([`crate::index::tables::table::split`]), each quarter is
//! merged by itself and handed over, upon which those of the inputs go; the four results are one segment or table
//! in the end. At no time is there more than a quarter of the result too many, as long as nobody holds an
//! older view. In between a look-up visits as many lines as before, in more tables.
//!
//! What stands in the view meanwhile is in the order in which an id's newest document is found first: what
//! is left of each input, and behind it what was merged. An older document of the same id is removed by the
//! change that put the newer one, so that no merge keeps it.

use std::array;
use std::sync::Arc;

use crate::index::compaction::built::Built;
use crate::index::compaction::merge;
use crate::index::levels::distinct;
use crate::index::levels::segment;
use crate::index::levels::segment::Segment;
use crate::index::plan::Plans;
use crate::index::tables::partition::PARTITIONS;
use crate::index::tables::secondary::SecondaryTable;
use crate::index::tables::table::Table;
use crate::index::tables::table::build;
use crate::index::view::View;

/// A merge by quarters that is under way: each step builds what takes the place of what the last one left.
#[derive(Debug)]
pub enum PartitionedMerge {
    /// Of segments.
    Segments {
        /// All that is older.
        older: Vec<Arc<Segment>>,
        /// What is merged.
        merge: Box<Merge<Arc<Segment>, segment::Builder>>,
    },
    /// Of tables.
    Tables {
        /// As in [`crate::index::compaction::work::Work::MergeTables`].
        liveness: Option<Box<View>>,
        /// Likewise.
        dropped: u64,
        /// What is merged.
        merge: Box<Merge<SecondaryTable, build::Builder>>,
    },
}

/// How far a merge is.
#[derive(Debug)]
pub struct Merge<T, B> {
    /// What its last step left in the view.
    standing: Vec<T>,
    /// For each input, oldest first, the quarters that are not merged yet.
    inputs: Vec<[Option<T>; PARTITIONS]>,
    /// For each quarter that is not merged yet.
    builders: array::IntoIter<B, PARTITIONS>,
    merged: Vec<T>,
}

impl PartitionedMerge {
    /// Begins to merge large segments, oldest first: the first step builds their quarters. `None` where they
    /// have none.
    pub fn of_segments(
        plans: &Plans,
        from: &[Arc<Segment>],
        older: &[Arc<Segment>],
    ) -> Option<(Built, Self)> {
        let (_, common) = merge::extent(from);
        let counts = merge::count_rows(plans, from, older.is_empty());
        let builders = segment::Builder::partitions(&counts, common)?;
        let partitions = |segment: &Arc<Segment>| Some(segment.split()?.map(Arc::new));
        let mut merge = Merge::begin(from, partitions, builders)?;
        let (from, into) = merge.hand_over();
        let merge = Box::new(merge);
        let built = Built::Segments { from, into, secondary_tables: Vec::new(), dropped: 0 };
        Some((built, Self::Segments { older: older.to_vec(), merge }))
    }

    /// The same of tables.
    pub fn of_tables(
        from: &[SecondaryTable],
        liveness: Option<&View>,
        dropped: u64,
    ) -> Option<(Built, Self)> {
        let tables: Vec<_> = from.iter().map(|other| Arc::clone(&other.table)).collect();
        let is_live = liveness.map(|view| |value| view.has_documents(value));
        let counts = merge::count_keys(&tables, is_live.as_ref().map(|is_live| is_live as _));
        let builders = build::Builder::partitions(tables[0].role(), &counts)?;
        drop(tables);
        let partitions = |SecondaryTable { table, cleaned_at }: &SecondaryTable| {
            let of = |table| SecondaryTable { table: Arc::new(table), cleaned_at: *cleaned_at };
            Some(table.split()?.0.map(of))
        };
        let mut merge = Merge::begin(from, partitions, builders)?;
        let (from, into) = merge.hand_over();
        let (merge, liveness) = (Box::new(merge), liveness.cloned().map(Box::new));
        Some((Built::Tables { from, into }, Self::Tables { liveness, dropped, merge }))
    }
}

impl Iterator for PartitionedMerge {
    type Item = Built;

    fn next(&mut self) -> Option<Built> {
        match self {
            Self::Segments { older, merge } => {
                let mut dropped = 0;
                let one = |builder, from: &[Arc<Segment>]| {
                    let (segment, gone) = merge::fill(builder, from, older.is_empty());
                    dropped = gone;
                    let segment = Arc::new(segment);
                    distinct::count_merged(older, from, &segment);
                    segment
                };
                let join = |partitions: [&Arc<Segment>; PARTITIONS]| {
                    Arc::new(Segment::joined(partitions.map(|partition| &**partition)))
                };
                let (from, into) = merge.step(one, join)?;
                Some(Built::Segments { from, into, secondary_tables: Vec::new(), dropped })
            }
            Self::Tables { liveness, dropped, merge } => {
                let is_live = liveness.as_ref().map(|view| |value| view.has_documents(value));
                let is_live = is_live.as_ref().map(|is_live| is_live as _);
                let of = |table| SecondaryTable { table: Arc::new(table), cleaned_at: *dropped };
                let one = |builder, from: &[SecondaryTable]| {
                    let tables: Vec<_> =
                        from.iter().map(|other| Arc::clone(&other.table)).collect();
                    of(merge::fill_table(builder, &tables, is_live))
                };
                let join = |partitions: [&SecondaryTable; PARTITIONS]| {
                    of(Table::joined(partitions.map(|partition| &*partition.table)).0)
                };
                let (from, into) = merge.step(one, join)?;
                Some(Built::Tables { from, into })
            }
        }
    }
}

impl<T: Clone, B> Merge<T, B> {
    fn begin(
        from: &[T],
        partitions: impl Fn(&T) -> Option<[T; PARTITIONS]>,
        builders: [B; PARTITIONS],
    ) -> Option<Self> {
        let inputs = from.iter().map(|input| Some(partitions(input)?.map(Some)));
        let inputs = inputs.collect::<Option<Vec<_>>>()?;
        let builders = builders.into_iter();
        Some(Self { standing: from.to_vec(), inputs, builders, merged: Vec::new() })
    }

    /// What stood in the view until now, and what is to take its place: what is left of the inputs, and what
    /// was merged.
    fn hand_over(&mut self) -> (Vec<T>, Vec<T>) {
        let left = self.inputs.iter().flatten().flatten().chain(&self.merged);
        let into: Vec<T> = left.cloned().collect();
        (std::mem::replace(&mut self.standing, into.clone()), into)
    }

    /// Merges the next quarter, or joins them all.
    fn step(
        &mut self,
        merge: impl FnOnce(B, &[T]) -> T,
        join: impl FnOnce([&T; PARTITIONS]) -> T,
    ) -> Option<(Vec<T>, Vec<T>)> {
        if let Some(builder) = self.builders.next() {
            let partition = self.merged.len();
            let from: Vec<T> =
                self.inputs.iter_mut().filter_map(|of| of[partition].take()).collect();
            self.merged.push(merge(builder, &from));
        } else {
            let partitions = std::mem::take(&mut self.merged);
            let [a, b, c, d] = &partitions[..] else { return None };
            self.merged = vec![join([a, b, c, d])];
        }
        Some(self.hand_over())
    }
}
