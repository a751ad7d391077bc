//! Explains why a document has its fingerprint, and why two fingerprints differ.
//!
//! A bit whose sum is far from 0 survives edits; one whose sum is near 0 flips easily. Where two
//! documents differ in a bit, the features that only one of them has, or has more often, decide it.
//! One pass over a text counts features by hash, and a second finds the spelling of the named ones.
//! So an explanation costs a few times as much as an analysis, and stores only the named features.
//! Of a text with more than [`FEATURES_MAX`] distinct features, the later ones are not named; by
//! `np2` no text has so many that count.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use nearprint_fingerprint::recipe::Recipe;
use xxhash_rust::xxh3::xxh3_64;

use crate::analysis::{Analysis, Wanted};
use crate::features::walk::is_character;
use crate::hashing::saturation::Saturation;
use crate::hashing::simhash::SimHash;
use crate::recipes::dispatch::{NoFingerprint, walk_features};
use crate::recipes::vectors::sums;
use crate::recipes::{keywords, weighted};
use crate::source::{Method, Source, analyse};

/// At most this many features of a document are named.
pub const HEAVIEST_MAX: usize = 20;

/// The number of bits with the smallest sums that are named.
const NEAR_ZERO_MAX: usize = 8;

/// Longer features are cut to this many bytes and end in an ellipsis.
const FEATURE_SHOWN_BYTES_MAX: usize = 256;

/// The distinct features of a text that are counted by themselves, to be named; the sums are those
/// of all.
const FEATURES_MAX: usize = 1 << 20;

/// At most this many features are named for a bit in which two documents differ.
pub const DECIDING_MAX: usize = 3;

/// Why a document has its fingerprint.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Its heaviest features, heaviest first (by the size of the weight, then by hash), at most
    /// [`HEAVIEST_MAX`].
    pub heaviest: Vec<HeavyFeature>,
    /// The sums; bit i of the fingerprint is 1 where sum i is above 0.
    pub sums: [f64; 64],
    /// How many tokens it has: words, and single CJK characters; 0 for weighted features.
    pub tokens: usize,
}

impl Explanation {
    /// The eight bits that an edit flips most easily, with their sums, smallest first.
    pub fn near_zero(&self) -> Vec<(u8, f64)> {
        let mut bits: Vec<(u8, f64)> = (0..).zip(self.sums).collect();
        bits.sort_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
        bits.truncate(NEAR_ZERO_MAX);
        bits
    }
}

/// A feature with a large weight in a document.
#[derive(Debug, Clone, PartialEq)]
pub struct HeavyFeature {
    /// Its spelling in normal form; a token of weighted features as it is.
    pub feature: String,
    /// Its weight; in a text, how many of its occurrences count.
    pub weight: f64,
    /// Its XXH3-64 hash, whose bits it adds to and subtracts from the sums.
    pub hash: u64,
}

/// A bit in which the fingerprints of two documents differ.
#[derive(Debug, Clone, PartialEq)]
pub struct DifferingBit {
    /// Its number, 0 to 63; 0 is the least significant.
    pub bit: u8,
    /// Its sum in each document.
    pub sums: [f64; 2],
    /// The features that contribute most to the difference, at most [`DECIDING_MAX`].
    pub deciding: Vec<DecidingFeature>,
}

/// A feature whose weight differs between two documents.
#[derive(Debug, Clone, PartialEq)]
pub struct DecidingFeature {
    /// Its spelling in normal form; a token of weighted features as it is.
    pub feature: String,
    /// Its weight in each document; 0 where it is absent.
    pub weights: [f64; 2],
}

/// A document whose features are counted, ready to be explained.
#[derive(Debug, Clone)]
pub struct Explained {
    analysis: Analysis,
    sums: [f64; 64],
    /// Hash and weight of each distinct feature.
    weights: Vec<(u64, f64)>,
    spelling: Spelling,
}

/// Where to find the spelling of features.
#[derive(Debug, Clone)]
enum Spelling {
    /// In a text, by a second pass over its features.
    Text(String, Recipe),
    List(Vec<(String, f64)>),
}

