//! From a text, a page or weighted features to a fingerprint.
//!
//! ```text
//! bytes -charset-> HTML -html-> text -normalise-> runs -> features -> simhash -> fingerprint
//!                                                      -> tokens -> sketching -> sketch
//! ```
//!
//! Pure and total: no file and no clock, and any `&str` gets an answer in time linear in its bytes. A
//! random number draws places in tables, as in the maps of the standard library; no answer depends on it.
//! Names nothing of the house but values: [`crate::fingerprint`], [`crate::sketch`],
//! [`crate::recipe`]. What the recipes have in common (normal form, tokens, sketch) and `np1` itself
//! are a standard of its own, with test vectors: `docs/recipe-np1.md`.

pub mod charset;
pub mod normalise;
pub mod recipe;
pub mod simhash;

mod digest;
mod explain;
mod features;
mod html;
mod keywords;
mod letters;
mod main_text;
#[cfg(test)]
mod naive;
mod repeats;
mod runs;
mod sketching;
mod source;
mod stream;
mod tally;
#[cfg(test)]
mod tests;
mod weighted;
mod words;

use std::collections::HashSet;

use xxhash_rust::xxh3::xxh3_64;

use crate::fingerprint::Fingerprint;
use crate::recipe::Recipe;
use crate::sketch::Sketch;
use crate::text::features::{Sink, walk};
use crate::text::recipe::{WIDER_WINDOW, WINDOW};
use crate::text::simhash::SimHash;

pub use explain::{
    DECIDING_MAX, DecidingFeature, DifferingBit, Explained, Explanation, HEAVIEST_MAX, HeavyFeature,
};
pub use html::text_of as text_of_html;
pub use recipe::{Wanted, analyse_text, analyse_windows};
pub use source::{Extract, Method, NoFingerprint, Source, analyse};
pub use weighted::{BadFeatures, analyse_features};

/// What the recipe makes of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// How many distinct features it has, where that was wanted.
    pub features: Option<usize>,
    /// How many tokens: words, and single CJK characters; 0 for weighted features.
    pub tokens: usize,
    /// It is a text of fewer than [`recipe::SHORT_TOKENS`] tokens.
    pub short: bool,
    /// Its verification sketch, if that was wanted; weighted features have none.
    pub sketch: Option<Box<Sketch>>,
}

/// A document has no feature of the recipe, and so no fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the document has no letter or number, and so no fingerprint")]
pub struct EmptyDocument;

/// The analysis of a text by a recipe. Tokens and sketch are the same by all of them.
///
/// # Errors
/// [`NoFingerprint::Empty`] when the text has no feature of the recipe, and
/// [`NoFingerprint::OnlyFeatures`] when the recipe takes no texts.
fn analyse_by(recipe: Recipe, text: &str, wanted: Wanted) -> Result<Analysis, NoFingerprint> {
    match recipe {
        Recipe::Np1 => Ok(analyse_windows::<WINDOW>(text, wanted)?),
        Recipe::Np1Five => Ok(analyse_windows::<WIDER_WINDOW>(text, wanted)?),
        Recipe::Words { .. } => {
            let mut sums = SimHash::<i64>::default();
            let mut occurrences = 0_u64;
            // To count distinct features takes several times the work of the fingerprint.
            let mut distinct = wanted.features.then(HashSet::new);
            walk_features(&normalise::normalise(text), recipe, &mut |feature| {
                let hash = xxh3_64(feature);
                sums.add(hash, 1);
                occurrences += 1;
                if let Some(distinct) = &mut distinct {
                    distinct.insert(hash);
                }
            });
            if occurrences == 0 {
                return Err(EmptyDocument.into());
            }
            with_fingerprint((text, wanted), sums.bits(), distinct.map(|distinct| distinct.len()))
        }
        Recipe::Keywords { heaviest, levels } => {
            let words = keywords::keywords(&normalise::normalise(text), heaviest, levels);
            let pairs = words.iter().map(|(word, weight)| (word.as_str(), *weight));
            let Ok(words) = weighted::merged(pairs) else { return Err(EmptyDocument.into()) };
            if words.is_empty() {
                return Err(EmptyDocument.into());
            }
            with_fingerprint((text, wanted), weighted::sums(&words).bits(), Some(words.len()))
        }
        Recipe::Features => Err(NoFingerprint::OnlyFeatures),
    }
}

/// The analysis of a text whose fingerprint is made of features of another kind than `np1`'s.
fn with_fingerprint(
    (text, wanted): (&str, Wanted),
    bits: u64,
    features: Option<usize>,
) -> Result<Analysis, NoFingerprint> {
    let tokens = analyse_windows::<WINDOW>(text, Wanted { features: false, ..wanted })?;
    Ok(Analysis { fingerprint: Fingerprint::new(bits), features, ..tokens })
}

/// Hands each feature of a normalised text by a recipe to `take`, once an occurrence. Of recipes
/// whose features are not found by walking over a text there are none.
fn walk_features(normalised: &str, recipe: Recipe, take: &mut dyn FnMut(&[u8])) {
    match recipe {
        Recipe::Np1 => walk::<WINDOW>(normalised, &mut Features(take)),
        Recipe::Np1Five => walk::<WIDER_WINDOW>(normalised, &mut Features(take)),
        Recipe::Words { in_a_row, stop_words } => {
            words::walk(normalised, in_a_row, stop_words, take);
        }
        Recipe::Keywords { .. } | Recipe::Features => {}
    }
}

/// Takes features alone.
struct Features<'a>(&'a mut dyn FnMut(&[u8]));

impl Sink for Features<'_> {
    fn feature(&mut self, feature: &[u8]) {
        (self.0)(feature);
    }

    fn token(&mut self, _: &[u8]) {}
}

/// The analysis of the visible text of a page of HTML, which is decoded already
/// ([`charset::decode`]).
///
/// # Errors
/// [`EmptyDocument`] when the page has no text.
///
/// # Examples
/// ```
/// use nearprint::text::{analyse_html, analyse_text};
/// let page = "<nav>Home</nav><p>Tea &amp; <b>b</b>read</p><script>0</script>";
/// assert_eq!(analyse_html(page)?, analyse_text("Tea & bread")?);
/// # Ok::<(), nearprint::text::EmptyDocument>(())
/// ```
pub fn analyse_html(html: &str) -> Result<Analysis, EmptyDocument> {
    analyse_text(&html::text_of(html))
}
