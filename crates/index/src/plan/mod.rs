//! Which tables an index has: on which bits each is sorted, and how far it is searched.
//!
//! The generalised pigeonhole principle: give table i a key of `b_i` bits (disjoint key bits) and a
//! search radius `r_i`. If the sum of `r_i + 1` is at least `k + 1`, every fingerprint within
//! distance k of the query differs from it in at most `r_i` key bits of some table i (otherwise the
//! differences would add up to more than k). So a look-up that visits, in each table, every cell
//! within `r_i` of its key meets every match: Manku et al. is the case of all radii 0.
//!
//! An index has two plans ([`Plans`]): small segments have a table for each block of 16 bits, whose
//! buckets are so short that they are read whole ([`crate::buckets`]); large ones have as
//! few tables as will do, cut into cells ([`crate::tables::table`]). Both follow from the
//! largest distance alone, so that segments of one plan have the same tables in the same orders,
//! and merging them is one pass over sorted entries. What depends on a table's size (cells, bits
//! kept, probes) is its [`crate::tables::geometry`].

pub(crate) mod fold;

use std::fmt;

use nearprint_fingerprint::Distance;

use crate::permutation::Permuted;
use crate::plan::fold::Head;

/// The key by which a table is sorted: a rotated fingerprint, its upper half perhaps folded.
///
/// The upper 32 bits are the head, the lower ones are bits of the fingerprint as they are.
pub type Key = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TablePlan {
    /// The first of the key bits, counted from the most significant bit.
    pub first_bit: u32,
    /// The number of key bits: 1 to 32.
    pub key_bits: u32,
    /// The number of key bits that may differ.
    pub radius: u32,
    /// Whether the upper half is folded (see [`crate::plan::fold`]): 32 key bits, radius 0
    /// or 1.
    pub folded: bool,
}

impl TablePlan {
    /// The key bits as a mask over the permuted fingerprint.
    pub fn mask(self) -> u64 {
        (u64::MAX << (64 - self.key_bits)).rotate_right(self.first_bit)
    }

    /// The key of a fingerprint; a bijection.
    #[inline]
    pub fn key(self, value: Permuted) -> Key {
        let rotated = value.rotate_left(self.first_bit);
        if self.folded {
            u64::from(fold::fold(head(rotated))) << 32 | u64::from(low(rotated))
        } else {
            rotated
        }
    }

    /// The inverse of [`Self::key`].
    #[inline]
    pub fn value(self, key: Key) -> Permuted {
        let rotated = if self.folded {
            u64::from(fold::unfold(head(key))) << 32 | u64::from(low(key))
        } else {
            key
        };
        rotated.rotate_right(self.first_bit)
    }
}

/// The plans of an index, exact up to one distance: which one a segment has follows from its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plans {
    /// Blocks of 16 bits, for segments with at most `small_max` fingerprints.
    pub small: Plan,
    /// For all other segments.
    pub large: Plan,
    /// The largest number of fingerprints of a small segment.
    pub small_max: u64,
}

/// The largest number of fingerprints of a small segment: buckets of 32 on average, three lines
/// each. Slightly above, a look-up in cells is as quick and takes less memory.
pub const SMALL_MAX: u64 = 1 << 21;

impl Plans {
    /// The plans of an index that is exact up to `distance_max`.
    pub fn of(distance_max: Distance) -> Self {
        let small = Plan::blocks(BLOCK_BITS_MAX, distance_max);
        Self { small, large: Plan::of(distance_max), small_max: SMALL_MAX }
    }

    /// Whether a segment with this many fingerprints is small.
    pub fn is_small(&self, count: u64) -> bool {
        count <= self.small_max
    }

    /// The plan of a segment with this many fingerprints.
    pub fn for_count(&self, count: u64) -> &Plan {
        self.of_segment(self.is_small(count))
    }

    /// The plan of small or of large segments.
    pub fn of_segment(&self, small: bool) -> &Plan {
        if small { &self.small } else { &self.large }
    }
}

/// The upper half of a key.
pub fn head(key: Key) -> Head {
    (key >> 32) as u32
}

/// The lower half of a key.
pub fn low(key: Key) -> u32 {
    key as u32
}

/// The bits of one of the four blocks of a fingerprint.
pub const BLOCK_BITS_MAX: u32 = 16;

