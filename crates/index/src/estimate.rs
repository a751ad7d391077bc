//! Estimates of the memory of an index, for any size, before it is built.
//!
//! They follow from the geometry of the tables alone, for fingerprints without skew in one segment.
//! Pure functions, which decide nothing that is stored; tests compare them with real tables.
//! `nearprint plan` shows them.
#![expect(clippy::cast_precision_loss, reason = "an estimate decides nothing that is stored")]

use nearprint_fingerprint::{LABELS, Sample};

use crate::buckets;
use crate::labels;
use crate::levels::ids::BITS_OF_ID_IN_FILE;
use crate::plan::Plan;
use crate::tables::geometry::Geometry;

/// Memory of the sample of a sketch in a place.
const SAMPLE_BYTES: f64 = size_of::<Sample>() as f64;

/// Memory of the hash of an id, and the number of its document.
const ID_BYTES: f64 = (size_of::<u64>() + 2 * size_of::<u32>()) as f64;

/// The memory of an index with some plan and size, in bytes for each fingerprint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryEstimate {
    /// All tables.
    pub tables: f64,
    /// The postings.
    pub postings: f64,
    /// In addition, if the document has a sketch.
    pub sample: f64,
    /// In addition, if the document has an id.
    pub id: f64,
    /// In addition, if similar texts beyond the distance are searched.
    pub labels: f64,
    /// In addition, while everything is merged into one segment: the first table with its postings,
    /// or another table.
    pub merging: f64,
    /// What stays in memory of a fingerprint where tables and postings are in files.
    pub in_files: f64,
    /// In addition, of a page.
    pub page_in_files: f64,
}

impl MemoryEstimate {
    /// The estimate for `count` fingerprints.
    pub fn of(plan: &Plan, count: u64) -> Self {
        let postings = count as f64 * posting_bits(count) / 8.0;
        let (tables, largest, in_files) = if plan.in_buckets() {
            let tables = buckets::bytes(plan.tables().len(), count) as f64;
            // Small segments are never in files.
            (tables, tables, tables + postings)
        } else {
            let geometries = plan.tables().iter().map(|&table| Geometry::of(table, count));
            let bytes: Vec<f64> = geometries.clone().map(|table| table.bytes(count)).collect();
            let largest = bytes.iter().copied().fold(0.0, f64::max);
            (bytes.iter().sum(), largest, geometries.map(Geometry::directory_bytes).sum())
        };
        let per_fingerprint = 1.0 / count.max(1) as f64;
        let labels =
            |of_table: fn(u64) -> u64| (LABELS as u64 * of_table(count)) as f64 * per_fingerprint;
        let (labels, directories) =
            (labels(labels::table::bytes), labels(labels::table::directory_bytes));
        let page_in_files = if plan.in_buckets() {
            SAMPLE_BYTES + ID_BYTES + labels
        } else {
            BITS_OF_ID_IN_FILE as f64 / 8.0 + directories
        };
        Self {
            tables: tables * per_fingerprint,
            postings: postings * per_fingerprint,
            sample: SAMPLE_BYTES,
            id: ID_BYTES,
            labels,
            merging: (largest + postings) * per_fingerprint,
            in_files: in_files * per_fingerprint,
            page_in_files,
        }
    }

    /// Tables and postings: a bare fingerprint.
    pub fn bytes(&self) -> f64 {
        self.tables + self.postings
    }

    /// What a page with id, sketch and labels takes in addition to its fingerprint. While it is
    /// merged, it takes that twice.
    pub fn of_page(&self) -> f64 {
        self.sample + self.id + self.labels
    }
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
    use crate::labels::table::LabelTableBuilder;
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
    fn labels_take_what_a_real_table_takes() {
        for count in [1, 1_000, 100_000] {
            let mut builder = LabelTableBuilder::new(count, count);
            (0..count as u64).for_each(|row| builder.push(row << 40, row as u32));
            assert_eq!(labels::table::bytes(count as u64), builder.finish().bytes() as u64);
        }
        let estimate = MemoryEstimate::of(&Plans::of(distance(3)).large, 100_000_000);
        assert_near("labels", estimate.labels, 32.7, 0.01);
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
    fn bare_fingerprints_take_at_most_15_bytes_each_and_sketches_8_more() {
        let at = |count| {
            let plan = Plans::of(distance(3)).for_count(count).clone();
            MemoryEstimate::of(&plan, count)
        };
        assert!(at(100_000_000).bytes() <= 15.0);
        assert!(at(1_000_000_000).bytes() <= 14.5);
        assert_near("a place for each", at(100_000_000).sample, 8.0, 1e-9);
        assert_near("an id", at(100_000_000).id, 16.0, 1e-9);
    }
}
