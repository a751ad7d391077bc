//! Which code implements each recipe of vectors.

use crate::fingerprint::Fingerprint;
use crate::recipe::Recipe;
use crate::text::analysis::Analysis;
use crate::text::recipes::dispatch::NoFingerprint;
use crate::text::vectors::hyperplanes;
use crate::text::vectors::vector::check_vector;

/// The 64 sums of a vector: bit i of its fingerprint is 1 where sum i is above 0.
///
/// # Errors
/// [`NoFingerprint::Vector`], or [`NoFingerprint::NoVectors`] when the recipe takes no vectors.
pub(crate) fn sums(vector: &[f32], recipe: Recipe) -> Result<[f64; 64], NoFingerprint> {
    let expected = recipe.dimensions().ok_or(NoFingerprint::NoVectors { recipe })?;
    check_vector(vector, expected)?;
    Ok(hyperplanes::sums(vector))
}

/// The fingerprint of a vector.
///
/// # Errors
/// As [`sums`].
pub(crate) fn analyse_vector(vector: &[f32], recipe: Recipe) -> Result<Analysis, NoFingerprint> {
    let fingerprint = Fingerprint::new(bits(&sums(vector, recipe)?));
    Ok(Analysis { fingerprint, features: None, tokens: 0, short: false, sketch: None })
}

/// One bit for each sum, 1 if it is above 0.
fn bits(sums: &[f64; 64]) -> u64 {
    sums.iter().rev().fold(0, |bits, &sum| bits << 1 | u64::from(sum > 0.0))
}
