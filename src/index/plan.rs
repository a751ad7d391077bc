//! Which tables a segment gets: how many, on how many key bits, searched how far.
//!
//! The generalised pigeonhole principle: give table i a key of `b_i` bits (disjoint key bits) and a
//! search radius `r_i`. If the sum of `r_i + 1` is at least `k + 1`, every fingerprint within
//! distance k of the query differs from it in at most `r_i` key bits of some table i (otherwise the
//! differences would add up to more than k). So a look-up that visits, in each table, every bucket
//! within `r_i` of its key meets every match: Manku et al. is the case of all radii 0.
//!
//! [`Plan::choose`] weighs the plans for a segment's size by a cost model: cost is the number of
//! independent cache misses, plus the candidates to compare. The model's constants are those of one
//! Zen 4/5 core; they change the choice, never the answer.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "an estimate of nanoseconds decides nothing but the layout"
)]

use std::fmt;

use crate::fingerprint::Distance;

/// One table of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TablePlan {
    /// The first of the key bits, counted from the most significant bit.
    pub first_bit: u32,
    /// How many bits select the bucket: 1 to [`KEY_BITS_MAX`].
    pub key_bits: u32,
    /// How many of the key bits may differ.
    pub radius: u32,
}

impl TablePlan {
    /// The key bits as a mask over the permuted fingerprint.
    pub fn mask(self) -> u64 {
        (u64::MAX << (64 - self.key_bits)).rotate_right(self.first_bit)
    }

    /// How many buckets a look-up visits.
    pub fn probes(self) -> u64 {
        (0..=self.radius).map(|flips| choose(self.key_bits, flips)).sum()
    }
}

/// The tables of a segment, exact up to `distance_max`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    tables: Vec<TablePlan>,
    distance_max: Distance,
}

/// Longer keys would make directories larger than any segment wants.
pub const KEY_BITS_MAX: u32 = 28;

/// Tables of a segment of this size or more must fit into [`BYTES_MAX_LARGE`] a fingerprint.
const LARGE: u64 = 3_000_000;
const BYTES_MAX_LARGE: f64 = 28.0;
const BYTES_MAX_SMALL: f64 = 64.0;

impl Plan {
    /// The cheapest plan for a segment of `count` fingerprints that is exact up to `distance_max`.
    pub fn choose(count: u64, distance_max: Distance) -> Self {
        let bytes_max = if count < LARGE { BYTES_MAX_SMALL } else { BYTES_MAX_LARGE };
        let budget = bytes_max * count.max(1_000) as f64;
        radii_of(u32::from(distance_max.get()))
            .iter()
            .map(|radii| Self::with_radii(count, radii, distance_max, budget))
            .min_by(|a, b| {
                // Whatever is above the budget loses to what is below it.
                let rank =
                    |plan: &Self| ((plan.bytes(count) - budget).max(0.0), plan.cost_ns(count));
                let ((over_a, cost_a), (over_b, cost_b)) = (rank(a), rank(b));
                over_a.total_cmp(&over_b).then(cost_a.total_cmp(&cost_b))
            })
            .expect("there is a plan for every distance")
    }

    /// Key bits for given radii: one more bit for whichever table saves most by it, while any does
    /// and the directories stay within the budget.
    fn with_radii(count: u64, radii: &[u32], distance_max: Distance, budget: f64) -> Self {
        let cap = KEY_BITS_MAX.min(64 / radii.len() as u32).max(1);
        let total_max = KEY_BITS_MAX.min(count.max(2).ilog2() + 2);
        let mut tables: Vec<TablePlan> = radii
            .iter()
            .map(|&radius| TablePlan {
                first_bit: 0,
                key_bits: (radius + 1).max(4).min(cap),
                radius,
            })
            .collect();
        loop {
            let used: u32 = tables.iter().map(|table| table.key_bits).sum();
            let bytes = bytes(&tables, count);
            let fits = |table: &TablePlan| bytes + 4.0 * (1_u64 << table.key_bits) as f64 <= budget;
            let best = (0..tables.len())
                .filter(|&i| used < 64 && tables[i].key_bits < total_max && fits(&tables[i]))
                .map(|i| {
                    let longer = TablePlan { key_bits: tables[i].key_bits + 1, ..tables[i] };
                    (table_cost_ns(longer, count) - table_cost_ns(tables[i], count), i)
                })
                .min_by(|a, b| a.0.total_cmp(&b.0));
            match best {
                Some((change, i)) if change < 0.0 => tables[i].key_bits += 1,
                _ => break,
            }
        }
        let mut first_bit = 0;
        for table in &mut tables {
            table.first_bit = first_bit;
            first_bit += table.key_bits;
        }
        Self { tables, distance_max }
    }

    /// A plan of at most four tables on equal blocks of at most `key_bits` bits: what a delta uses.
    pub fn blocks(key_bits: u32, distance_max: Distance) -> Self {
        let needed = u32::from(distance_max.get()) + 1;
        let count = needed.min(4);
        let tables = (0..count)
            .map(|i| TablePlan {
                first_bit: i * 16,
                key_bits: key_bits.clamp(4, 16),
                radius: needed / count - 1 + u32::from(i < needed % count),
            })
            .collect();
        Self { tables, distance_max }
    }

    /// The tables.
    pub fn tables(&self) -> &[TablePlan] {
        &self.tables
    }

    /// The largest distance it is exact for.
    pub fn distance_max(&self) -> Distance {
        self.distance_max
    }

