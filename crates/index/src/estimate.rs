//! Estimates of the memory of an index, for any size, before it is built.
//!
//! They follow from the geometry of the tables alone, for fingerprints without skew and documents
//! without ids, in one segment. Pure functions, which decide nothing that is stored; tests compare
//! them with real tables. `nearprint plan` shows them.
#![expect(clippy::cast_precision_loss, reason = "an estimate decides nothing that is stored")]

use nearprint_fingerprint::Sample;

use crate::buckets;
use crate::plan::Plan;
use crate::tables::geometry::Geometry;

/// Memory of the sample of a sketch in a place.
const SAMPLE_BYTES: f64 = size_of::<Sample>() as f64;

/// The memory of an index with some plan and size, in bytes for each fingerprint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryEstimate {
    /// All tables.
    pub tables: f64,
    /// The postings.
    pub postings: f64,
    /// In addition, if the document has a sketch.
    pub sample: f64,
    /// In addition, while everything is merged into one segment: the first table with its postings,
    /// or another table.
    pub merging: f64,
}

impl MemoryEstimate {
    /// The estimate for `count` fingerprints.
    pub fn of(plan: &Plan, count: u64) -> Self {
        let (tables, largest, places) = if plan.in_buckets() {
            let tables = buckets::bytes(plan.tables().len(), count) as f64;
            (tables, tables, count as f64)
        } else {
            let geometries = plan.tables().iter().map(|&table| Geometry::of(table, count));
            let bytes: Vec<f64> = geometries.map(|geometry| geometry.bytes(count)).collect();
            (bytes.iter().sum(), bytes.iter().copied().fold(0.0, f64::max), places(plan, count))
        };
        let postings = places * posting_bits(count) / 8.0;
        let per_fingerprint = 1.0 / count.max(1) as f64;
        Self {
            tables: tables * per_fingerprint,
            postings: postings * per_fingerprint,
            sample: places * SAMPLE_BYTES * per_fingerprint,
            merging: (largest + postings) * per_fingerprint,
        }
    }

    /// Tables and postings.
    pub fn bytes(&self) -> f64 {
        self.tables + self.postings
    }
}

/// The places for postings: one for each slot of the first table.
fn places(plan: &Plan, count: u64) -> f64 {
    plan.tables().first().map_or(0.0, |&table| Geometry::of(table, count).slots(count))
}

/// The bits of a posting: as many as the largest sequence has, counted from the first.
fn posting_bits(count: u64) -> f64 {
    f64::from(u64::BITS - count.saturating_sub(1).leading_zeros())
}

#[cfg(test)]
mod tests {
    use nearprint_fingerprint::Distance;

    use super::*;
    use crate::buckets::Buckets;
    use crate::plan::{Plans, TablePlan};
    use crate::tables::table::Table;

    fn distance(bits: u8) -> Distance {
        Distance::new(bits).unwrap()
    }

    fn numbers(count: u64) -> Vec<u64> {
        // SplitMix64.
        let mix = |z: u64| {
            let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        };
        (1..=count).map(|i| mix(i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
    }

    fn real_bytes(plan: &Plan, values: &[u64]) -> usize {
        if plan.in_buckets() {
            return Buckets::build(plan.distance_max(), values).bytes();
        }
        let build = |(role, table): (usize, &TablePlan)| {
            let mut keys: Vec<u64> = values.iter().map(|&value| table.key(value)).collect();
            keys.sort_unstable();
            Table::build(*table, role, &keys).bytes()
        };
        plan.tables().iter().enumerate().map(build).sum()
    }

    fn assert_near(what: &str, estimated: f64, real: f64, within: f64) {
        let ratio = estimated / real;
        assert!(
            (ratio - 1.0).abs() <= within,
            "{what}: estimated {estimated:.2}, really {real:.2}"
        );
    }

    #[test]
    fn bytes_are_those_of_real_tables() {
        for count in [100_000, 1_000_000] {
            let mut values = numbers(count);
            values.sort_unstable();
            for bits in [0, 3, 5, 8] {
                let Plans { small, large, .. } = Plans::of(distance(bits));
                for plan in [small, large] {
                    let estimate = MemoryEstimate::of(&plan, count);
                    let real = real_bytes(&plan, &values) as f64 / count as f64;
                    assert_near(&format!("{plan} at {count}"), estimate.tables, real, 0.10);
                }
            }
        }
    }

    #[test]
    fn memory_grows_with_the_count() {
        let counts = [100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];
        for bits in 0..=12 {
            let at = |count: u64| {
                let plan = Plan::of(distance(bits));
                MemoryEstimate::of(&plan, count).bytes() * count as f64
            };
            assert!(counts.windows(2).all(|pair| at(pair[0]) <= at(pair[1])), "{bits} bits");
        }
    }

    #[test]
    fn bare_fingerprints_take_at_most_20_bytes_each_and_sketches_8_for_each_place() {
        let at = |count| {
            let plan = Plans::of(distance(3)).for_count(count).clone();
            MemoryEstimate::of(&plan, count)
        };
        assert!(at(100_000_000).bytes() <= 20.0);
        assert_near("a place for each", at(1_000_000).sample, 8.0, 1e-9);
        assert_near("a fill of 0.8", at(100_000_000).sample, 10.0, 0.04);
    }
}
