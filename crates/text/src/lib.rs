//! From a text, an HTML page, weighted features or a vector to a fingerprint and a sketch.
//!
//! ```text
//! bytes -charset-> HTML -html-> text -normalise-> runs
//! runs -> features -> saturation -> simhash -> fingerprint
//!      -> tokens -> sketching -> sketch
//! vector -> vectors -> fingerprint
//! ```
//!
//! Pure and total: no file, no clock, and every `&str` gets an answer in time linear in its length.
//! A random number chooses positions in hash tables, as in the standard library; no answer depends
//! on it.
//! The normal form, the tokens, the sketch and the recipe `np2` are a published standard with test
//! vectors: `docs/recipe-np2.md`.
//!
//! ```
//! use nearprint_text::analyse_text;
//!
//! let a = analyse_text("The ferry leaves at seven in the morning and returns at noon.")?;
//! let b = analyse_text("The ferry leaves at seven in the morning, and returns by noon!")?;
//! assert!(a.fingerprint.distance(b.fingerprint).get() < 16);
//! let (a, b) = (a.sketch.expect("every text has one"), b.sketch.expect("every text has one"));
//! assert!(a.resemblance(&b).similarity() > 0.5);
//! # Ok::<(), nearprint_text::EmptyDocument>(())
//! ```

mod analysis;
pub mod charset;
mod content_type;
mod explain;
mod features;
mod hashing;
mod html;
mod kernel;
mod main_text;
mod recipes;
mod source;
mod vectors;

#[cfg(test)]
mod tests;

pub use analysis::{Analysis, EmptyDocument, SHORT_TOKENS, Wanted};
pub use content_type::{ContentType, PageSyntax};
pub use explain::{
    DECIDING_MAX, DecidingFeature, DifferingBit, Explained, Explanation, HEAVIEST_MAX, HeavyFeature,
};
pub use features::normalise::normalise;
pub use html::{content_of_html, declared_as_xml, text_of_html};
pub use nearprint_fingerprint::recipe::{
    DIMENSIONS_MAX, KEYWORDS_MAX, LEVELS_MAX, Recipe, UnknownRecipe, WORDS_MAX, Weighting,
};
pub use recipes::dispatch::NoFingerprint;
pub use recipes::np2::analyse_text;
pub use recipes::weighted::BadFeatures;
pub use source::{Extract, Method, Source, analyse, memory_of_analysis};
pub use vectors::spectral::{BadModel, SpectralModel};
pub use vectors::training::{CannotLearn, SAMPLE_MIN, TrainingSample};
pub use vectors::vector::{BadVector, check_vector};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
