//! The recipes `keywords-N` and `keywords-N-wL`: the N heaviest words by TF-IDF.
//!
//! Chinese services do it like this. The dictionary segmenter of jieba (`jieba-rs` with its
//! dictionary, its IDF weights and its stop words, compiled in; no HMM) cuts the normalised text
//! into words and weights those of two characters or more. N is about 22 for long texts and 11 for
//! short ones. A feature is such a word with its weight; with `-wL` the weight becomes a step, 1 to
//! L, in proportion to that of the heaviest. Its hash is XXH3-64, seed 0, of its UTF-8 bytes.
//!
//! Words of other languages get the median IDF: the recipe is meant for Chinese. The
//! dictionaries are read at the first use, in about a second and some 100 MiB; then about
//! 100 ns a character.

use std::sync::LazyLock;

use jieba_rs::{Jieba, KeywordExtract as _, TfIdf};

struct Segmenter {
    jieba: Jieba,
    weights: TfIdf,
}

static SEGMENTER: LazyLock<Segmenter> =
    LazyLock::new(|| Segmenter { jieba: Jieba::new(), weights: TfIdf::default() });

/// The heaviest words of a normalised text with their weights, heaviest first.
pub(crate) fn keywords(normalised: &str, heaviest: u8, levels: Option<u8>) -> Vec<(String, f64)> {
    let Segmenter { jieba, weights } = &*SEGMENTER;
    let words = weights.extract_keywords(jieba, normalised, usize::from(heaviest), Vec::new());
    let top = words.first().map_or(0.0, |word| word.weight);
    words.into_iter().map(|word| (word.keyword, level(word.weight, top, levels))).collect()
}

/// The weight that counts, given the largest weight of the text.
fn level(weight: f64, top: f64, levels: Option<u8>) -> f64 {
    levels.map_or(weight, |levels| (f64::from(levels) * weight / top).ceil().max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::features::normalise::normalise;

    /// "Beijing roast duck is delicious; the weather in New York is fine today, the roast duck
    /// too."
    const TEXT: &str = "\u{5317}\u{4eac}\u{70e4}\u{9e2d}\u{771f}\u{597d}\u{5403}\u{ff0c}\u{4eca}\
        \u{5929}\u{7ebd}\u{7ea6}\u{7684}\u{5929}\u{6c14}\u{597d}\u{ff0c}\u{5317}\u{4eac}\u{70e4}\
        \u{9e2d}\u{4e5f}\u{597d}\u{3002}";

    #[test]
    fn the_heaviest_words_come_first_and_their_number_is_limited() {
        let words = keywords(&normalise(TEXT), 3, None);
        assert_eq!(words.len(), 3);
        // Beijing roast duck, twice in the text and rare.
        assert_eq!(words[0].0, "\u{5317}\u{4eac}\u{70e4}\u{9e2d}");
        assert!(words.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        assert!(keywords("?!", 3, None).is_empty());
    }

    #[test]
    fn levels_are_whole_numbers_up_to_that_of_the_heaviest() {
        let words = keywords(&normalise(TEXT), 9, Some(5));
        let steps: Vec<String> = words.iter().map(|(_, level)| level.to_string()).collect();
        assert_eq!(steps[0], "5");
        assert!(steps.iter().all(|step| ["1", "2", "3", "4", "5"].contains(&step.as_str())));
        assert!(steps.last() != Some(&"5".to_owned()), "{steps:?}");
        let ones = keywords(&normalise(TEXT), 9, Some(1));
        assert!(ones.iter().all(|(_, level)| level.to_string() == "1"));
    }

    #[test]
    fn the_same_text_has_the_same_words_every_time() {
        let text = normalise(TEXT);
        let first = keywords(&text, 5, None);
        assert!((0..20).all(|_| keywords(&text, 5, None) == first));
    }
}
