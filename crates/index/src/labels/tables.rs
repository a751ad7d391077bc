//! The label tables of a segment, and how they are built, merged and split.

use nearprint_fingerprint::LABELS;

use crate::labels::LabelKeys;
use crate::labels::table::{LabelTable, LabelTableBuilder};
use crate::memory::placed::Placement;
use crate::permutation::Permuted;
use crate::tables::runs::{self, Run, RunItem};
use crate::tables::table::Number;

/// The rows of a text: its keys, and the number of its fingerprint.
pub(crate) type LabelledNumber = (LabelKeys, Number);

/// One table for each label.
#[derive(Debug, Default)]
pub(crate) struct LabelTables([LabelTable; LABELS]);

/// Tables to merge, and the new number of each of their numbers; `None` where the fingerprint has
/// no document any more.
pub(crate) type Renumbered<'a> = (&'a LabelTables, &'a dyn Fn(Number) -> Option<Number>);

/// The segment that merged rows belong to.
pub(crate) struct LabelTarget<'a> {
    /// One more than its largest number.
    pub(crate) numbers: usize,
    /// The fingerprint with a number: the order of rows with equal keys.
    pub(crate) value: &'a dyn Fn(Number) -> Permuted,
}

impl LabelTables {
    /// The tables of some texts, in any order.
    pub(crate) fn of(texts: &[LabelledNumber], target: &LabelTarget<'_>) -> Self {
        if texts.is_empty() {
            return Self::default();
        }
        let mut rows: Vec<RunItem> = Vec::with_capacity(texts.len());
        Self(std::array::from_fn(|table| {
            rows.clear();
            rows.extend(texts.iter().map(|(keys, number)| (keys[table], *number)));
            rows.sort_unstable_by_key(|(key, _)| *key);
            let mut builder = LabelTableBuilder::new(rows.len(), target.numbers);
            push(&mut builder, &rows, target);
            builder.finish()
        }))
    }

    /// Merges tables, one label at a time. Rows that become the same are one.
    pub(crate) fn merged(
        placement: &Placement,
        inputs: &[Renumbered<'_>],
        target: &LabelTarget<'_>,
    ) -> Self {
        Self(std::array::from_fn(|table| {
            let count = inputs.iter().map(|(tables, _)| tables.0[table].len()).sum();
            let mut builder = LabelTableBuilder::placed(placement, count, target.numbers);
            let runs = inputs.iter().map(|input| run_of(input, table)).collect();
            runs::each_stretch(runs, |stretch| push(&mut builder, stretch, target));
            builder.finish()
        }))
    }

    /// Distributes the rows to partitions: `place` gives the partition and the number there, and
    /// `numbers` are one more than the largest numbers of the partitions.
    pub(crate) fn split<const PARTS: usize>(
        &self,
        place: impl Fn(Number) -> (usize, Number),
        numbers: [usize; PARTS],
    ) -> [Self; PARTS] {
        let mut parts = numbers.map(|_| Self::default());
        for (at, table) in self.0.iter().enumerate() {
            let mut counts = [0; PARTS];
            table.iter().for_each(|(_, number)| counts[place(number).0] += 1);
            let mut builders: [LabelTableBuilder; PARTS] =
                std::array::from_fn(|part| LabelTableBuilder::new(counts[part], numbers[part]));
            for (key, number) in table.iter() {
                let (part, number) = place(number);
                builders[part].push(key, number);
            }
            for (part, builder) in parts.iter_mut().zip(builders) {
                part.0[at] = builder.finish();
            }
        }
        parts
    }

    pub(crate) fn all(&self) -> &[LabelTable; LABELS] {
        &self.0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(LabelTable::is_empty)
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(LabelTable::bytes).sum()
    }

    /// The bytes in files.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.0.iter().map(LabelTable::file_bytes).sum()
    }

    /// The tables of an image.
    pub(crate) const fn from_tables(tables: [LabelTable; LABELS]) -> Self {
        Self(tables)
    }
}

/// The rows of a table that stay, with their new numbers.
fn run_of<'a>((tables, renumber): &Renumbered<'a>, table: usize) -> Run<'a> {
    let (tables, renumber) = (*tables, *renumber);
    let rows = tables.0[table].iter();
    Run::of(rows.filter_map(move |(key, number)| Some((key, renumber(number)?))))
}

/// Adds rows sorted by key. Those with equal keys are put in the order of their fingerprints.
fn push(builder: &mut LabelTableBuilder, rows: &[RunItem], target: &LabelTarget<'_>) {
    for same in rows.chunk_by(|a, b| a.0 == b.0) {
        if let [(key, number)] = *same {
            builder.push(key, number);
            continue;
        }
        let mut numbers: Vec<(Permuted, Number)> =
            same.iter().map(|&(_, number)| ((target.value)(number), number)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for &(_, number) in &numbers {
            builder.push(same[0].0, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(tables: &LabelTables) -> Vec<Vec<(u64, Number)>> {
        tables.0.iter().map(|table| table.iter().collect()).collect()
    }

    proptest! {
        /// Merged and split tables are those of the same texts, built at once.
        #[test]
        fn merges_and_splits_keep_the_rows(
            texts in prop::collection::vec((0..3_u64, 0..40_u32), 0..200),
            split_at in 0..200_usize,
            gone in 0..40_u32,
        ) {
            // Texts with the same first number share their keys.
            let keys = |label: u64| [1, 2, 3, 4].map(|table| (label * table) << 40);
            let texts: Vec<LabelledNumber> =
                texts.iter().map(|&(label, number)| (keys(label), number)).collect();
            let (one, other) = texts.split_at(split_at.min(texts.len()));
            // The fingerprints are in the opposite order of their numbers.
            let value = |number: Number| u64::from(u32::MAX - number);
            let target = LabelTarget { numbers: 40, value: &value };
            let built = [one, other].map(|texts| LabelTables::of(texts, &target));
            let renumber = |number: Number| (number != gone).then_some(number);
            let renumber: &dyn Fn(Number) -> Option<Number> = &renumber;
            let merged = LabelTables::merged(&Placement::Memory, &[(&built[0], renumber), (&built[1], renumber)], &target);
            let mut left = texts.clone();
            left.retain(|(_, number)| *number != gone);
            let whole = LabelTables::of(&left, &target);
            prop_assert_eq!(rows(&merged), rows(&whole));
            prop_assert_eq!(merged.is_empty(), left.is_empty());

            let place = |number: Number| ((number % 3) as usize, number / 3);
            let parts = whole.split(place, [14; 3]);
            let mut all: Vec<Vec<(u64, Number)>> = vec![Vec::new(); LABELS];
            for (part, tables) in parts.iter().enumerate() {
                for (all, rows) in all.iter_mut().zip(rows(tables)) {
                    all.extend(rows.into_iter().map(|(key, number)| (key, 3 * number + part as u32)));
                }
            }
            for (mut all, mut expected) in all.into_iter().zip(rows(&whole)) {
                all.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(all, expected);
            }
        }
    }
}
