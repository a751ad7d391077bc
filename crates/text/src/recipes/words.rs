//! The recipes `words-N` and `words-N-stop`: N words in a row are a feature.
//!
//! A word is a token of the recipe `np2`: a word run, or one CJK character. With `-stop`, stop
//! words of eleven languages are removed first. The words of a feature are joined by a space; a
//! text of fewer than N words is one feature. A feature counts once per occurrence, and its hash is
//! XXH3-64, seed 0, of its UTF-8 bytes. Linear in the text, about 30 ns a word; only one row of
//! words is in memory.

use std::collections::{HashSet, VecDeque};
use std::sync::LazyLock;

use crate::features::normalise::normalise;
use crate::features::runs::{RunSink, Runs};
use crate::features::stream;

/// The languages whose stop words are removed, by the ISO lists of `stop-words` 0.10.
const STOP_LANGUAGES: [&str; 11] =
    ["de", "en", "es", "fr", "it", "ja", "ko", "nl", "pt", "ru", "zh"];

static STOP_WORDS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let of_language = |language| stop_words::get(language).iter();
    STOP_LANGUAGES.into_iter().flat_map(of_language).map(|word| normalise(word).into()).collect()
});

/// Passes each occurrence of a feature in a text to `take`, in text order.
pub(crate) fn walk(
    text: &str,
    in_a_row: u8,
    without_stop_words: bool,
    take: &mut dyn FnMut(&[u8]),
) {
    let mut runs = Runs::new(Rows {
        take,
        in_a_row: usize::from(in_a_row),
        without_stop_words,
        text: String::new(),
        begin: None,
        lengths: VecDeque::new(),
        has_any: false,
    });
    stream::read(text, &mut runs);
    let Rows { take, text, has_any, .. } = runs.finish();
    if !has_any && !text.is_empty() {
        take(text.as_bytes());
    }
}

/// The last words of a text.
struct Rows<'a> {
    take: &'a mut dyn FnMut(&[u8]),
    in_a_row: usize,
    without_stop_words: bool,
    /// They are joined by spaces; the word that is being read comes last.
    text: String,
    /// Where that word begins.
    begin: Option<usize>,
    /// The lengths of the others, at most as many as make a row.
    lengths: VecDeque<usize>,
    /// Whether there have been enough words for a row.
    has_any: bool,
}

impl RunSink for Rows<'_> {
    fn word(&mut self, part: &str) {
        if self.begin.is_none() {
            if !self.text.is_empty() {
                self.text.push(' ');
            }
            self.begin = Some(self.text.len());
        }
        self.text.push_str(part);
    }

    fn end_word(&mut self) {
        let Some(begin) = self.begin.take() else { return };
        let word = &self.text[begin..];
        if self.without_stop_words && STOP_WORDS.contains(word) {
            self.text.truncate(begin.saturating_sub(1));
            return;
        }
        self.lengths.push_back(word.len());
        if self.lengths.len() > self.in_a_row {
            let first = self.lengths.pop_front().unwrap_or_default();
            self.text.drain(..=first);
        }
        if self.lengths.len() == self.in_a_row {
            (self.take)(self.text.as_bytes());
            self.has_any = true;
        }
    }

    fn cjk(&mut self, character: char) {
        self.word(character.encode_utf8(&mut [0; 4]));
        self.end_word();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(text: &str, in_a_row: u8, without_stop_words: bool) -> Vec<String> {
        let mut features = Vec::new();
        walk(text, in_a_row, without_stop_words, &mut |feature| {
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
