//! Says why a document has the fingerprint it has: its heaviest features, and the 64 sums.
//!
//! A sum far from 0 is a bit that stays under edits; one near 0 is a bit that tips. A text is
//! walked twice, first to count by hash, then to find the spelling of the heaviest hashes; so an
//! explanation costs about twice an analysis, and no feature but those is kept.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::text::features::{Sink, walk};
use crate::text::normalise::normalise;
use crate::text::recipe::{Counts, WINDOW, Wanted, analyse_windows};
use crate::text::tally::Tally;
use crate::text::{Analysis, BadFeatures, EmptyDocument, html, weighted};

/// At most this many features are named.
pub const HEAVIEST_MAX: usize = 20;

/// What can become a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Source<'a> {
    /// Plain text.
    Text(&'a str),
    /// A page of HTML, decoded.
    Html(&'a str),
    /// Tokens with weights, as the caller gives them.
    Features(&'a [(String, f64)]),
}

/// A source has no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoFingerprint {
    /// The text or the page has no feature.
    #[error(transparent)]
    Empty(#[from] EmptyDocument),
    /// The weighted features have none.
    #[error(transparent)]
    Features(#[from] BadFeatures),
}

/// Why a document has its fingerprint.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Its heaviest features, heaviest first (by the size of the weight, then by hash), at most
    /// [`HEAVIEST_MAX`].
    pub heaviest: Vec<HeavyFeature>,
    /// The sums; bit i of the fingerprint is 1 where sum i is above 0. Whole numbers for a text.
    pub sums: [f64; 64],
}

/// A feature that weighs much in a document.
#[derive(Debug, Clone, PartialEq)]
pub struct HeavyFeature {
    /// How it is spelt, normalised.
    pub feature: String,
    /// Its weight; in a text, how often it occurs.
    pub weight: f64,
    /// Its hash.
    pub hash: u64,
}

/// The analysis of a source.
///
/// # Errors
/// [`NoFingerprint`] says why there is none.
pub fn analyse(source: Source<'_>, wanted: Wanted) -> Result<Analysis, NoFingerprint> {
    match source {
        Source::Text(text) => Ok(analyse_windows::<WINDOW>(text, wanted)?),
        Source::Html(html) => Ok(analyse_windows::<WINDOW>(&html::text_of(html), wanted)?),
        Source::Features(features) => Ok(super::analyse_features(pairs(features))?),
    }
}

/// The analysis of a source, and its explanation.
///
/// # Errors
/// [`NoFingerprint`], as [`analyse`].
pub fn explain(source: Source<'_>) -> Result<(Analysis, Explanation), NoFingerprint> {
    match source {
        Source::Text(text) => Ok(explain_text(text)?),
        Source::Html(html) => Ok(explain_text(&html::text_of(html))?),
        Source::Features(features) => Ok(explain_features(features)?),
    }
}

fn explain_text(text: &str) -> Result<(Analysis, Explanation), EmptyDocument> {
    let counts = Counts::of::<WINDOW>(text, Wanted::ALL)?;
    let mut heaviest: Vec<_> = counts.features.iter().flat_map(Tally::counts).collect();
    heaviest.sort_unstable_by_key(|&(hash, count)| (Reverse(count), hash));
    heaviest.truncate(HEAVIEST_MAX);
    let mut spellings = Spellings(heaviest.iter().map(|&(hash, _)| (hash, None)).collect());
    walk(&normalise(text), &mut spellings);

    let heaviest = heaviest
        .into_iter()
        .map(|(hash, count)| HeavyFeature {
            feature: spellings.of(hash),
            weight: f64::from(count),
            hash,
        })
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "a text has fewer than 2^53 features")]
    let sums = counts.sums.map(|sum| sum as f64);
    Ok((counts.into_analysis(), Explanation { heaviest, sums }))
}