/// The tables of a segment, exact up to `distance_max`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    tables: Vec<TablePlan>,
    /// The tables are buckets, not cells.
    in_buckets: bool,
    distance_max: Distance,
    /// The radii of the tables, for each distance of a look-up.
    radii: [Radii; DISTANCES],
}

/// The number of distances that a look-up may have, and so the largest number of tables of a plan.
const DISTANCES: usize = Distance::LOOKUP_MAX.get() as usize + 1;

/// The radius of each table in a look-up: `None` where it need not be visited.
pub type Radii = [Option<u32>; DISTANCES];

impl Plan {
    /// The plan of large segments, exact up to `distance_max`.
    ///
    /// Up to 3: two halves, each searched within one bit at most, folded where it is. From 4 on:
    /// three thirds, at distance 12 searched within 4, 3 and 3 bits.
    /// `docs/decisions/0007-two-table-plans.md` explains why.
    pub fn of(distance_max: Distance) -> Self {
        let half =
            |first_bit, radius| TablePlan { first_bit, key_bits: 32, radius, folded: radius > 0 };
        let tables = match distance_max.get() {
            0 => vec![half(0, 0)],
            1 => vec![half(0, 0), half(32, 0)],
            2 => vec![half(0, 1), half(32, 0)],
            3 => vec![half(0, 1), half(32, 1)],
            more => Self::equal(3, 64, u32::from(more)),
        };
        Self::with(tables, distance_max)
    }

    /// Equal blocks of `bits` bits in all, the radii as equal as can be, the larger ones first.
    pub fn equal_blocks(blocks: u32, bits: u32, distance_max: Distance) -> Self {
        let tables = Self::equal(blocks, bits, u32::from(distance_max.get()));
        Self::with(tables, distance_max)
    }

    /// The tables for a search of exactly this distance.
    fn with(tables: Vec<TablePlan>, distance_max: Distance) -> Self {
        let radii = std::array::from_fn(|distance| radii_for(&tables, distance as u32));
        Self { tables, in_buckets: false, distance_max, radii }
    }

    fn equal(blocks: u32, bits: u32, distance: u32) -> Vec<TablePlan> {
        let needed = distance + 1;
        let start = |i: u32| i * bits / blocks;
        (0..blocks.min(needed))
            .map(|i| TablePlan {
                first_bit: start(i),
                key_bits: (start(i + 1) - start(i)).min(32),
                radius: needed / blocks.min(needed) - 1
                    + u32::from(i < needed % blocks.min(needed)),
                folded: false,
            })
            .collect()
    }

    /// A plan of at most four tables on equal blocks of at most `key_bits` bits: what deltas and
    /// small segments have.
    pub fn blocks(key_bits: u32, distance_max: Distance) -> Self {
        let key_bits = key_bits.clamp(4, BLOCK_BITS_MAX);
        let blocks = (u32::from(distance_max.get()) + 1).min(4);
        let plan = Self::equal_blocks(blocks, blocks * key_bits, distance_max);
        Self { in_buckets: true, ..plan }
    }

    pub fn tables(&self) -> &[TablePlan] {
        &self.tables
    }

    /// Whether a key is that of a bucket, which is read whole; otherwise tables are cut into cells.
    pub fn in_buckets(&self) -> bool {
        self.in_buckets
    }

    /// The largest distance it is exact for.
    pub fn distance_max(&self) -> Distance {
        self.distance_max
    }

    /// The radius of each table for a look-up of `distance`, at most the largest.
    pub fn radii(&self, distance: Distance) -> &Radii {
        &self.radii[usize::from(distance.get()).min(DISTANCES - 1)]
    }
}

/// The radii that cost most are lowered until they just cover the distance.
fn radii_for(tables: &[TablePlan], distance: u32) -> Radii {
    let mut radii = [None; DISTANCES];
    for (radius, table) in radii.iter_mut().zip(tables) {
        *radius = Some(table.radius);
    }
    let covered: u32 = tables.iter().map(|table| table.radius + 1).sum();
    for _ in distance + 1..covered {
        if let Some(most) = radii.iter_mut().max_by_key(|radius| radius.map_or(0, |r| r + 1)) {
            *most = most.and_then(|radius| radius.checked_sub(1));
        }
    }
    radii
}

