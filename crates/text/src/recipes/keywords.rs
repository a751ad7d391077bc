//! The recipes `keywords-N` and `textrank-N`, with and without `-wL`: the N heaviest words by
//! TF-IDF or by TextRank ([`textrank`]).
//!
//! Chinese services do it like this. The dictionary segmenter of jieba (`jieba-rs` with its
//! dictionary, its IDF weights and its stop words, compiled in; no HMM) cuts the normalised text,
//! without white space between kana and Han and without marks outside of words, into words and
//! weights those of two characters or more. N is about 22 for long texts and 11 for
//! short ones. A feature is such a word with its weight; with `-wL` the weight becomes a step, 1 to
//! L, in proportion to that of the heaviest. Its hash is XXH3-64, seed 0, of its UTF-8 bytes.
//!
//! Words of other languages get the median IDF: the recipe is meant for Chinese. The
//! dictionaries are read at the first use, in about a second and some 100 MiB; then about
//! 100 ns a character.

use std::sync::LazyLock;

use jieba_rs::{Jieba, KeywordExtract as _, KeywordExtractConfig, TfIdf};

use crate::features::runs::tidied;
use crate::recipe::Weighting;
use crate::recipes::textrank;

struct Segmenter {
    jieba: Jieba,
    weights: TfIdf,
    /// Which words count, by TextRank as by TF-IDF.
    words: KeywordExtractConfig,
}

static SEGMENTER: LazyLock<Segmenter> = LazyLock::new(|| {
    let words = KeywordExtractConfig::default();
    Segmenter { jieba: Jieba::new(), weights: TfIdf::default(), words }
});

/// The heaviest words of a normalised text with their weights, heaviest first.
pub(crate) fn keywords(
    normalised: &str,
    weighting: Weighting,
    heaviest: u8,
    levels: Option<u8>,
) -> Vec<(String, f64)> {
    let Segmenter { jieba, weights, words } = &*SEGMENTER;
    // A word that is broken over two lines is still one, and marks alone are none.
    let tidied = tidied(normalised);
    let normalised = &*tidied;
    let heaviest = usize::from(heaviest);
    let words: Vec<(String, f64)> = match weighting {
        Weighting::TfIdf => {
            let words = weights.extract_keywords(jieba, normalised, heaviest, Vec::new());
            words.into_iter().map(|word| (word.keyword, word.weight)).collect()
        }
        Weighting::TextRank => {
            let tokens = jieba.cut(normalised, false);
            let words = textrank::ranked(tokens.iter().map(|token| {
                let counts = token.word.chars().nth(words.min_keyword_length() - 1).is_some();
                (counts && !words.stop_words().contains(token.word)).then_some(token.word)
            }));
            let heaviest = words.into_iter().take(heaviest);
            heaviest.map(|(word, rank)| (word.to_owned(), rank)).collect()
        }
    };
    let top = words.first().map_or(0.0, |&(_, weight)| weight);
    words.into_iter().map(|(word, weight)| (word, level(weight, top, levels))).collect()
}

