//! The recipe: which definition turns documents into fingerprints, by its id.
//!
//! Fingerprints of different recipes are not comparable. So a data directory has one recipe, whose
//! id is in every file header, reply and statistic; a request that names another one is rejected. A
//! recipe is data: its id contains all of its parameters, and its definition never changes under
//! that id. nearprint-text implements them; `docs/quality.md` measures them.
//!
//! | id | features of a text |
//! |---|---|
//! | `np2` | windows of four characters over words; CJK characters and their pairs |
//! | `np2-5` | as `np2`, with windows of five |
//! | `words-N`, `words-N-stop` | N words in a row, 1 to 8; with `-stop`, without stop words |
//! | `keywords-N`, `keywords-N-wL` | the N heaviest words by TF-IDF; weights in L steps, 1 to 5 |
//! | `textrank-N`, `textrank-N-wL` | the same by TextRank |
//! | `features` | none: every document brings its own, with weights |
//! | `hyperplanes-D` | none: documents are dense vectors of D dimensions, 1 to 8192 |
//! | `spectral-D` | the same, with a model that was learned from vectors |

use std::fmt;
use std::str::FromStr;

/// A recipe.
///
/// ```
/// use nearprint_fingerprint::recipe::Recipe;
/// let recipe: Recipe = "words-3-stop".parse()?;
/// assert_eq!(recipe, Recipe::Words { in_a_row: 3, without_stop_words: true });
/// assert_eq!(recipe.to_string(), "words-3-stop");
/// assert_eq!(Recipe::default().to_string(), "np2");
/// # Ok::<(), nearprint_fingerprint::recipe::UnknownRecipe>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recipe {
    /// `np2`: windows of four characters over words, CJK characters and pairs.
    #[default]
    Np2,
    /// `np2-5`: as `np2`, with windows of five; safer in huge collections of one genre.
    Np2Five,
    /// `words-N`, `words-N-stop`: words in a row.
    Words {
        /// How many words make a feature, 1 to [`WORDS_MAX`].
        in_a_row: u8,
        /// Whether stop words are removed first.
        without_stop_words: bool,
    },
    /// `keywords-N`, `keywords-N-wL`, `textrank-N`, `textrank-N-wL`: the heaviest words, with their
    /// weights.
    Keywords {
        /// How the words are weighed, and so which are the heaviest.
        weighting: Weighting,
        /// How many words, 1 to [`KEYWORDS_MAX`].
        heaviest: u8,
        /// The number of weight steps, 1 to [`LEVELS_MAX`]; `None` leaves the weights as they are.
        levels: Option<u8>,
    },
    /// `features`: weighted features from the caller, and no texts.
    Features,
    /// `hyperplanes-D`: dense vectors, by the sides of 64 random hyperplanes.
    Hyperplanes {
        /// The number of dimensions, 1 to [`DIMENSIONS_MAX`].
        dimensions: u16,
    },
    /// `spectral-D`: dense vectors, by eigenfunctions of the principal directions of a sample.
    Spectral {
        /// The number of dimensions, 1 to [`DIMENSIONS_MAX`].
        dimensions: u16,
    },
}

/// What the words of [`Recipe::Keywords`] weigh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weighting {
    /// `keywords-N`: their frequency, and how rare they are in general.
    TfIdf,
    /// `textrank-N`: their rank among the words near them.
    TextRank,
}

impl Weighting {
    /// The beginning of the ids of its recipes.
    const fn family(self) -> &'static str {
        match self {
            Self::TfIdf => "keywords",
            Self::TextRank => "textrank",
        }
    }
}

/// The largest number of words of a feature of `words-N`.
pub const WORDS_MAX: u8 = 8;
/// The largest number of words of `keywords-N` and `textrank-N`.
pub const KEYWORDS_MAX: u8 = 99;
/// The largest number of weight steps of `keywords-N-wL`.
pub const LEVELS_MAX: u8 = 5;
/// The largest number of dimensions of a vector.
pub const DIMENSIONS_MAX: u16 = 8_192;

impl Recipe {
    /// The number of dimensions of its vectors; `None` for a recipe of texts and features.
    pub const fn dimensions(self) -> Option<u16> {
        match self {
            Self::Hyperplanes { dimensions } | Self::Spectral { dimensions } => Some(dimensions),
            Self::Np2
            | Self::Np2Five
            | Self::Words { .. }
            | Self::Keywords { .. }
            | Self::Features => None,
        }
    }

    /// Whether it needs a model in addition to its id.
    pub const fn needs_model(self) -> bool {
        matches!(self, Self::Spectral { .. })
    }
}

