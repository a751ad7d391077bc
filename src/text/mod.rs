//! From a text, a page or weighted features to a fingerprint: the recipe `np1`.
//!
//! ```text
//! bytes -charset-> HTML -html-> text -normalise-> runs -> features -> simhash -> fingerprint
//!                                                      -> tokens -> sketching -> sketch
//! ```
//!
//! Pure and total: no file, clock or random number, and any `&str` gets an answer in time linear
//! in its bytes. Names nothing of the house but [`crate::fingerprint`] and [`crate::sketch`]. The
//! recipe is a standard of its own, with test vectors: `docs/recipe-np1.md`.

pub mod charset;
pub mod normalise;
pub mod recipe;
pub mod simhash;

mod digest;
mod explain;
mod features;
mod html;
mod letters;
#[cfg(test)]
mod naive;
mod runs;
mod sketching;
mod stream;
mod tally;
#[cfg(test)]
mod tests;
mod weighted;

use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;

pub use explain::{
    Explanation, HEAVIEST_MAX, HeavyFeature, NoFingerprint, Source, analyse, explain,
};
pub use html::text_of as text_of_html;
pub use recipe::{Wanted, analyse_text, analyse_windows};
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

/// A document has no feature, and so no fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the document has no letter or number, and so no fingerprint")]
pub struct EmptyDocument;

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
