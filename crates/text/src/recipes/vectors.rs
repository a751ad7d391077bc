//! Which code implements each recipe of vectors.

use nearprint_fingerprint::Fingerprint;
use nearprint_fingerprint::recipe::Recipe;

use crate::analysis::Analysis;
use crate::recipes::dispatch::NoFingerprint;
use crate::vectors::hyperplanes;
use crate::vectors::spectral::SpectralModel;
use crate::vectors::vector::check_vector;

/// The 64 sums of a vector: bit i of its fingerprint is 1 where sum i is above 0.
///
/// # Errors
/// [`NoFingerprint::Vector`], [`NoFingerprint::NoVectors`] when the recipe takes no vectors, or
/// [`NoFingerprint::NoModel`] when it needs a model, and this is none of its dimensions.
pub(crate) fn sums(
    vector: &[f32],
    recipe: Recipe,
    model: Option<&SpectralModel>,
) -> Result<[f64; 64], NoFingerprint> {
    let expected = recipe.dimensions().ok_or(NoFingerprint::NoVectors { recipe })?;
    check_vector(vector, expected)?;
    if !recipe.needs_model() {
        return Ok(hyperplanes::sums(vector));
    }
    let model = model.filter(|model| model.dimensions() == expected);
    model.map(|model| model.sums(vector)).ok_or(NoFingerprint::NoModel { recipe })
}

/// The fingerprint of a vector.
///
/// # Errors
/// As [`sums`].
pub(crate) fn analyse_vector(
    vector: &[f32],
    recipe: Recipe,
    model: Option<&SpectralModel>,
) -> Result<Analysis, NoFingerprint> {
    Ok(Analysis::bare(Fingerprint::new(bits(&sums(vector, recipe, model)?))))
}

/// One bit for each sum, 1 if it is above 0.
fn bits(sums: &[f64; 64]) -> u64 {
    sums.iter().rev().fold(0, |bits, &sum| bits << 1 | u64::from(sum > 0.0))
}
