//! How crowded stored fingerprints are: how many unrelated ones a look-up meets.
//!
//! Counted by a scan of everything, for new documents that belong to no family of near-copies. So
//! all that is near them is a neighbour that its sketch would not confirm.

use nearprint::cli::measure::numbers::ratio;
use nearprint_fingerprint::Fingerprint;

use crate::data::Stored;
use crate::random::Stream;
use crate::report::Fact;

/// The documents whose surroundings are counted.
const DOCUMENTS: usize = 256;

/// The parts of a fingerprint that share an equal width.
const BLOCKS: u32 = 4;

/// The distances within which neighbours are counted.
const DISTANCES: [u8; 3] = [3, 6, 8];

/// What a document like text meets, on average; nothing for fingerprints without a model.
pub(super) fn facts(stored: &Stored, seed: u64) -> Vec<Fact> {
    let Some(model) = stored.model() else { return Vec::new() };
    let numbers = Stream::of("crowds", seed);
    let fresh = (0..).map(|place| model.fresh(numbers.number(place) >> 26));
    // A collection that consists of families has no other documents.
    let tries = 16 * DOCUMENTS;
    let alone =
        fresh.take(tries).filter_map(|(document, of_family)| (!of_family).then_some(document));
    let documents: Vec<Fingerprint> = alone.take(DOCUMENTS).collect();
    let mut in_block = 0;
    let mut near = [0_u64; DISTANCES.len()];
    for stored in stored.all() {
        for document in &documents {
            let differing = (document.bits() ^ stored.bits()).count_ones();
            for (near, distance) in near.iter_mut().zip(DISTANCES) {
                *near += u64::from(differing <= u32::from(distance));
            }
            in_block += u64::from(equal_blocks(document.bits() ^ stored.bits()));
        }
    }
    let each = |count: u64| ratio(count, documents.len().max(1) as u64);
    let fact = |what: String, count| Fact::number(what, stored.count(), each(count), "a look-up");
    let mut facts = vec![fact("documents that share a 16-bit block".into(), in_block)];
    let within = |distance| format!("neighbours within {distance} that are not near-copies");
    facts.extend(
        DISTANCES.into_iter().zip(near).map(|(distance, near)| fact(within(distance), near)),
    );
    facts
}

/// How many blocks differ in no bit.
fn equal_blocks(difference: u64) -> u32 {
    let width = 64 / BLOCKS;
    (0..BLOCKS)
        .map(|block| u32::from((difference >> (block * width)).trailing_zeros() >= width))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_like_text_are_crowded() {
        let facts = facts(&Stored::like_text(20_000, 0.0, 1), 1);
        let in_block = facts[0].value.as_f64().unwrap();
        // Among random ones, each of four blocks would have 20,000 / 65,536.
        assert!(in_block > 4.0 * 4.0 * 20_000.0 / 65_536.0, "{in_block}");
        assert!(facts[1..].is_sorted_by_key(|fact| fact.value.as_f64()));
    }

    #[test]
    fn random_fingerprints_are_not_described() {
        assert!(facts(&Stored::random(100, 1), 1).is_empty());
    }

    #[test]
    fn equal_blocks_are_counted() {
        assert_eq!([0, 1, 1 << 16 | 1 << 63, u64::MAX].map(equal_blocks), [4, 3, 2, 0]);
    }
}
