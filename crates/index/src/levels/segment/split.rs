//! Splitting a segment into partitions, and joining them ([`crate::tables::table::split`]).
//!
//! Partitions share the memory of fingerprints and oldest postings with their segment. Ids, labels
//! and later postings are copied.

use crate::labels::tables::{LabelTables, Renumbered};
use crate::levels::ids::{IdTable, IdTableBuilder};
use crate::levels::posting::{Posting, Postings};
use crate::levels::segment::removals::{Removal, Removals};
use crate::levels::segment::{NamespaceGroup, Segment};
use crate::levels::sorted::Sorted;
use crate::memory::placed::Placement;
use crate::plan::head;
use crate::tables::partition::{PARTITIONS, Partition, Places};
use crate::tables::table::Table;

/// Groups with their later postings, while they are collected.
type Gathered = (Vec<NamespaceGroup>, Vec<Posting>);

impl Segment {
    /// Splits the segment into partitions, in order, which together have its content. `None` if its
    /// table cannot be split.
    pub fn split(&self) -> Option<[Self; PARTITIONS]> {
        let (tables, places) = self.table()?.split()?;
        let order = self.sorted.order();
        let of_value = |value| Partition::of(head(order.key(value)));
        let mut gathered: [Gathered; PARTITIONS] = Default::default();
        for (at, group) in self.groups.iter().enumerate() {
            let (partition, number) = places.in_partition(group.number);
            let later = self.later_of(at).map(|at| self.later.get(at));
            gather(&mut gathered[partition], NamespaceGroup { number, ..*group }, later);
        }
        let (mut gathered, mut partitions) = (gathered.into_iter(), Partition::ALL.into_iter());
        let mut segments = tables.map(|table| {
            let partition = partitions.next().expect("a table each");
            let oldest = self.oldest.part(&places.range(partition.index()));
            let (groups, later) = gathered.next().expect("as many");
            let removals: Vec<Removal> = self
                .removals
                .all()
                .iter()
                .copied()
                .filter(|removal| of_value(removal.value) == partition)
                .collect();
            let resets = self.resets.iter().filter(|reset| of_value(reset.value) == partition);
            Self {
                sorted: Sorted::Large(table),
                oldest,
                groups,
                later: Postings::of(&later),
                ids: IdTable::default(),
                labels: LabelTables::default(),
                removals: Removals::of_sorted(order, removals).expect("they keep their order"),
                resets: resets.copied().collect(),
            }
        });
        self.hand_on_ids(&places, &mut segments);
        let numbers = segments.each_ref().map(|segment| segment.sorted.numbers());
        let labels = self.labels.split(|number| places.in_partition(number), numbers);
        for (segment, labels) in segments.iter_mut().zip(labels) {
            segment.labels = labels;
        }
        Some(segments)
    }

    /// Joins partitions into their segment.
    ///
    /// # Panics
    /// When these are not the partitions of one segment, in order.
    pub fn joined(partitions: [&Self; PARTITIONS]) -> Self {
        let tables = partitions.map(|partition| partition.table().expect("a partition is large"));
        let (table, places) = Table::joined(tables);
        let mut gathered = Gathered::default();
        for (at, partition) in partitions.into_iter().enumerate() {
            for (of, group) in partition.groups.iter().enumerate() {
                let later = partition.later_of(of).map(|of| partition.later.get(of));
                let number = places.in_whole(at, group.number);
                gather(&mut gathered, NamespaceGroup { number, ..*group }, later);
            }
        }
        let (groups, later) = gathered;
        let removals: Vec<Removal> =
            partitions.iter().flat_map(|partition| partition.removals.all()).copied().collect();
        let removals = Removals::of_sorted(table.plan(), removals)
            .expect("the keys of a partition lie before those of the next");
        let mut segment = Self {
            sorted: Sorted::Large(table),
            oldest: Postings::joined(&partitions.map(|partition| &partition.oldest)),
            groups,
            later: Postings::of(&later),
            ids: IdTable::default(),
            labels: LabelTables::default(),
            removals,
            resets: partitions.iter().flat_map(|partition| &partition.resets).copied().collect(),
        };
        segment.ids = segment.ids_of(&places, partitions);
        let in_whole: [_; PARTITIONS] =
            std::array::from_fn(|at| move |number| Some(places.in_whole(at, number)));
        let inputs: [Renumbered<'_>; PARTITIONS] =
            std::array::from_fn(|at| (&partitions[at].labels, &in_whole[at] as _));
        segment.labels =
            segment.with_target(|target| LabelTables::merged(&Placement::Memory, &inputs, target));
        segment
    }

    fn table(&self) -> Option<&Table> {
        match &self.sorted {
            Sorted::Large(table) => Some(table),
            Sorted::Small(_) => None,
        }
    }

    /// Distributes its ids to its partitions.
    fn hand_on_ids(&self, places: &Places, partitions: &mut [Self; PARTITIONS]) {
        let numbers = self.sorted.numbers() as u32;
        let of_later = |number, partitions: &[Self; PARTITIONS]| {
            let (value, posting) = self.document(number);
            let at = Partition::of(head(self.sorted.order().key(value))).index();
            Some((at, partitions[at].number_of(value, posting.sequence)?))
        };
        let place = |number: u32, partitions: &[Self; PARTITIONS]| {
            if number < numbers {
                Some(places.in_partition(number))
            } else {
                of_later(number, partitions)
            }
        };
        let mut counts = [0; PARTITIONS];
        for (at, _) in self.ids.iter().filter_map(|(_, number)| place(number, partitions)) {
            counts[at] += 1;
        }
        let mut tables = counts.map(|count| IdTableBuilder::new(&Placement::Memory, count));
        for (key, number) in self.ids.iter() {
            if let Some((at, number)) = place(number, partitions) {
                tables[at].push(key, number);
            }
        }
        for (partition, ids) in partitions.iter_mut().zip(tables) {
            partition.ids = ids.finish();
        }
    }

    /// The ids of its partitions, by key.
    fn ids_of(&self, places: &Places, partitions: [&Self; PARTITIONS]) -> IdTable {
        let count = partitions.iter().map(|partition| partition.ids.len()).sum();
        let mut ids = IdTableBuilder::new(&Placement::Memory, count);
        let mut sources = partitions.map(|partition| partition.ids.iter().peekable());
        loop {
            let next =
                sources.iter_mut().enumerate().filter_map(|(at, ids)| Some((ids.peek()?.0, at)));
            let Some((key, at)) = next.min() else { return ids.finish() };
            let Some((_, number)) = sources[at].next() else { return ids.finish() };
            let number = if (number as usize) < partitions[at].sorted.numbers() {
                Some(places.in_whole(at, number))
            } else {
                let (value, posting) = partitions[at].document(number);
                self.number_of(value, posting.sequence)
            };
            if let Some(number) = number {
                ids.push(key, number);
            }
        }
    }
}

/// Adds a group and its later postings.
fn gather(gathered: &mut Gathered, group: NamespaceGroup, later: impl Iterator<Item = Posting>) {
    let (groups, postings) = gathered;
    groups.push(NamespaceGroup { start: postings.len() as u32, ..group });
    postings.extend(later);
}
