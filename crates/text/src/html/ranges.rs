//! Sets of offsets, as disjoint ranges in ascending order.

use std::ops::Range;

/// What lies within any of these ranges, which may overlap. Takes the time to sort them.
pub(super) fn union(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|range, last| {
        let touches = range.start <= last.end;
        if touches {
            last.end = last.end.max(range.end);
        }
        touches
    });
    ranges
}

/// What lies within a range of `from` and within none of `cuts`. Linear in both; each is a union.
pub(super) fn minus(from: &[Range<usize>], cuts: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut left = Vec::new();
    let mut cuts = cuts.iter().peekable();
    for range in from {
        let mut at = range.start;
        while let Some(cut) = cuts.next_if(|cut| cut.end <= range.end) {
            if at < cut.start {
                left.push(at..cut.start);
            }
            at = at.max(cut.end);
        }
        // A cut that ends later may also reach into the next range.
        let end = cuts.peek().map_or(range.end, |cut| range.end.min(cut.start));
        if at < end {
            left.push(at..end);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges() -> impl Strategy<Value = Vec<Range<usize>>> {
        let range = (0..40_usize, 0..12_usize).prop_map(|(start, length)| start..start + length);
        prop::collection::vec(range, 0..8)
    }

    fn contains(ranges: &[Range<usize>], at: usize) -> bool {
        ranges.iter().any(|range| range.contains(&at))
    }

    proptest! {
        #[test]
        fn sets_of_ranges_contain_what_sets_of_offsets_do(some in ranges(), others in ranges()) {
            let (from, cuts) = (union(some.clone()), union(others.clone()));
            let left = minus(&from, &cuts);
            for at in 0..60 {
                prop_assert_eq!(contains(&from, at), contains(&some, at));
                let expected = contains(&some, at) && !contains(&others, at);
                prop_assert_eq!(contains(&left, at), expected, "{} in {:?}", at, left);
            }
            for union in [from, cuts, left] {
                prop_assert!(union.is_sorted_by(|a, b| a.end <= b.start));
            }
        }
    }
}