impl Explained {
    /// Counts the features of a source. A vector has none, only sums.
    ///
    /// # Errors
    /// [`NoFingerprint`], as [`analyse`].
    pub fn of(source: &Source<'_>, method: Method) -> Result<Self, NoFingerprint> {
        let analysis = analyse(source, method, Wanted::ALL)?;
        if let Source::Vector(vector) = source {
            let sums = sums(vector, method.recipe, method.model)?;
            let spelling = Spelling::List(Vec::new());
            return Ok(Self { analysis, sums, weights: Vec::new(), spelling });
        }
        let spelling = match source.text(method.extract) {
            Some(text) => Spelling::of_text(text, method.recipe),
            None => Spelling::of_features(source)?,
        };
        let (weights, sums) = spelling.weights();
        Ok(Self { analysis, sums: *sums.sums(), weights, spelling })
    }

    /// What [`analyse`] returns for this document, with sketch and number of features.
    pub const fn analysis(&self) -> &Analysis {
        &self.analysis
    }

    /// The sums; bit i of the fingerprint is 1 where sum i is above 0.
    pub const fn sums(&self) -> &[f64; 64] {
        &self.sums
    }

    /// The rank of each bit by the magnitude of its sum, the smallest first; of equal ones, the
    /// less significant bit.
    pub fn ranks(&self) -> [u8; 64] {
        let mut bits: [u8; 64] = std::array::from_fn(|bit| bit as u8);
        let magnitude = |bit: &u8| self.sums[usize::from(*bit)].abs();
        bits.sort_by(|a, b| magnitude(a).total_cmp(&magnitude(b)));
        let mut ranks = [0; 64];
        for (rank, bit) in (0..).zip(bits) {
            ranks[usize::from(bit)] = rank;
        }
        ranks
    }

    /// Why it has its fingerprint.
    pub fn explanation(&self) -> Explanation {
        let mut heaviest: Vec<(u64, f64)> = self.weights.clone();
        heaviest.sort_unstable_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(&b.0)));
        heaviest.truncate(HEAVIEST_MAX);
        let mut spelt = self.spelling.of(&heaviest.iter().map(|&(hash, _)| hash).collect());
        let heaviest = heaviest.into_iter().filter_map(|(hash, weight)| {
            spelt.remove(&hash).map(|feature| HeavyFeature { feature, weight, hash })
        });
        Explanation { heaviest: heaviest.collect(), sums: self.sums, tokens: self.analysis.tokens }
    }

    /// The bits in which it differs from another, least significant first, and why.
    pub fn differing_bits(&self, other: &Self) -> Vec<DifferingBit> {
        let differing = differing(&self.weights, &other.weights);
        let bits = self.analysis.fingerprint.bits() ^ other.analysis.fingerprint.bits();
        let chosen: Vec<(u8, Vec<Differing>)> = (0..64)
            .filter(|bit| bits >> bit & 1 == 1)
            .map(|bit| (bit, self.deciding(bit, &differing)))
            .collect();
        let hashes = chosen.iter().flat_map(|(_, deciding)| deciding).map(|feature| feature.hash);
        let hashes: BTreeSet<u64> = hashes.collect();
        let mut spelt = self.spelling.of(&hashes);
        spelt.extend(other.spelling.of(&hashes));
        let named = |Differing { hash, weights }| {
            Some(DecidingFeature { feature: spelt.get(&hash)?.clone(), weights })
        };
        chosen
            .into_iter()
            .map(|(bit, deciding)| DifferingBit {
                bit,
                sums: [self.sums[usize::from(bit)], other.sums[usize::from(bit)]],
                deciding: deciding.into_iter().filter_map(named).collect(),
            })
            .collect()
    }

    /// The features that contribute most to the difference in a bit.
    fn deciding(&self, bit: u8, differing: &[Differing]) -> Vec<Differing> {
        let mine_is_set = self.analysis.fingerprint.bits() >> bit & 1 == 1;
        // The contribution of a feature to the difference of the sums, positive in their direction.
        let contribution = |differing: &Differing| {
            let sign = if (differing.hash >> bit & 1 == 1) == mine_is_set { 1.0 } else { -1.0 };
            sign * (differing.weights[0] - differing.weights[1])
        };
        let mut contributing: Vec<Differing> =
            differing.iter().copied().filter(|differing| contribution(differing) > 0.0).collect();
        contributing.sort_unstable_by(|a, b| {
            contribution(b).total_cmp(&contribution(a)).then(a.hash.cmp(&b.hash))
        });
        contributing.truncate(DECIDING_MAX);
        contributing
    }
}