/// `32r1f+32r1f`: key bits and radius of each table; f where folded, b where in buckets.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, table) in self.tables.iter().enumerate() {
            let plus = if i == 0 { "" } else { "+" };
            let form = match (table.folded, self.in_buckets) {
                (true, _) => "f",
                (false, true) => "b",
                (false, false) => "",
            };
            write!(f, "{plus}{}r{}{form}", table.key_bits, table.radius)?;
        }
        Ok(())
    }
}

/// Every mask over the low `bits` bits with at most `ones` bits set, fewest first.
pub fn masks_within(bits: u32, ones: u32) -> impl Iterator<Item = u64> {
    let end = 1_u64 << bits;
    (0..=ones.min(bits)).flat_map(move |count| {
        // Gosper's hack: the next larger number with the same number of ones.
        std::iter::successors(Some((1_u64 << count) - 1), |&mask| {
            let lowest = mask & mask.wrapping_neg();
            let carried = mask.checked_add(lowest).filter(|_| mask != 0)?;
            // Shifting divides by the lowest one.
            Some(carried | ((mask ^ carried) >> (2 + lowest.trailing_zeros())))
        })
        .take_while(move |&mask| mask < end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plans() -> impl Iterator<Item = (Distance, Plan)> {
        (0..=12).map(|d| Distance::new(d).unwrap()).flat_map(|distance| {
            [Plan::of(distance), Plan::blocks(16, distance), Plan::blocks(6, distance)]
                .into_iter()
                .chain((1..=13).map(move |blocks| Plan::equal_blocks(blocks, 64, distance)))
                .map(move |plan| (distance, plan))
        })
    }

    #[test]
    fn every_plan_meets_the_pigeonhole_condition_on_disjoint_bits() {
        for (distance, plan) in plans() {
            let visited = plan.tables().iter().zip(plan.radii(distance));
            let visited = visited.filter(|(_, radius)| radius.is_some()).map(|(table, _)| table);
            let covered: u32 = visited.clone().map(|t| t.radius + 1).sum();
            assert!(covered > u32::from(distance.get()), "{plan} for distance {distance}");
            let masks = visited.map(|t| t.mask());
            assert_eq!(
                masks.clone().fold(0, |all, mask| all | mask).count_ones(),
                masks.map(u64::count_ones).sum::<u32>(),
                "{plan}: key bits overlap"
            );
            let folds = plan.tables().iter().filter(|table| table.folded);
            assert!(folds.into_iter().all(|table| (table.key_bits, table.radius) == (32, 1)));
        }
    }

    #[test]
    fn radii_for_a_smaller_distance_still_cover_it_and_no_more() {
        for (max, plan) in plans() {
            for asked in 0..=max.get() {
                let radii = plan.radii(Distance::new(asked).unwrap());
                let covered: u32 = radii.iter().map(|radius| radius.map_or(0, |r| r + 1)).sum();
                assert_eq!(covered, u32::from(asked) + 1, "{plan} asked {asked}");
            }
        }
    }

    #[test]
    fn a_plan_shows_its_tables() {
        let show = |distance| Plan::of(Distance::new(distance).unwrap()).to_string();
        assert_eq!(show(3), "32r1f+32r1f");
        assert_eq!(show(6), "21r2+21r1+22r1");
        let small = Plans::of(Distance::new(6).unwrap()).small;
        assert_eq!(small.to_string(), "16r1b+16r1b+16r1b+16r0b");
    }

    #[test]
    fn masks_are_all_and_each_once() {
        for (bits, ones) in [(1, 0), (1, 1), (5, 2), (22, 1), (9, 3), (4, 8)] {
            let mut masks: Vec<u64> = masks_within(bits, ones).collect();
            masks.sort_unstable();
            let expected: Vec<u64> =
                (0..1 << bits).filter(|mask: &u64| mask.count_ones() <= ones).collect();
            assert_eq!(masks, expected, "{bits} bits, {ones} ones");
        }
    }

    proptest! {
        #[test]
        fn keys_are_a_bijection_that_keeps_the_low_half(value: u64, distance in 0..=12_u8) {
            for table in Plan::of(Distance::new(distance).unwrap()).tables() {
                let key = table.key(value);
                prop_assert_eq!(table.value(key), value);
                prop_assert_eq!(low(key), low(value.rotate_left(table.first_bit)));
            }
        }
    }
}
