//! The recipe: which definition turns documents into fingerprints, by its id.
//!
//! Fingerprints of different recipes are not comparable. So a data directory has one recipe, whose
//! id is in every file header, reply and statistic; a request that names another one is rejected. A
//! recipe is data: its id contains all of its parameters, and its definition never changes under
//! that id. [`crate::text`] implements the recipes; `docs/quality.md` measures them.
//!
//! | id | features of a text |
//! |---|---|
//! | `np1` | windows of four characters over words; CJK characters and their pairs |
//! | `np1-5` | as `np1`, with windows of five |
//! | `words-N`, `words-N-stop` | N words in a row, 1 to 8; with `-stop`, without stop words |
//! | `keywords-N`, `keywords-N-wL` | the N heaviest words by TF-IDF; weights in L steps, 1 to 5 |
//! | `features` | none: every document brings its own, with weights |

use std::fmt;
use std::str::FromStr;

/// A recipe.
///
/// ```
/// use nearprint::recipe::Recipe;
/// let recipe: Recipe = "words-3-stop".parse()?;
/// assert_eq!(recipe, Recipe::Words { in_a_row: 3, without_stop_words: true });
/// assert_eq!(recipe.to_string(), "words-3-stop");
/// assert_eq!(Recipe::default().to_string(), "np1");
/// # Ok::<(), nearprint::recipe::UnknownRecipe>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recipe {
    /// `np1`: windows of four characters over words, CJK characters and pairs.
    #[default]
    Np1,
    /// `np1-5`: as `np1`, with windows of five; safer in huge collections of one genre.
    Np1Five,
    /// `words-N`, `words-N-stop`: words in a row.
    Words {
        /// How many words make a feature, 1 to [`WORDS_MAX`].
        in_a_row: u8,
        /// Whether stop words are removed first.
        without_stop_words: bool,
    },
    /// `keywords-N`, `keywords-N-wL`: the heaviest words by TF-IDF, with their weights.
    Keywords {
        /// How many words, 1 to [`KEYWORDS_MAX`].
        heaviest: u8,
        /// The number of weight steps, 1 to [`LEVELS_MAX`]; `None` leaves the weights as they are.
        levels: Option<u8>,
    },
    /// `features`: weighted features from the caller, and no texts.
    Features,
}

/// The largest number of words of a feature of `words-N`.
pub const WORDS_MAX: u8 = 8;
/// The largest number of words of `keywords-N`.
pub const KEYWORDS_MAX: u8 = 99;
/// The largest number of weight steps of `keywords-N-wL`.
pub const LEVELS_MAX: u8 = 5;

/// The id, at most 15 bytes of ASCII.
impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Np1 => f.write_str("np1"),
            Self::Np1Five => f.write_str("np1-5"),
            Self::Words { in_a_row, without_stop_words: false } => write!(f, "words-{in_a_row}"),
            Self::Words { in_a_row, without_stop_words: true } => {
                write!(f, "words-{in_a_row}-stop")
            }
            Self::Keywords { heaviest, levels: None } => write!(f, "keywords-{heaviest}"),
            Self::Keywords { heaviest, levels: Some(levels) } => {
                write!(f, "keywords-{heaviest}-w{levels}")
            }
            Self::Features => f.write_str("features"),
        }
    }
}

/// The text is not the id of a recipe; the message lists all ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "np1, np1-5, words-N or words-N-stop (N 1 to {WORDS_MAX}), keywords-N or keywords-N-wL \
     (N 1 to {KEYWORDS_MAX}, L 1 to {LEVELS_MAX}), or features"
)]
pub struct UnknownRecipe;

/// The exact id, in lower case, numbers without leading zeros.
impl FromStr for Recipe {
    type Err = UnknownRecipe;

    fn from_str(id: &str) -> Result<Self, UnknownRecipe> {
        let mut parts = id.split('-');
        let recipe = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("np1"), None, None, None) => Self::Np1,
            (Some("np1"), Some("5"), None, None) => Self::Np1Five,
            (Some("words"), Some(n), stop @ (None | Some("stop")), None) => {
                Self::Words { in_a_row: number(n, WORDS_MAX)?, without_stop_words: stop.is_some() }
            }
            (Some("keywords"), Some(n), levels, None) => {
                let levels = levels.map(|levels| {
                    number(levels.strip_prefix('w').ok_or(UnknownRecipe)?, LEVELS_MAX)
                });
                Self::Keywords { heaviest: number(n, KEYWORDS_MAX)?, levels: levels.transpose()? }
            }
            (Some("features"), None, None, None) => Self::Features,
            _ => return Err(UnknownRecipe),
        };
        Ok(recipe)
    }
}

/// A number of 1 to `max`, in one spelling only, since recipes are compared by id.
fn number(text: &str, max: u8) -> Result<u8, UnknownRecipe> {
    let number = text.parse().ok().filter(|number| (1..=max).contains(number));
    number.filter(|number| number.to_string() == text).ok_or(UnknownRecipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_read_back_and_fits_into_a_file_header() {
        for id in [
            "np1",
            "np1-5",
            "words-1",
            "words-8",
            "words-1-stop",
            "words-8-stop",
            "keywords-1",
            "keywords-22",
            "keywords-99-w5",
            "keywords-1-w1",
            "features",
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
            "np1-4",
            "np1-5-5",
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
            "features-1",
            "words-1 ",
        ] {
            assert_eq!(id.parse::<Recipe>(), Err(UnknownRecipe), "{id:?}");
        }
    }
}