/// A [`DecidingFeature`] whose spelling is not known yet.
#[derive(Debug, Clone, Copy)]
struct Differing {
    hash: u64,
    weights: [f64; 2],
}

/// The features whose weights differ.
fn differing(a: &[(u64, f64)], b: &[(u64, f64)]) -> Vec<Differing> {
    let mut weights: BTreeMap<u64, [f64; 2]> = BTreeMap::new();
    for &(hash, weight) in a {
        weights.entry(hash).or_default()[0] = weight;
    }
    for &(hash, weight) in b {
        weights.entry(hash).or_default()[1] = weight;
    }
    let differs = |weights: &[f64; 2]| weights[0].total_cmp(&weights[1]).is_ne();
    weights
        .into_iter()
        .filter(|(_, weights)| differs(weights))
        .map(|(hash, weights)| Differing { hash, weights })
        .collect()
}

impl Spelling {
    fn of_text(text: Cow<'_, str>, recipe: Recipe) -> Self {
        match recipe {
            Recipe::Keywords { weighting, heaviest, levels } => {
                Self::List(keywords::keywords(&text, weighting, heaviest, levels))
            }
            Recipe::Np2
            | Recipe::Np2Five
            | Recipe::Words { .. }
            | Recipe::Features
            | Recipe::Hyperplanes { .. }
            | Recipe::Spectral { .. } => Self::Text(text.into_owned(), recipe),
        }
    }

    fn of_features(source: &Source<'_>) -> Result<Self, NoFingerprint> {
        let Source::Features(features) = source else { return Ok(Self::List(Vec::new())) };
        let pairs = features.iter().map(|(token, weight)| (token.as_ref(), *weight));
        let merged = weighted::merged(pairs)?;
        Ok(Self::List(merged.into_iter().map(|(token, w)| (token.to_owned(), w)).collect()))
    }

    /// Hash and weight of each distinct feature, and the sums of all.
    fn weights(&self) -> (Vec<(u64, f64)>, SimHash) {
        let mut sums = SimHash::default();
        match self {
            Self::List(list) => {
                let weights: Vec<(u64, f64)> =
                    list.iter().map(|(token, w)| (xxh3_64(token.as_bytes()), *w)).collect();
                for &(hash, weight) in &weights {
                    sums.add(hash, weight);
                }
                (weights, sums)
            }
            Self::Text(text, recipe) => {
                let mut counts: HashMap<u64, u32> = HashMap::new();
                let mut saturation = Saturation::for_text();
                let saturates = matches!(recipe, Recipe::Np2 | Recipe::Np2Five);
                walk_features(text, *recipe, &mut |feature| {
                    let hash = xxh3_64(feature);
                    if saturates && !saturation.admits(is_character(feature), hash) {
                        return;
                    }
                    sums.add(hash, 1.0);
                    if counts.len() < FEATURES_MAX || counts.contains_key(&hash) {
                        let count = counts.entry(hash).or_default();
                        *count = count.saturating_add(1);
                    }
                });
                (counts.into_iter().map(|(hash, count)| (hash, f64::from(count))).collect(), sums)
            }
        }
    }

    /// The spelling of the features with these hashes.
    fn of(&self, hashes: &BTreeSet<u64>) -> BTreeMap<u64, String> {
        let mut spelt = BTreeMap::new();
        let mut take = |feature: &[u8]| {
            let hash = xxh3_64(feature);
            if hashes.contains(&hash) {
                spelt.entry(hash).or_insert_with(|| shown(feature));
            }
        };
        match self {
            Self::List(list) => list.iter().for_each(|(token, _)| take(token.as_bytes())),
            Self::Text(text, recipe) => walk_features(text, *recipe, &mut take),
        }
        spelt
    }
}

