//! Weighted features from the caller: tokens and their weights.
//!
//! No normalisation: the token's UTF-8 bytes go through XXH3-64, seed 0, as they are. The weights
//! of a repeated token are added. Features are summed in the order of the tokens' bytes and then of
//! the weights, so that the order in which a caller sends them cannot tip a sum near 0. There is no
//! sketch, and no document is short: the caller decides what counts. Linear except for a sort.

use nearprint_fingerprint::Fingerprint;
use xxhash_rust::xxh3::xxh3_64;

use crate::analysis::Analysis;
use crate::hashing::simhash::SimHash;

/// Weighted features have no fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFeatures {
    /// The list of features is empty.
    #[error("there are no features")]
    Empty,
    /// A weight is infinite or not a number, or the sizes of the weights add up to infinity.
    #[error("the weight of feature {token:?} is not finite, or makes their sum infinite")]
    NotFinite {
        /// The first token, in the order given, whose weight is refused.
        token: String,
    },
    /// The weights of every token are 0 or cancel out.
    #[error("the weights are all zero")]
    AllZero,
}

/// The fingerprint of weighted features.
///
/// # Errors
/// [`BadFeatures`] when there are none, when all weigh 0, or when a weight is not finite.
pub(crate) fn analyse_features<'a>(
    features: impl IntoIterator<Item = (&'a str, f64)>,
) -> Result<Analysis, BadFeatures> {
    let features = merged(features)?;
    let fingerprint = Fingerprint::new(sums(&features).bits());
    Ok(Analysis { features: Some(features.len()), ..Analysis::bare(fingerprint) })
}

/// One entry for each token, in the order of the tokens, without those of weight 0.
pub(crate) fn merged<'a>(
    features: impl IntoIterator<Item = (&'a str, f64)>,
) -> Result<Vec<(&'a str, f64)>, BadFeatures> {
    let mut features: Vec<_> = features.into_iter().collect();
    if features.is_empty() {
        return Err(BadFeatures::Empty);
    }
    let mut sizes = 0.0;
    for &(token, weight) in &features {
        sizes += weight.abs();
        if !f64::is_finite(sizes) {
            return Err(BadFeatures::NotFinite { token: token.to_owned() });
        }
    }
    features.sort_by(|(a, x), (b, y)| a.cmp(b).then(x.total_cmp(y)));
    features.dedup_by(|(token, weight), (kept, sum)| {
        let same = token == kept;
        if same {
            *sum += *weight;
        }
        same
    });
    features.retain(|&(_, weight)| weight != 0.0);
    if features.is_empty() {
        return Err(BadFeatures::AllZero);
    }
    Ok(features)
}

/// The sums of merged features.
pub(crate) fn sums(features: &[(&str, f64)]) -> SimHash {
    let mut sums = SimHash::default();
    for &(token, weight) in features {
        sums.add(xxh3_64(token.as_bytes()), weight);
    }
    sums
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fingerprint(features: &[(&str, f64)]) -> Result<Fingerprint, BadFeatures> {
        analyse_features(features.iter().copied()).map(|analysis| analysis.fingerprint)
    }

    #[test]
    fn one_feature_has_its_hash_as_fingerprint_and_its_inverse_if_negative() {
        let hash = xxh3_64(b"tea");
        assert_eq!(fingerprint(&[("tea", 0.1)]), Ok(Fingerprint::new(hash)));
        assert_eq!(fingerprint(&[("tea", -3.0)]), Ok(Fingerprint::new(!hash)));
    }

    #[test]
    fn tokens_are_not_normalised() {
        assert_ne!(fingerprint(&[("Tea", 1.0)]), fingerprint(&[("tea", 1.0)]));
        assert_ne!(fingerprint(&[("", 1.0)]), fingerprint(&[(" ", 1.0)]));
    }

    #[test]
    fn weights_of_a_repeated_token_add_up() {
        let repeated = [("a", 1.0), ("b", 2.0), ("a", 1.5)];
        let analysis = analyse_features(repeated).unwrap();
        assert_eq!(analysis.features, Some(2));
        assert_eq!(Ok(analysis.fingerprint), fingerprint(&[("b", 2.0), ("a", 2.5)]));
    }

    #[test]
    fn what_has_no_fingerprint_says_why() {
        let not_finite = |token: &str| BadFeatures::NotFinite { token: token.to_owned() };
        assert_eq!(fingerprint(&[]), Err(BadFeatures::Empty));
        assert_eq!(
            fingerprint(&[("a", 0.0), ("b", -0.0), ("c", 1.0), ("c", -1.0)]),
            Err(BadFeatures::AllZero)
        );
        for weight in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(fingerprint(&[("a", 1.0), ("b", weight)]), Err(not_finite("b")));
        }
        assert_eq!(fingerprint(&[("a", f64::MAX), ("b", -f64::MAX)]), Err(not_finite("b")));
    }

    #[test]
    fn caller_weighted_features_are_never_short_and_have_no_sketch() {
        let analysis = analyse_features([("a", 1.0)]).unwrap();
        assert!(!analysis.short && analysis.sketch.is_none() && analysis.tokens == 0);
    }

    proptest! {
        #[test]
        fn the_order_of_features_makes_no_difference(
            features in prop::collection::vec(("[a-e]", -1e3..1e3), 1..12),
            turn in any::<prop::sample::Index>(),
        ) {
            let mut turned = features.clone();
            turned.rotate_left(turn.index(features.len()));
            let sums_of = |list: &[(String, f64)]| {
                merged(list.iter().map(|(token, weight)| (token.as_str(), *weight)))
                    .map(|merged| *sums(&merged).sums())
            };
            prop_assert_eq!(sums_of(&features), sums_of(&turned));
        }
    }
}
