//! The rule against its oracle, and the search in all levels against the rule.

use nearprint_fingerprint::{Distance, Fingerprint, Margins};
use proptest::prelude::*;

use super::{LikelyRule, naive};
use crate::permutation::Permutation;
use crate::plan::{Plan, masks_within};

/// Margins of a text with a few bits near zero, in most cases the first twelve.
pub(crate) fn margins() -> impl Strategy<Value = Margins> {
    let near_zero = prop::collection::vec(0..6_u32, 12);
    let others = prop::collection::vec(prop_oneof![9 => 5..40_u32, 1 => 0..5_u32], 52);
    (near_zero, others).prop_map(|(near_zero, others)| {
        let mut all = near_zero.into_iter().chain(others);
        Margins::new(std::array::from_fn(|_| all.next().unwrap_or_default()))
    })
}

/// Flips of some bits, the first twelve more often than the others.
pub(crate) fn flips() -> impl Strategy<Value = u64> {
    let bit = prop_oneof![4 => 0..12_u32, 1 => 0..64_u32];
    let bits = prop::collection::vec(bit, 0..13);
    bits.prop_map(|bits| bits.iter().fold(0, |flips, bit| flips ^ 1 << bit))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn the_rule_finds_what_its_text_says(
        margins in margins(),
        flips in flips(),
        distance in 0..=12_u8,
        secret in 0..8_u64,
    ) {
        let permutation = Permutation::from_secret(secret);
        let distance = Distance::new(distance).unwrap();
        let rule = LikelyRule::of(&Plan::of(distance), &permutation, &margins);
        let permuted = permutation.apply(Fingerprint::new(flips));
        let expected = naive::finds(&margins, flips, &permutation, distance);
        prop_assert_eq!(rule.finds(permuted), expected);
        prop_assert_eq!(rule.margin(permuted), margins.of_flips(flips));
        // Only the order of margins matters.
        let ranks = Margins::from_ranks(&margins.ranks());
        let ranked = LikelyRule::of(&Plan::of(distance), &permutation, &ranks);
        prop_assert_eq!(ranked.finds(permuted), expected);
    }
}

/// The rule does not find everything, and not nothing.
#[test]
fn the_rule_tells_likely_changes_from_others() {
    let permutation = Permutation::from_secret(1);
    let margins = Margins::new(std::array::from_fn(|bit| bit as u32));
    // About as many in each half or third, so that few parts have at most one.
    for (distance, flips) in [(3, 6), (6, 9)] {
        let plan = Plan::of(Distance::new(distance).unwrap());
        let rule = LikelyRule::of(&plan, &permutation, &margins);
        // How many it finds of all sets of so many bits among the twelve from this one on.
        let found_from = |from: u32| {
            let sets = masks_within(12, flips).filter(|set| set.count_ones() == flips);
            sets.filter(|set| rule.finds(permutation.apply(Fingerprint::new(set << from)))).count()
        };
        let (likely, others) = (found_from(0), found_from(50));
        assert!(likely > 2 * others, "{likely} and {others} at {distance}");
    }
}