/// The id, at most 16 bytes of ASCII.
impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Np2 => f.write_str("np2"),
            Self::Np2Five => f.write_str("np2-5"),
            Self::Words { in_a_row, without_stop_words: false } => write!(f, "words-{in_a_row}"),
            Self::Words { in_a_row, without_stop_words: true } => {
                write!(f, "words-{in_a_row}-stop")
            }
            Self::Keywords { weighting, heaviest, levels: None } => {
                write!(f, "{}-{heaviest}", weighting.family())
            }
            Self::Keywords { weighting, heaviest, levels: Some(levels) } => {
                write!(f, "{}-{heaviest}-w{levels}", weighting.family())
            }
            Self::Features => f.write_str("features"),
            Self::Hyperplanes { dimensions } => write!(f, "hyperplanes-{dimensions}"),
            Self::Spectral { dimensions } => write!(f, "spectral-{dimensions}"),
        }
    }
}

/// The text is not the id of a recipe; the message lists all ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownRecipe;

impl fmt::Display for UnknownRecipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "np2, np2-5, words-N or words-N-stop (N 1 to {WORDS_MAX}), keywords-N or keywords-N-wL \
             (N 1 to {KEYWORDS_MAX}, L 1 to {LEVELS_MAX}), textrank-N or textrank-N-wL, features, \
             hyperplanes-D or spectral-D (D 1 to {DIMENSIONS_MAX})"
        )
    }
}

impl std::error::Error for UnknownRecipe {}

/// The exact id, in lower case, numbers without leading zeros.
impl FromStr for Recipe {
    type Err = UnknownRecipe;

    fn from_str(id: &str) -> Result<Self, UnknownRecipe> {
        let mut parts = id.split('-');
        let recipe = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("np2"), None, None, None) => Self::Np2,
            (Some("np2"), Some("5"), None, None) => Self::Np2Five,
            (Some("words"), Some(n), stop @ (None | Some("stop")), None) => {
                Self::Words { in_a_row: number(n, WORDS_MAX)?, without_stop_words: stop.is_some() }
            }
            (Some(family @ ("keywords" | "textrank")), Some(n), levels, None) => {
                let is_rank = family == Weighting::TextRank.family();
                let weighting = if is_rank { Weighting::TextRank } else { Weighting::TfIdf };
                let levels = levels.map(|levels| {
                    number(levels.strip_prefix('w').ok_or(UnknownRecipe)?, LEVELS_MAX)
                });
                let (heaviest, levels) = (number(n, KEYWORDS_MAX)?, levels.transpose()?);
                Self::Keywords { weighting, heaviest, levels }
            }
            (Some("features"), None, None, None) => Self::Features,
            (Some("hyperplanes"), Some(n), None, None) => {
                Self::Hyperplanes { dimensions: number(n, DIMENSIONS_MAX)? }
            }
            (Some("spectral"), Some(n), None, None) => {
                Self::Spectral { dimensions: number(n, DIMENSIONS_MAX)? }
            }
            _ => return Err(UnknownRecipe),
        };
        Ok(recipe)
    }
}

/// A number of 1 to `max`, in one spelling only, since recipes are compared by id.
fn number<N>(text: &str, max: N) -> Result<N, UnknownRecipe>
where
    N: FromStr + PartialOrd + From<u8> + fmt::Display,
{
    let number: Option<N> = text.parse().ok();
    let number = number.filter(|number| (N::from(1_u8)..=max).contains(number));
    number.filter(|number| number.to_string() == text).ok_or(UnknownRecipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_read_back_and_fits_into_a_file_header() {
        for id in [
            "np2",
            "np2-5",
            "words-1",
            "words-8",
            "words-1-stop",
            "words-8-stop",
            "keywords-1",
            "keywords-22",
            "keywords-99-w5",
            "keywords-1-w1",
            "textrank-1",
            "textrank-99-w5",
            "features",
            "hyperplanes-1",
            "hyperplanes-8192",
            "spectral-8192",
        ] {
            let recipe: Recipe = id.parse().unwrap();
            assert_eq!(recipe.to_string(), id);
            assert!(id.len() <= 16);
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for id in [
            "",
            "np",
            "NP1",
            "np2-4",
            "np2-5-5",
            "words",
            "words-0",
            "words-9",
            "words-01",
            "words-+1",
            "words-1-",
            "words-1-stop-x",
            "words-1-go",
            "keywords",
            "keywords-0",
            "keywords-100",
            "keywords-22-5",
            "keywords-22-w0",
            "keywords-22-w6",
            "keywords-22-w1-x",
            "textrank",
            "textrank-100",
            "textrank-22-5",
            "features-1",
            "hyperplanes",
            "hyperplanes-0",
            "spectral",
            "spectral-8193",
            "hyperplanes-8193",
            "hyperplanes-65536",
            "hyperplanes-064",
            "hyperplanes-64-1",
            "words-1 ",
        ] {
            assert_eq!(id.parse::<Recipe>(), Err(UnknownRecipe), "{id:?}");
        }
    }
}