/// The spelling of a feature, truncated: one token may be as long as a whole text and decide all 64
/// bits.
fn shown(feature: &[u8]) -> String {
    let text = String::from_utf8_lossy(feature);
    if text.len() <= FEATURE_SHOWN_BYTES_MAX {
        return text.into_owned();
    }
    let end = text.floor_char_boundary(FEATURE_SHOWN_BYTES_MAX);
    format!("{}\u{2026}", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn np2(text: &str) -> Source<'_> {
        Source::Text(text.into())
    }

    fn explanation(source: &Source<'_>, recipe: &str) -> (Analysis, Explanation) {
        let method = Method { recipe: recipe.parse().unwrap(), ..Method::default() };
        let explained = Explained::of(source, method).unwrap();
        assert_eq!(analyse(source, method, Wanted::ALL).as_ref(), Ok(explained.analysis()));
        (explained.analysis().clone(), explained.explanation())
    }

    #[test]
    fn an_explanation_agrees_with_the_analysis_and_its_sums_with_the_bits() {
        let features = [("tea".to_owned(), 2.5), ("pot".to_owned(), -0.5)];
        for source in [
            np2("tea tea tea \u{8336}\u{8336} black and green tea"),
            np2(&"tea \u{8336}\u{8336} \u{98f2} black and green ".repeat(40)),
            Source::Html("<nav>menu</nav><p>tea &amp; pot".into()),
            Source::features(&features),
        ] {
            for recipe in ["np2", "np2-5", "words-1", "words-2-stop", "keywords-5", "keywords-5-w3"]
            {
                let (analysis, explanation) = explanation(&source, recipe);
                assert!(!explanation.heaviest.is_empty());
                for (bit, sum) in explanation.sums.into_iter().enumerate() {
                    let set = analysis.fingerprint.bits() >> bit & 1 == 1;
                    assert_eq!(set, sum > 0.0, "bit {bit} of {source:?} by {recipe}");
                }
            }
        }
    }

    #[test]
    fn the_heaviest_features_come_first_with_their_spelling() {
        let (_, text) = explanation(&np2("AAAAA b"), "np2");
        let heaviest = &text.heaviest[..];
        assert_eq!(heaviest.len(), 3);
        assert_eq!(heaviest[0].feature, "aaaa");
        assert_eq!(heaviest[0].weight.to_string(), "2");
        assert_eq!(text.tokens, 2);
        let spelt = |f: &HeavyFeature| f.hash == xxh3_64(f.feature.as_bytes());
        assert!(heaviest.iter().all(spelt));
        let weights = [("a", 1.0), ("b", -3.0), ("c", 2.0)].map(|(t, w)| (t.to_owned(), w));
        let (_, weighted) = explanation(&Source::features(&weights), "np2");
        let order: Vec<_> = weighted.heaviest.iter().map(|f| &f.feature[..]).collect();
        assert_eq!(order, ["b", "c", "a"]);
    }

    #[test]
    fn the_number_of_named_features_is_limited() {
        let text: String = ('a'..='z').chain('0'..='9').collect();
        let (analysis, explanation) = explanation(&np2(&text), "np2");
        assert_eq!((analysis.features, explanation.heaviest.len()), (Some(33), HEAVIEST_MAX));
    }

    #[test]
    fn differing_bits_name_the_features_that_decide_them() {
        let (a, b) = (np2("black tea for two"), np2("black tea for ten"));
        let [a, b] = [&a, &b].map(|source| Explained::of(source, Method::default()).unwrap());
        let bits = a.differing_bits(&b);
        let distance = a.analysis().fingerprint.distance(b.analysis().fingerprint);
        assert_eq!(bits.len(), usize::from(distance.get()));
        assert!(!bits.is_empty());
        for DifferingBit { bit, sums, deciding } in &bits {
            assert!((sums[0] > 0.0) != (sums[1] > 0.0), "bit {bit}");
            assert!((1..=DECIDING_MAX).contains(&deciding.len()));
            for DecidingFeature { feature, weights } in deciding {
                // Features with the same weight in both decide nothing.
                assert!("for two for ten".contains(feature.as_str()), "{feature:?}");
                let hash_has = xxh3_64(feature.as_bytes()) >> bit & 1 == 1;
                assert_eq!(hash_has == (sums[0] > sums[1]), weights[0] > weights[1]);
            }
        }
        assert!(a.differing_bits(&a).is_empty());
    }

    #[test]
    fn what_has_no_fingerprint_has_no_explanation() {
        let none = |source: &Source<'_>| Explained::of(source, Method::default()).map(drop);
        let empty = Err(crate::EmptyDocument.into());
        assert_eq!(none(&np2("?!")), empty);
        assert_eq!(none(&Source::Html("<p>&nbsp;</p>".into())), empty);
        let no_features = Err(crate::BadFeatures::Empty.into());
        assert_eq!(none(&Source::Features(Vec::new())), no_features);
    }
}
