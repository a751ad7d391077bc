//! The recipes `np2` and `np2-5`: from a text to its fingerprint and its sketch.
//!
//! A feature counts once per occurrence, up to about eight
//! ([`crate::hashing::saturation`]), and its hash is XXH3-64, seed 0, of its UTF-8 bytes. The
//! recipe is a published standard with test vectors (`docs/recipe-np2.md`); nothing about it may
//! change under this name. Linear in the text; [`TextDigest`] does the work. Tested by the vectors
//! of `tests/corpus`, the reference fingerprints and sketches, and a naive version in
//! `tests/naive.rs`.

use nearprint_fingerprint::Fingerprint;

use crate::analysis::{Analysis, EmptyDocument, SHORT_TOKENS, Wanted};
use crate::hashing::digest::TextDigest;
use crate::hashing::sketching::SketchBuilder;
use crate::hashing::tally::Tally;

/// The length of a window of words, in code points.
pub(crate) const WINDOW: usize = 4;

/// The length of a window in the recipe `np2-5`.
pub(crate) const WIDER_WINDOW: usize = 5;

/// The fingerprint, sketch and length of a text by the recipe `np2`; its features are not counted.
///
/// # Errors
/// [`EmptyDocument`] when the text has no feature: no letter or number.
///
/// # Examples
/// ```
/// let analysis = nearprint_text::analyse_text("Hello, world!")?;
/// assert_eq!((analysis.tokens, analysis.short), (2, true));
/// # Ok::<(), nearprint_text::EmptyDocument>(())
/// ```
pub fn analyse_text(text: &str) -> Result<Analysis, EmptyDocument> {
    analyse_windows::<WINDOW>(text, Wanted::STORED)
}

/// Analyses a text with windows of `WINDOW` (4 to 8) code points.
///
/// # Errors
/// [`EmptyDocument`] as [`analyse_text`].
pub(crate) fn analyse_windows<const WINDOW: usize>(
    text: &str,
    wanted: Wanted,
) -> Result<Analysis, EmptyDocument> {
    let sketch = wanted.sketch.then(|| SketchBuilder::for_text(text));
    let features = wanted.features.then(|| Tally::with_capacity(text.len()).bounded_by(text));
    let mut digest = TextDigest::<WINDOW>::new(sketch, features);
    digest.read(text);
    if digest.token_count == 0 {
        return Err(EmptyDocument);
    }
    let (mut sketch, mut features) = (digest.sketch.take(), digest.tally.take());
    // A large text is read again for the counts that did not fit into memory.
    while sketch.as_mut().is_some_and(SketchBuilder::needs_another_pass) {
        let mut again = TextDigest::<WINDOW>::of_tokens(sketch);
        again.read(text);
        sketch = again.sketch;
    }
    while features.as_mut().is_some_and(Tally::next_partition) {
        let mut again = TextDigest::<WINDOW>::new(None, features);
        again.read(text);
        features = again.tally;
    }
    let sums = digest.sums();
    let bits = sums.iter().rev().fold(0, |bits, &sum| bits << 1 | u64::from(sum > 0));
    let sketch = sketch.and_then(SketchBuilder::finish);
    Ok(Analysis {
        fingerprint: Fingerprint::new(bits),
        features: features.map(|features| features.distinct()),
        tokens: digest.token_count,
        short: digest.token_count < SHORT_TOKENS,
        sketch,
    })
}
