//! The recipes `np1` and `np1-5`: from a text to its fingerprint and its sketch.
//!
//! A feature weighs as often as it occurs, and its hash is XXH3-64, seed 0, of its UTF-8 bytes. The
//! recipe is a published standard with test vectors (`docs/recipe-np1.md`); nothing of it may
//! change under this name. Linear in the text; the work is done in [`crate::text::hashing::digest`]. Tested
//! by the vectors of `tests/corpus`, the reference fingerprints and sketches, and a naive version in
//! `naive.rs`.

use crate::fingerprint::Fingerprint;
use crate::text::hashing::digest::Digest;
use crate::text::hashing::sketching::SketchBuilder;
use crate::text::hashing::tally::Tally;
use crate::text::{Analysis, EmptyDocument};

/// A text of fewer tokens is *short*: it carries too little evidence for a distance above 0.
pub const SHORT_TOKENS: usize = 10;

/// How many code points a window of words has.
pub const WINDOW: usize = 4;

/// How many it has in the recipe `np1-5`.
pub const WIDER_WINDOW: usize = 5;

/// What is made of a text beside its fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The verification sketch: about as much work again as the fingerprint.
    pub sketch: bool,
    /// The number of distinct features: several times the work of the fingerprint.
    pub features: bool,
}

impl Wanted {
    /// What is stored: the sketch.
    pub const STORED: Self = Self { sketch: true, features: false };

    /// Everything.
    pub const ALL: Self = Self { sketch: true, features: true };
}

/// The fingerprint, sketch and length of a text; its features are not counted.
///
/// Memory: little beside the text (see [`crate::text`]).
///
/// # Errors
/// [`EmptyDocument`] when the text has no feature: no letter, number or mark.
///
/// # Examples
/// ```
/// let analysis = nearprint::text::analyse_text("Hello, world!")?;
/// assert_eq!((analysis.tokens, analysis.short), (2, true));
/// # Ok::<(), nearprint::text::EmptyDocument>(())
/// ```
pub fn analyse_text(text: &str) -> Result<Analysis, EmptyDocument> {
    analyse_windows::<WINDOW>(text, Wanted::STORED)
}

/// The fingerprint of a text by windows of `WINDOW` (4 to 8) code points, and what else is wanted.
///
/// # Errors
/// [`EmptyDocument`] as [`analyse_text`].
///
/// # Examples
/// ```
/// use nearprint::text::{analyse_windows, Wanted};
/// let analysis = analyse_windows::<5>("Hello, world!", Wanted::ALL)?;
/// assert_eq!(analysis.features, Some(7));
/// # Ok::<(), nearprint::text::EmptyDocument>(())
/// ```
pub fn analyse_windows<const WINDOW: usize>(
    text: &str,
    wanted: Wanted,
) -> Result<Analysis, EmptyDocument> {
    Counts::of::<WINDOW>(text, wanted).map(Counts::into_analysis)
}

/// What was counted in one reading of a text.
struct Counts {
    /// The 64 sums, that of bit 0 first.
    sums: [i64; 64],
    /// How often each feature occurs, where that was wanted.
    features: Option<Tally>,
    sketch: Option<SketchBuilder>,
    tokens: usize,
}

impl Counts {
    /// Reads a text.
    fn of<const WINDOW: usize>(text: &str, wanted: Wanted) -> Result<Self, EmptyDocument> {
        let sketch = wanted.sketch.then(|| SketchBuilder::of_tokens_from(text));
        let features = wanted.features.then(|| Tally::of_keys(text.len()).bounded(text));
        let mut digest = Digest::<WINDOW>::new(sketch, features);
        digest.read(text);
        let (mut sketch, mut features) = (digest.sketch.take(), digest.tally.take());
        // A large text is read again for what did not fit the memory for it.
        while sketch.as_mut().is_some_and(SketchBuilder::comes_again) {
            let mut again = Digest::<WINDOW>::new(sketch, None);
            again.read(text);
            sketch = again.sketch;
        }
        while features.as_mut().is_some_and(Tally::next_share) {
            let mut again = Digest::<WINDOW>::new(None, features);
            again.read(text);
            features = again.tally;
        }
        let (tokens, counts) = (digest.token_count, &mut digest.counts);
        let total = counts.total().cast_signed();
        let sums = counts.ones().map(|ones| 2 * ones.cast_signed() - total);
        if tokens == 0 {
            return Err(EmptyDocument);
        }
        Ok(Self { sums, features, sketch, tokens })
    }

    fn into_analysis(self) -> Analysis {
        let bits = self.sums.iter().rev().fold(0, |bits, &sum| bits << 1 | u64::from(sum > 0));
        Analysis {
            fingerprint: Fingerprint::new(bits),
            features: self.features.map(|features| features.distinct()),
            tokens: self.tokens,
            short: self.tokens < SHORT_TOKENS,
            sketch: self.sketch.and_then(SketchBuilder::finish),
        }
    }
}
