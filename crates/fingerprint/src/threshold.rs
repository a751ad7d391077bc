//! What the sketches of two documents must reach for a match of them to count.

use crate::{MinNumbers, MinResemblance, Sample};

/// What the sketches of two documents must reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// The least resemblance of their words.
    pub resemblance: MinResemblance,
    /// The least agreement of their numbers, where both have some; `None` demands none.
    pub numbers: Option<MinNumbers>,
}

impl Threshold {
    /// The resemblance that gives this similarity (0 to 1), whatever the numbers; `None` for 0,
    /// which switches verification off.
    pub fn of_similarity(similarity: f64) -> Option<Self> {
        let resemblance = MinResemblance::of_similarity(similarity)?;
        Some(Self { resemblance, numbers: None })
    }

    /// What of a sample is the same in sketches of which a search compares one: texts that agree in
    /// the sampled bins are nearly the same as a rule, but not in their numbers.
    pub const fn alike(self, sample: Sample) -> Sample {
        if self.numbers.is_some() { sample } else { sample.without_digest() }
    }

    /// In addition, this share of the numbers (0 to 1); 0 demands none.
    #[must_use]
    pub fn with_numbers(self, share: f64) -> Self {
        Self { numbers: MinNumbers::of_share(share), ..self }
    }
}
