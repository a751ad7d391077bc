//! Which vectors have a fingerprint.

/// A vector has no fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadVector {
    /// It has more or fewer dimensions than the recipe.
    #[error("the vector has {got} dimensions, and the recipe takes {expected}")]
    Dimensions {
        /// The dimensions of the recipe.
        expected: u16,
        /// The dimensions of the vector.
        got: usize,
    },
    /// A component is infinite or not a number in single precision.
    #[error(
        "component {component} of the vector (the first is 0) is not finite in single precision"
    )]
    NotFinite {
        /// The first such component, counted from 0.
        component: usize,
    },
    /// All components are 0, so it has no direction.
    #[error("all components of the vector are zero in single precision")]
    AllZero,
}

/// Refuses a vector of another number of dimensions, and one without a direction.
///
/// # Errors
/// [`BadVector`].
pub fn check_vector(vector: &[f32], expected: u16) -> Result<(), BadVector> {
    if vector.len() != usize::from(expected) {
        return Err(BadVector::Dimensions { expected, got: vector.len() });
    }
    if let Some(component) = vector.iter().position(|number| !number.is_finite()) {
        return Err(BadVector::NotFinite { component });
    }
    if vector.iter().all(|&number| number == 0.0) {
        return Err(BadVector::AllZero);
    }
    Ok(())
}