    /// The radius of each table for a look-up of `distance`: `None` where the table need not be
    /// visited. The radii that cost most are lowered first.
    pub fn radii(&self, distance: Distance) -> impl Iterator<Item = Option<u32>> {
        let mut radii: [Option<u32>; 9] = [None; 9];
        for (radius, table) in radii.iter_mut().zip(&self.tables) {
            *radius = Some(table.radius);
        }
        let covered: u32 = self.tables.iter().map(|table| table.radius + 1).sum();
        for _ in u32::from(distance.get()) + 1..covered {
            if let Some(most) = radii.iter_mut().max_by_key(|radius| radius.map_or(0, |r| r + 1)) {
                *most = most.and_then(|radius| radius.checked_sub(1));
            }
        }
        radii.into_iter().take(self.tables.len())
    }

    /// Expected bytes of the tables: entries and directories.
    pub fn bytes(&self, count: u64) -> f64 {
        bytes(&self.tables, count)
    }

    /// Expected nanoseconds of one look-up at the largest distance.
    pub fn cost_ns(&self, count: u64) -> f64 {
        self.tables.iter().map(|&table| table_cost_ns(table, count)).sum()
    }
}

fn bytes(tables: &[TablePlan], count: u64) -> f64 {
    tables.iter().map(|t| 8.0 * count as f64 + 4.0 * (1_u64 << t.key_bits) as f64).sum()
}

/// `22r1+21r0+21r0`: key bits and radius of each table.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, table) in self.tables.iter().enumerate() {
            let plus = if i == 0 { "" } else { "+" };
            write!(f, "{plus}{}r{}", table.key_bits, table.radius)?;
        }
        Ok(())
    }
}

/// The cost model for one table: cache lines, and what happens to them.
///
/// Lines of one step are loaded side by side, so that each costs a share of a miss; neighbouring
/// keys under flips of the four low bits share a directory line; a bucket lies at a random place,
/// so that each further entry adds an eighth of a line.
fn table_cost_ns(table: TablePlan, count: u64) -> f64 {
    const PROBE_NS: f64 = 3.0;
    const COMPARE_NS: f64 = 0.8;
    let buckets = (1_u64 << table.key_bits) as f64;
    let in_bucket = count as f64 / buckets;
    let line_ns = |bytes: f64| match bytes as u64 {
        0..500_000 => 2.0,
        500_000..4_000_000 => 7.0,
        _ => 12.0,
    };
    let probes = table.probes() as f64;
    let high_flips = TablePlan { key_bits: table.key_bits.saturating_sub(4), ..table };
    let directory_lines = high_flips.probes() as f64;
    let filled = 1.0 - (-in_bucket).exp();
    let data_lines = filled + (in_bucket - filled).max(0.0) / 8.0;
    directory_lines * line_ns(4.0 * buckets)
        + probes * data_lines * line_ns(8.0 * count as f64)
        + probes * (PROBE_NS + in_bucket * COMPARE_NS)
}

/// Every non-increasing list of radii whose `r + 1` add up to `distance + 1`.
fn radii_of(distance: u32) -> Vec<Vec<u32>> {
    fn extend(left: u32, most: u32, prefix: &mut Vec<u32>, all: &mut Vec<Vec<u32>>) {
        if left == 0 {
            all.push(prefix.clone());
            return;
        }
        for part in 1..=left.min(most) {
            prefix.push(part - 1);
            extend(left - part, part, prefix, all);
            prefix.pop();
        }
    }
    let mut all = Vec::new();
    // A radius above 3 visits thousands of buckets; no size wants it.
    extend(distance + 1, 4, &mut Vec::new(), &mut all);
    all
}

/// The binomial coefficient.
fn choose(n: u32, k: u32) -> u64 {
    (0..u64::from(k)).fold(1, |product, i| product * (u64::from(n).saturating_sub(i)) / (i + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plans() -> impl Iterator<Item = (Distance, Plan)> {
        (0..=8).map(|d| Distance::new(d).unwrap()).flat_map(|distance| {
            [0, 1, 100, 65_536, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000]
                .into_iter()
                .map(move |count| Plan::choose(count, distance))
                .chain([Plan::blocks(16, distance), Plan::blocks(6, distance)])
                .map(move |plan| (distance, plan))
        })
    }

    #[test]
    fn every_plan_meets_the_pigeonhole_condition_on_disjoint_bits() {
        for (distance, plan) in plans() {
            let covered: u32 = plan.tables().iter().map(|t| t.radius + 1).sum();
            assert!(covered > u32::from(distance.get()), "{plan} for distance {distance}");
            let masks = plan.tables().iter().map(|t| t.mask());
            assert_eq!(
                masks.clone().fold(0, |all, mask| all | mask).count_ones(),
                masks.map(u64::count_ones).sum::<u32>(),
                "{plan}: key bits overlap"
            );
        }
    }

    #[test]
    fn radii_for_a_smaller_distance_still_cover_it_and_no_more() {
        for (max, plan) in plans() {
            for asked in 0..=max.get() {
                let radii = plan.radii(Distance::new(asked).unwrap());
                let covered: u32 = radii.map(|radius| radius.map_or(0, |r| r + 1)).sum();
                assert_eq!(covered, u32::from(asked) + 1, "{plan} asked {asked}");
            }
        }
    }

    #[test]
    fn large_segments_stay_within_their_memory() {
        for count in [LARGE, 10_000_000, 100_000_000] {
            for distance in [3, 6] {
                let plan = Plan::choose(count, Distance::new(distance).unwrap());
                let each = plan.bytes(count) / count as f64;
                assert!(each <= BYTES_MAX_LARGE, "{plan}: {each} bytes at {count}");
            }
        }
    }
}
