//! The directory of a table: where the entries of each cell lie.
//!
//! A *group* describes 32 adjacent cells in one cache line: the number of its first entry, and how
//! many entries each cell and those before it have. So one cache miss leads to the entries of a
//! cell, and the directory takes a quarter to half a byte an entry.
//!
//! ```text
//!   14 bits              0, where the entries of the first cell begin
//!   then, 14 bits each   for each cell, where its entries end, counted from the first of the group
//!   the last 32 bits     the number of the first entry
//! ```
//!
//! A group with more entries than 14 bits count is *crowded*: its cells have the value [`CROWDED`],
//! and the ends lie aside ([`CrowdedGroup`]).

use bytemuck::{Pod, Zeroable};

use crate::plan::fold::Head;

/// Log2 of the cells of a group.
pub(crate) const GROUP_BITS: u32 = 5;

/// The cells of a group.
pub(crate) const GROUP_CELLS: usize = 1 << GROUP_BITS;

const END_BITS: u32 = 14;

/// The ends of the cells of a crowded group.
const CROWDED: u32 = (1 << END_BITS) - 1;

/// The ends of the cells of a group, counted from its first entry.
pub(crate) type CellEnds = [u32; GROUP_CELLS];

/// 32 adjacent cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct CellGroup([u32; 16]);

/// The ends of a group's cells that do not fit into 14 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct CrowdedGroup {
    /// The index of the group in the whole table.
    pub(crate) group: u32,
    pub(crate) ends: CellEnds,
}

impl CellGroup {
    /// The group with these cells, and whether it is crowded, so that its ends lie aside.
    pub(crate) fn of(first: u32, ends: &CellEnds) -> (Self, bool) {
        let crowded = ends[GROUP_CELLS - 1] >= CROWDED;
        let mut words = [0; 16];
        words[FIRST] = first;
        let filled = if crowded { [CROWDED; GROUP_CELLS] } else { *ends };
        for (cell, end) in filled.into_iter().enumerate() {
            let (word, shift) = place(cell);
            let two = u64::from(end) << (shift + END_BITS);
            words[word] |= two as u32;
            words[word + 1] |= (two >> 32) as u32;
        }
        (Self(words), crowded)
    }

    /// The number of its first entry.
    #[inline]
    pub(crate) fn first(&self) -> u32 {
        self.0[FIRST]
    }

    /// Where the entries of a cell begin and end, counted from the first of the group. Not in a
    /// crowded one.
    #[inline]
    fn bounds(&self, cell: usize) -> (u32, u32) {
        let (word, shift) = place(cell);
        let two = u64::from(self.0[word]) | u64::from(self.0[word + 1]) << 32;
        let bounds = two.wrapping_shr(shift) as u32;
        (bounds & CROWDED, bounds.wrapping_shr(END_BITS) & CROWDED)
    }

    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.bounds(GROUP_CELLS - 1).1 == CROWDED
    }

    /// The number of its entries. `at` is the index of the group in the whole table.
    pub(crate) fn count(&self, at: u32, crowded: &[CrowdedGroup]) -> u32 {
        let [.., last] = self.ends(at, crowded);
        last
    }

    /// The ends of all cells. `at` is the index of the group in the whole table.
    #[inline]
    pub(crate) fn ends(&self, at: u32, crowded: &[CrowdedGroup]) -> CellEnds {
        if self.is_crowded() {
            return ends_of(at, crowded);
        }
        std::array::from_fn(|cell| self.bounds(cell).1)
    }

    /// The numbers of a cell's entries: the first, and the one after the last. Of the index of the
    /// cell the lowest bits count; `at` is the index of the group in the whole table.
    #[inline]
    pub(crate) fn entries(&self, cell: u32, at: u32, crowded: &[CrowdedGroup]) -> (u32, u32) {
        let cell = cell as usize % GROUP_CELLS;
        let (begin, end) = self.bounds(cell);
        if end == CROWDED {
            return self.crowded_entries(cell, at, crowded);
        }
        (self.first().wrapping_add(begin), self.first().wrapping_add(end))
    }

    #[cold]
    fn crowded_entries(&self, cell: usize, at: u32, crowded: &[CrowdedGroup]) -> (u32, u32) {
        let ends = ends_of(at, crowded);
        let before = if cell == 0 { 0 } else { ends[cell - 1] };
        (self.first().wrapping_add(before), self.first().wrapping_add(ends[cell]))
    }
}

/// The word and the bit where the bounds of a cell begin.
#[inline]
const fn place(cell: usize) -> (usize, u32) {
    let bit = END_BITS * (cell % GROUP_CELLS) as u32;
    ((bit / 32) as usize, bit % 32)
}

/// The word of the number of the first entry.
const FIRST: usize = 15;

fn ends_of(group: u32, crowded: &[CrowdedGroup]) -> CellEnds {
    let at = crowded.binary_search_by_key(&group, |crowded| crowded.group);
    at.map_or([0; GROUP_CELLS], |at| crowded[at].ends)
}

/// The group of a cell.
#[inline]
pub(crate) fn group_of(cell: Head, cell_bits: u32) -> u32 {
    cell.wrapping_shr((32 + GROUP_BITS).wrapping_sub(cell_bits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_group_gives_back_its_cells(
            first in 0..u32::MAX / 2,
            counts in prop::collection::vec(
                prop_oneof![0..10_u32, 0..1_100_u32, 0..100_000_u32], GROUP_CELLS),
            at: u32,
        ) {
            let ends = counts.iter().scan(0, |end, count| {
                *end += count;
                Some(*end)
            });
            let ends: CellEnds = ends.collect::<Vec<_>>().try_into().expect("as many as cells");
            let (group, is_crowded) = CellGroup::of(first, &ends);
            prop_assert_eq!(is_crowded, ends[GROUP_CELLS - 1] >= 0x3fff);
            prop_assert_eq!(is_crowded, group.is_crowded());
            let aside = [CrowdedGroup { group: at, ends }];
            let crowded = if is_crowded { &aside[..] } else { &[] };
            prop_assert_eq!(group.first(), first);
            prop_assert_eq!(group.ends(at, crowded), ends);
            for (cell, &end) in ends.iter().enumerate() {
                let entries = group.entries(cell as u32, at, crowded);
                prop_assert_eq!(entries, (first + end - counts[cell], first + end));
            }
        }
    }
}