/// The weight that counts, given the largest weight of the text.
fn level(weight: f64, top: f64, levels: Option<u8>) -> f64 {
    levels.map_or(weight, |levels| (f64::from(levels) * weight / top).ceil().max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::normalise::normalise;

    /// "Beijing roast duck is delicious; the weather in New York is fine today, the roast duck
    /// too."
    const TEXT: &str = "\u{5317}\u{4eac}\u{70e4}\u{9e2d}\u{771f}\u{597d}\u{5403}\u{ff0c}\u{4eca}\
        \u{5929}\u{7ebd}\u{7ea6}\u{7684}\u{5929}\u{6c14}\u{597d}\u{ff0c}\u{5317}\u{4eac}\u{70e4}\
        \u{9e2d}\u{4e5f}\u{597d}\u{3002}";

    fn tf_idf(text: &str, heaviest: u8, levels: Option<u8>) -> Vec<(String, f64)> {
        keywords(text, Weighting::TfIdf, heaviest, levels)
    }

    #[test]
    fn the_heaviest_words_come_first_and_their_number_is_limited() {
        let words = tf_idf(&normalise(TEXT), 3, None);
        assert_eq!(words.len(), 3);
        // Beijing roast duck, twice in the text and rare.
        assert_eq!(words[0].0, "\u{5317}\u{4eac}\u{70e4}\u{9e2d}");
        assert!(words.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        assert!(tf_idf("?!", 3, None).is_empty());
    }

    #[test]
    fn levels_are_whole_numbers_up_to_that_of_the_heaviest() {
        let words = tf_idf(&normalise(TEXT), 9, Some(5));
        let steps: Vec<String> = words.iter().map(|(_, level)| level.to_string()).collect();
        assert_eq!(steps[0], "5");
        assert!(steps.iter().all(|step| ["1", "2", "3", "4", "5"].contains(&step.as_str())));
        assert!(steps.last() != Some(&"5".to_owned()), "{steps:?}");
        let ones = tf_idf(&normalise(TEXT), 9, Some(1));
        assert!(ones.iter().all(|(_, level)| level.to_string() == "1"));
    }

    #[test]
    fn line_breaks_and_stray_marks_between_han_make_no_difference() {
        let broken = TEXT.replace("\u{4eac}\u{70e4}", "\u{4eac}\n\u{3000}\u{70e4}");
        let marked = format!("\u{301}\u{301} {TEXT} \u{64b}\u{64b}\u{64b}");
        for weighting in [Weighting::TfIdf, Weighting::TextRank] {
            let words = |text: &str| keywords(&normalise(text), weighting, 9, None);
            assert_eq!(words(&broken), words(TEXT), "{weighting:?}");
            let of_marked: Vec<String> = words(&marked).into_iter().map(|(word, _)| word).collect();
            let of_plain: Vec<String> = words(TEXT).into_iter().map(|(word, _)| word).collect();
            assert_eq!(of_marked, of_plain, "{weighting:?}");
        }
    }

    #[test]
    fn the_same_text_has_the_same_words_every_time() {
        let text = normalise(TEXT);
        let first = tf_idf(&text, 5, None);
        assert!((0..20).all(|_| tf_idf(&text, 5, None) == first));
    }

    /// jieba-rs sums the same numbers in the order of a hash map.
    #[test]
    fn ranks_are_those_of_jieba_but_for_rounding() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus");
        let mut compared = 0;
        for file in std::fs::read_dir(corpus).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "txt") {
                continue;
            }
            let text = normalise(&std::fs::read_to_string(path).unwrap()).into_owned();
            let theirs = jieba_rs::TextRank::default();
            let theirs = theirs.extract_keywords(&SEGMENTER.jieba, &text, 1_000, Vec::new());
            let mut theirs: Vec<(String, f64)> =
                theirs.into_iter().map(|word| (word.keyword, word.weight / 1e10)).collect();
            let tokens = SEGMENTER.jieba.cut(&text, false);
            let words = &SEGMENTER.words;
            let counts =
                |word: &str| word.chars().count() > 1 && !words.stop_words().contains(word);
            let mut ours: Vec<(&str, f64)> =
                textrank::ranked(tokens.iter().map(|t| counts(t.word).then_some(t.word)));
            ours.sort_by(|a, b| a.0.cmp(b.0));
            theirs.sort_by(|a, b| a.0.cmp(&b.0));
            assert_eq!(ours.len(), theirs.len());
            for ((word, rank), (their_word, their_rank)) in ours.iter().zip(&theirs) {
                assert_eq!(word, their_word);
                assert!((rank / their_rank - 1.0).abs() < 1e-9, "{word}: {rank}, {their_rank}");
                compared += 1;
            }
        }
        assert!(compared > 100, "{compared}");
    }

    #[test]
    fn the_highest_ranks_come_first_and_their_number_is_limited() {
        let text = normalise(TEXT);
        let words = keywords(&text, Weighting::TextRank, 3, None);
        assert_eq!(words.len(), 3);
        assert!(words.windows(2).all(|pair| pair[0].1 >= pair[1].1));
        let steps = keywords(&text, Weighting::TextRank, 3, Some(5));
        assert_eq!(steps[0].1.to_string(), "5");
        assert!(keywords("?!", Weighting::TextRank, 3, None).is_empty());
    }
}
