//! Which code implements each recipe.

use nearprint_fingerprint::Fingerprint;
use nearprint_fingerprint::recipe::Recipe;
use xxhash_rust::xxh3::xxh3_64;

use crate::analysis::{Analysis, EmptyDocument, Wanted};
use crate::features::walk::walk;
use crate::hashing::tally::Tally;
use crate::kernel::Simd;
use crate::kernel::text::{BLOCK, BitCounts, count_bits};
use crate::recipes::keywords::keywords;
use crate::recipes::np2::{WIDER_WINDOW, WINDOW, analyse_windows};
use crate::recipes::weighted::{self, BadFeatures, merged};
use crate::recipes::words;
use crate::vectors::vector::BadVector;

/// A document has no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFingerprint {
    /// The text or the page has no feature.
    #[error(transparent)]
    Empty(#[from] EmptyDocument),
    /// The weighted features are invalid.
    #[error(transparent)]
    Features(#[from] BadFeatures),
    /// The recipe takes no texts.
    #[error("the recipe features takes weighted features and fingerprints, no texts")]
    OnlyFeatures,
    /// The vector is of the wrong dimensions, not finite or zero.
    #[error(transparent)]
    Vector(#[from] BadVector),
    /// The recipe takes no vectors.
    #[error("the recipe {recipe} takes no vectors")]
    NoVectors {
        /// The recipe that was to make the fingerprint.
        recipe: Recipe,
    },
    /// The recipe needs a model, and there is none of its dimensions.
    #[error("the recipe {recipe} needs its model")]
    NoModel {
        /// The recipe that was to make the fingerprint.
        recipe: Recipe,
    },
    /// The recipe takes neither texts nor features.
    #[error("the recipe {recipe} takes vectors and fingerprints, no texts and no features")]
    OnlyVectors {
        /// The recipe that was to make the fingerprint.
        recipe: Recipe,
    },
}

/// Analyses a text by a recipe. Tokens and sketch are the same for every recipe.
pub(crate) fn analyse_by(
    recipe: Recipe,
    text: &str,
    wanted: Wanted,
) -> Result<Analysis, NoFingerprint> {
    let (bits, features) = match recipe {
        Recipe::Np2 => return Ok(analyse_windows::<WINDOW>(text, wanted)?),
        Recipe::Np2Five => return Ok(analyse_windows::<WIDER_WINDOW>(text, wanted)?),
        Recipe::Words { .. } => {
            let mut counts = FeatureCounts::new();
            // Counting distinct features costs several times as much as the fingerprint.
            let mut tally =
                wanted.features.then(|| Tally::with_capacity(text.len()).bounded_by(text));
            walk_features(text, recipe, &mut |feature| {
                let hash = xxh3_64(feature);
                counts.add(hash);
                if let Some(tally) = &mut tally {
                    tally.add(&[hash], &mut [0]);
                }
            });
            let sums = counts.sums().ok_or(EmptyDocument)?;
            let distinct = tally.map(|tally| distinct_features(tally, text, recipe));
            let bits = sums.iter().rev().fold(0, |bits, &sum| bits << 1 | u64::from(sum > 0));
            (bits, distinct)
        }
        Recipe::Keywords { weighting, heaviest, levels } => {
            let words = keywords(text, weighting, heaviest, levels);
            let pairs = words.iter().map(|(word, weight)| (word.as_str(), *weight));
            let features = merged(pairs).map_err(|_| EmptyDocument)?;
            let sums = weighted::sums(&features);
            (sums.bits(), Some(features.len()))
        }
        Recipe::Features => return Err(NoFingerprint::OnlyFeatures),
        Recipe::Hyperplanes { .. } | Recipe::Spectral { .. } => {
            return Err(NoFingerprint::OnlyVectors { recipe });
        }
    };
    let np2 = analyse_windows::<WINDOW>(text, Wanted { features: false, ..wanted })?;
    let fingerprint = Fingerprint::new(bits);
    Ok(Analysis { fingerprint, features, ..np2 })
}

/// The features of a text that each count once, many of which are added up at a time.
struct FeatureCounts {
    hashes: [u64; BLOCK],
    waiting: usize,
    counts: BitCounts,
}

impl FeatureCounts {
    fn new() -> Self {
        Self { hashes: [0; BLOCK], waiting: 0, counts: BitCounts::default() }
    }

    fn add(&mut self, hash: u64) {
        self.hashes[self.waiting % BLOCK] = hash;
        self.waiting += 1;
        if self.waiting == BLOCK {
            count_bits(Simd::best(), &self.hashes, &mut self.counts);
            self.waiting = 0;
        }
    }

    /// The sum of each bit, bit 0 first; `None` without a feature.
    fn sums(mut self) -> Option<[i64; 64]> {
        count_bits(Simd::best(), &self.hashes[..self.waiting], &mut self.counts);
        let total = self.counts.total().cast_signed();
        (total > 0).then(|| self.counts.ones().map(|ones| 2 * ones.cast_signed() - total))
    }
}

/// The number of distinct features of a text that has been read once.
fn distinct_features(mut tally: Tally, text: &str, recipe: Recipe) -> usize {
    while tally.next_partition() {
        walk_features(text, recipe, &mut |feature| tally.add(&[xxh3_64(feature)], &mut [0]));
    }
    tally.distinct()
}

/// Passes each occurrence of a feature in a text to `take`. Recipes whose features are not found by
/// walking over a text have none here.
pub(crate) fn walk_features(text: &str, recipe: Recipe, take: &mut dyn FnMut(&[u8])) {
    match recipe {
        Recipe::Np2 => walk::<WINDOW>(text, take),
        Recipe::Np2Five => walk::<WIDER_WINDOW>(text, take),
        Recipe::Words { in_a_row, without_stop_words } => {
            words::walk(text, in_a_row, without_stop_words, take);
        }
        Recipe::Keywords { .. }
        | Recipe::Features
        | Recipe::Hyperplanes { .. }
        | Recipe::Spectral { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_of_texts_gives_the_same_sketch_if_it_is_wanted() {
        let text = "black tea \u{5317}\u{4eac}\u{70e4}\u{9e2d} and green tea";
        let bare = Wanted { sketch: false, ..Wanted::STORED };
        let np2 = analyse_by(Recipe::Np2, text, Wanted::STORED).unwrap().sketch;
        assert!(np2.is_some());
        for recipe in ["np2", "np2-5", "words-2", "keywords-5", "keywords-5-w3", "textrank-5"] {
            let recipe: Recipe = recipe.parse().unwrap();
            assert_eq!(analyse_by(recipe, text, Wanted::STORED).unwrap().sketch, np2);
            assert_eq!(analyse_by(recipe, text, bare).unwrap().sketch, None);
        }
    }
}