fn explain_features(features: &[(String, f64)]) -> Result<(Analysis, Explanation), BadFeatures> {
    let merged = weighted::merged(pairs(features))?;
    let sums = weighted::sums(&merged);
    let mut heaviest: Vec<_> = merged
        .iter()
        .map(|&(token, weight)| HeavyFeature {
            feature: token.to_owned(),
            weight,
            hash: xxh3_64(token.as_bytes()),
        })
        .collect();
    heaviest.sort_by(|a, b| {
        let by_size = b.weight.abs().total_cmp(&a.weight.abs());
        by_size.then(a.hash.cmp(&b.hash))
    });
    heaviest.truncate(HEAVIEST_MAX);
    let explanation = Explanation { heaviest, sums: *sums.sums() };
    Ok((weighted::analysis(&merged, &sums), explanation))
}

fn pairs(features: &[(String, f64)]) -> impl Iterator<Item = (&str, f64)> {
    features.iter().map(|(token, weight)| (token.as_str(), *weight))
}

/// Finds how the features with certain hashes are spelt.
struct Spellings(BTreeMap<u64, Option<String>>);

impl Spellings {
    fn of(&mut self, hash: u64) -> String {
        self.0
            .remove(&hash)
            .flatten()
            .expect("the second walk over a text meets the features of the first")
    }
}

impl Sink for Spellings {
    fn feature(&mut self, feature: &[u8]) {
        if let Some(spelling) = self.0.get_mut(&xxh3_64(feature)) {
            spelling.get_or_insert_with(|| String::from_utf8_lossy(feature).into_owned());
        }
    }

    fn token(&mut self, _: &[u8]) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_agrees_with_the_analysis_and_its_sums_with_the_bits() {
        let features = [("tea".to_owned(), 2.5), ("pot".to_owned(), -0.5)];
        for source in [
            Source::Text("tea tea tea \u{8336}\u{8336}"),
            Source::Html("<nav>menu</nav><p>tea &amp; pot"),
            Source::Features(&features),
        ] {
            let (analysis, explanation) = explain(source).unwrap();
            assert_eq!(analyse(source, Wanted::ALL), Ok(analysis.clone()));
            for (bit, sum) in explanation.sums.into_iter().enumerate() {
                let set = analysis.fingerprint.bits() >> bit & 1 == 1;
                assert_eq!(set, sum > 0.0, "bit {bit} of {source:?}");
            }
        }
    }

    #[test]
    fn the_heaviest_features_come_first_with_their_spelling() {
        let (_, explanation) = explain(Source::Text("AAAAA b")).unwrap();
        let heaviest = &explanation.heaviest[..];
        assert_eq!(heaviest.len(), 3);
        assert_eq!(heaviest[0].feature, "aaaa");
        assert_eq!(heaviest[0].weight.to_string(), "2");
        let spelt = |f: &HeavyFeature| f.hash == xxh3_64(f.feature.as_bytes());
        assert!(heaviest.iter().all(spelt));
        let weights = [("a", 1.0), ("b", -3.0), ("c", 2.0)].map(|(t, w)| (t.to_owned(), w));
        let (_, explanation) = explain(Source::Features(&weights)).unwrap();
        let order: Vec<_> = explanation.heaviest.iter().map(|f| &f.feature[..]).collect();
        assert_eq!(order, ["b", "c", "a"]);
    }

    #[test]
    fn at_most_so_many_features_are_named() {
        let text: String = ('a'..='z').chain('0'..='9').collect();
        let (analysis, explanation) = explain(Source::Text(&text)).unwrap();
        assert_eq!((analysis.features, explanation.heaviest.len()), (Some(33), HEAVIEST_MAX));
    }

    #[test]
    fn what_has_no_fingerprint_has_no_explanation() {
        assert_eq!(explain(Source::Text("?!")), Err(EmptyDocument.into()));
        assert_eq!(explain(Source::Html("<p>&nbsp;</p>")), Err(EmptyDocument.into()));
        assert_eq!(explain(Source::Features(&[])), Err(BadFeatures::Empty.into()));
    }
}
