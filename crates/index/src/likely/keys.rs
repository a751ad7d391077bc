//! Which buckets of a small segment, and which chains of a delta, a likely search visits.
//!
//! The keys of their tables are blocks of 16 bits, which are smaller than the parts of the rule.
//! For each set of flips that is expected in a part, the search visits a key of at least one block
//! within that part that has just these flips.

use smallvec::SmallVec;

use super::LikelyRule;
use crate::permutation::Permuted;
use crate::plan::{Plan, TablePlan};

/// The keys to visit in the tables of one plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Each entry is the number of a table, and the bits in which the key to visit differs from
    /// that of the query.
    Listed(Vec<(usize, u32)>),
    /// No block lies within one of the parts, so all fingerprints are compared. Only tiny levels
    /// have such plans.
    All,
}

impl Keys {
    /// The keys of a plan on blocks.
    pub(crate) fn of(rule: &LikelyRule, plan: &Plan) -> Self {
        let mut keys = Vec::with_capacity(64);
        for (number, part) in rule.parts.iter().enumerate() {
            let within = |(_, table): &(usize, &TablePlan)| table.mask() & !part.bits == 0;
            let blocks: SmallVec<[(usize, TablePlan); 2]> =
                plan.tables().iter().enumerate().filter(within).map(|(i, t)| (i, *t)).collect();
            match *blocks {
                [] => return Self::All,
                [one, other, ..] if one.1.mask() | other.1.mask() == part.bits => {
                    of_two_blocks(rule.listed(number), [one, other], &mut keys);
                }
                [one, ..] => of_one_block(rule.listed(number), one, &mut keys),
            }
        }
        Self::Listed(keys)
    }
}

/// The key bits of a table that these flips change.
fn key_flips(table: TablePlan, flips: Permuted) -> u32 {
    ((flips & table.mask()).rotate_left(table.first_bit) >> (64 - table.key_bits)) as u32
}

/// The keys for a part of two blocks. Flips in only one block leave the key of the other unchanged.
/// For sets of flips in both blocks, keys of only one block are visited: the one that needs fewer.
fn of_two_blocks(
    listed: impl Iterator<Item = Permuted>,
    blocks: [(usize, TablePlan); 2],
    keys: &mut Vec<(usize, u32)>,
) {
    let mut crossing: [SmallVec<[u32; 32]>; 2] = Default::default();
    for flips in listed {
        let of_blocks = blocks.map(|(_, table)| key_flips(table, flips));
        if of_blocks.contains(&0) {
            continue;
        }
        for (all, flips) in crossing.iter_mut().zip(of_blocks) {
            if !all.contains(&flips) {
                all.push(flips);
            }
        }
    }
    let [one, other] = &crossing;
    let fewer = usize::from(other.len() < one.len());
    keys.extend(blocks.map(|(role, _)| (role, 0)));
    keys.extend(crossing[fewer].iter().map(|&flips| (blocks[fewer].0, flips)));
}

/// The keys for a part with one usable block: the flips of each set that lie in that block.
fn of_one_block(
    listed: impl Iterator<Item = Permuted>,
    (role, table): (usize, TablePlan),
    keys: &mut Vec<(usize, u32)>,
) {
    let begin = keys.len();
    keys.push((role, 0));
    keys.extend((0..table.key_bits).map(|bit| (role, 1 << bit)));
    for flips in listed {
        let key = (role, key_flips(table, flips));
        if !keys[begin..].contains(&key) {
            keys.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use nearprint_fingerprint::Distance;
    use nearprint_fingerprint::Margins;
    use proptest::prelude::*;

    use super::*;
    use crate::likely::LIKELY_DISTANCE_MAX;
    use crate::permutation::Permutation;
    use crate::plan::Plans;

    proptest! {
        /// Whatever the rule finds has one of the keys.
        #[test]
        fn each_found_fingerprint_has_one_of_the_keys(
            margins in prop::array::uniform32(0..40_u32),
            bits in prop::collection::vec(0..64_u32, 0..LIKELY_DISTANCE_MAX as usize),
            distance in 1..=12_u8,
        ) {
            let magnitudes = std::array::from_fn(|bit| margins[bit % 32] + bit as u32 / 32);
            let plans = Plans::of(Distance::new(distance).unwrap());
            let permutation = Permutation::from_secret(u64::from(distance));
            let rule = LikelyRule::of(&plans.large, &permutation, &Margins::new(magnitudes));
            let Keys::Listed(keys) = Keys::of(&rule, &plans.small) else {
                panic!("blocks of 16 bits cover all parts");
            };
            prop_assert!(keys.len() < 150, "{} keys", keys.len());
            let ranked = |bit: u32| rule.parts[bit as usize % rule.parts.len()].ranked[bit as usize % 6];
            let flips = bits.iter().fold(0, |flips, &bit| flips ^ ranked(bit));
            if rule.finds(flips) {
                let tables = plans.small.tables();
                let agrees = |&(role, key): &(usize, u32)| key_flips(tables[role], flips) == key;
                prop_assert!(keys.iter().any(agrees), "{flips:x}");
            }
        }
    }
}
