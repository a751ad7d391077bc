//! The recipes `words-N` and `words-N-stop`: N words in a row are a feature.
//!
//! A word is a token of the recipe `np2`: a word run, or one CJK character. With `-stop`, stop
//! words of eleven languages are removed first. The words of a feature are joined by a space; a
//! text of fewer than N words is one feature. A feature counts once per occurrence, and its hash is
//! XXH3-64, seed 0, of its UTF-8 bytes. Linear in the text, about 30 ns a word.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::features::normalise::normalise;
use crate::features::runs::{Runs, TextRun, characters_of};

/// The languages whose stop words are removed, by the ISO lists of `stop-words` 0.10.
const STOP_LANGUAGES: [&str; 11] =
    ["de", "en", "es", "fr", "it", "ja", "ko", "nl", "pt", "ru", "zh"];

static STOP_WORDS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let of_language = |language| stop_words::get(language).iter();
    STOP_LANGUAGES.into_iter().flat_map(of_language).map(|word| normalise(word).into()).collect()
});

/// Passes each occurrence of a feature in a normalised text to `take`, in text order.
pub(crate) fn walk(
    normalised: &str,
    in_a_row: u8,
    without_stop_words: bool,
    mut take: impl FnMut(&[u8]),
) {
    let counts = |word: &&str| !(without_stop_words && STOP_WORDS.contains(*word));
    let words: Vec<&str> = words(normalised).filter(counts).collect();
    if words.is_empty() {
        return;
    }
    let row = usize::from(in_a_row).min(words.len());
    let mut feature = String::new();
    for row in words.windows(row) {
        feature.clear();
        for (i, word) in row.iter().enumerate() {
            if i > 0 {
                feature.push(' ');
            }
            feature.push_str(word);
        }
        take(feature.as_bytes());
    }
}

/// The words of a normalised text, in order.
fn words(normalised: &str) -> impl Iterator<Item = &str> {
    Runs::of(normalised).flat_map(|run| {
        let (word, cjk) = match run {
            TextRun::Word(word) => (Some(word), ""),
            TextRun::Cjk(cjk) => (None, cjk),
        };
        word.into_iter().chain(characters_of(cjk))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(text: &str, in_a_row: u8, without_stop_words: bool) -> Vec<String> {
        let mut features = Vec::new();
        walk(&normalise(text), in_a_row, without_stop_words, |feature| {
            features.push(String::from_utf8(feature.to_vec()).unwrap());
        });
        features
    }

    #[test]
    fn words_in_a_row_are_features_across_punctuation_and_scripts() {
        let text = "Tea, v2\u{7248}\u{672c}; tea!";
        assert_eq!(features(text, 1, false), ["tea", "v2", "\u{7248}", "\u{672c}", "tea"]);
        assert_eq!(
            features(text, 2, false),
            ["tea v2", "v2 \u{7248}", "\u{7248} \u{672c}", "\u{672c} tea"]
        );
    }

    #[test]
    fn a_text_shorter_than_a_row_is_one_feature_and_an_empty_one_has_none() {
        assert_eq!(features("black tea", 3, false), ["black tea"]);
        assert!(features("?!", 3, false).is_empty());
    }

    #[test]
    fn stop_words_are_removed_before_features_are_formed() {
        // English, German and Chinese stop words.
        assert_eq!(features("The taste OF the tea", 2, true), ["taste tea"]);
        assert_eq!(features("der Tee", 1, true), ["tee"]);
        assert_eq!(features("\u{8336}\u{7684}", 1, true), ["\u{8336}"]);
        assert!(features("of the", 1, true).is_empty());
    }

    #[test]
    fn every_language_has_its_list() {
        for language in STOP_LANGUAGES {
            assert!(stop_words::get(language).len() > 50, "{language}");
        }
    }
}
