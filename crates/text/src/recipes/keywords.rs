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
//! Words of other languages get the median IDF: the recipe is meant for Chinese. The dictionaries
//! are read at the first use, in about a second and some 100 MiB; then about 100 ns a character. In
//! memory are the distinct words, and for TextRank which are near each other.

use std::sync::LazyLock;

use jieba_rs::{Jieba, KeywordExtract as _, KeywordExtractConfig, TfIdf};
use nearprint_fingerprint::recipe::Weighting;

use crate::recipes::numbered::NumberedWords;
use crate::recipes::{segmenter, textrank};

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

/// No word of the dictionary has a larger IDF.
const IDF_MAX: f64 = 14.0;

/// No word of the dictionary has more bytes.
const KNOWN_BYTES_MAX: usize = 64;

/// The IDF of a word that is not in the dictionary.
static MEDIAN_IDF: LazyLock<f64> = LazyLock::new(|| {
    let Segmenter { jieba, weights, .. } = &*SEGMENTER;
    let found = weights.extract_keywords(jieba, "qqqqqqqq", 1, Vec::new());
    found.first().map_or(IDF_MAX, |word| word.weight)
});

/// Words whose IDFs are looked up at a time.
const LOOKED_UP: usize = 1 << 10;

/// The heaviest words of a text with their weights, heaviest first.
pub(crate) fn keywords(
    text: &str,
    weighting: Weighting,
    heaviest: u8,
    levels: Option<u8>,
) -> Vec<(String, f64)> {
    let words = match weighting {
        Weighting::TfIdf => heaviest_by_tf_idf(text, heaviest.into()),
        Weighting::TextRank => heaviest_by_rank(text, heaviest.into()),
    };
    let top = words.first().map_or(0.0, |&(_, weight)| weight);
    words.into_iter().map(|(word, weight)| (word, level(weight, top, levels))).collect()
}

/// Passes each word that counts to `take`, and `None` for each other token.
fn each_token(text: &str, mut take: impl FnMut(Option<&str>)) {
    let Segmenter { jieba, words, .. } = &*SEGMENTER;
    segmenter::words(jieba, text, |word| {
        let counts = word.chars().nth(words.min_keyword_length() - 1).is_some()
            && !words.stop_words().contains(word);
        take(counts.then_some(word));
    });
}

fn heaviest_by_rank(text: &str, heaviest: usize) -> Vec<(String, f64)> {
    let (mut words, mut tokens) = (NumberedWords::default(), textrank::Tokens::default());
    each_token(text, |word| tokens.push(word.map(|word| words.number(word))));
    let words = words.without_table();
    let mut top = Heaviest::new(heaviest);
    for (number, rank) in (0..).zip(textrank::ranks(words.len(), tokens)) {
        top.offer(words.word(number), rank);
    }
    top.words
}

fn heaviest_by_tf_idf(text: &str, heaviest: usize) -> Vec<(String, f64)> {
    let (mut words, mut counts) = (NumberedWords::default(), Vec::new());
    each_token(text, |word| {
        let Some(word) = word else { return };
        let number = words.number(word) as usize;
        if number == counts.len() {
            counts.push(0_u32);
        }
        counts[number] += 1;
    });
    let words = words.without_table();
    let total: f64 = counts.iter().map(|&count| f64::from(count)).sum();
    let weight = |count: u32, idf: f64| f64::from(count) * idf / total;
    let mut by_count: Vec<u32> = (0..words.len() as u32).collect();
    by_count.sort_unstable_by_key(|&number| std::cmp::Reverse(counts[number as usize]));
    let mut top = Heaviest::new(heaviest);
    let mut rest = &by_count[..];
    while let Some(&first) = rest.first() {
        // The words after it occur no more often.
        if !top.takes(weight(counts[first as usize], IDF_MAX)) {
            break;
        }
        let (some, after) = rest.split_at(rest.len().min(LOOKED_UP));
        let spelt: Vec<&str> = some.iter().map(|&number| words.word(number)).collect();
        for ((number, word), idf) in some.iter().zip(&spelt).zip(idfs(&spelt)) {
            top.offer(word, weight(counts[*number as usize], idf));
        }
        rest = after;
    }
    top.words
}

/// The IDFs of distinct words.
fn idfs(words: &[&str]) -> Vec<f64> {
    let mut known: Vec<&str> =
        words.iter().copied().filter(|word| word.len() <= KNOWN_BYTES_MAX).collect();
    known.sort_unstable();
    let mut idfs = Vec::with_capacity(known.len());
    while idfs.len() < known.len() {
        let rest = &known[idfs.len()..];
        idfs.extend(idfs_of_some(&rest[..1 << rest.len().ilog2()]));
    }
    let idf = |word: &&str| known.binary_search(word).map_or(*MEDIAN_IDF, |at| idfs[at]);
    words.iter().map(idf).collect()
}

/// The IDFs of words in order, whose number is a power of two. The crate tells only the TF-IDF of
/// the words of a text: that of words which occur once is their IDF divided by their number.
fn idfs_of_some(words: &[&str]) -> Vec<f64> {
    let Segmenter { jieba, weights, .. } = &*SEGMENTER;
    let text = words.join("\n");
    let found = weights.extract_keywords(jieba, &text, words.len(), Vec::new());
    let count = f64::from(words.len() as u32);
    let mut found: Vec<(&str, f64)> =
        found.iter().map(|word| (&*word.keyword, word.weight * count)).collect();
    found.sort_unstable_by_key(|&(word, _)| word);
    let idf = |word: &&str| found.binary_search_by_key(word, |&(found, _)| found).ok();
    words.iter().map(|word| idf(word).map_or(*MEDIAN_IDF, |at| found[at].1)).collect()
}

/// The words with the largest weights so far, heaviest first, then in the order of their
/// characters.
struct Heaviest {
    max: usize,
    words: Vec<(String, f64)>,
}

impl Heaviest {
    const fn new(max: usize) -> Self {
        Self { max, words: Vec::new() }
    }

    /// Whether a word of this weight may be one of them.
    fn takes(&self, weight: f64) -> bool {
        self.words.len() < self.max || self.words.last().is_some_and(|(_, least)| weight >= *least)
    }

    fn offer(&mut self, word: &str, weight: f64) {
        if !self.takes(weight) {
            return;
        }
        let before = |(other, heavier): &(String, f64)| {
            heavier.total_cmp(&weight).reverse().then_with(|| other.as_str().cmp(word)).is_lt()
        };
        let at = self.words.partition_point(before);
        if at < self.max {
            self.words.truncate(self.max - 1);
            self.words.insert(at, (word.to_owned(), weight));
        }
    }
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

    /// Those of the crate are summed in the order of a hash map, and so differ by rounding.
    #[test]
    fn words_and_weights_are_those_of_jieba() {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus");
        let mut compared = 0;
        for file in std::fs::read_dir(corpus).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "txt") {
                continue;
            }
            let text = normalise(&std::fs::read_to_string(path).unwrap()).into_owned();
            let Segmenter { jieba, weights, .. } = &*SEGMENTER;
            for (heaviest, times) in [(1, 1), (22, 1), (99, 1), (99, 40)] {
                let text = format!("{text}\u{3002}").repeat(times);
                let theirs = weights.extract_keywords(jieba, &text, heaviest, Vec::new());
                let theirs: Vec<(String, f64)> =
                    theirs.into_iter().map(|word| (word.keyword, word.weight)).collect();
                assert_eq!(heaviest_by_tf_idf(&text, heaviest), theirs);
            }
            let theirs = jieba_rs::TextRank::default();
            let theirs = theirs.extract_keywords(jieba, &text, 1_000, Vec::new());
            let mut theirs: Vec<(String, f64)> =
                theirs.into_iter().map(|word| (word.keyword, word.weight / 1e10)).collect();
            let mut ours = heaviest_by_rank(&text, 1_000);
            ours.sort_by(|a, b| a.0.cmp(&b.0));
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
    fn words_that_occur_equally_often_are_all_weighed() {
        let letters = || ('a'..='z').flat_map(|a| ('a'..='z').map(move |b| format!("{b}{a}x ")));
        let text = letters().collect::<String>() + TEXT;
        let Segmenter { jieba, weights, .. } = &*SEGMENTER;
        let theirs = weights.extract_keywords(jieba, &text, 30, Vec::new());
        let theirs: Vec<(String, f64)> =
            theirs.into_iter().map(|word| (word.keyword, word.weight)).collect();
        assert_eq!(heaviest_by_tf_idf(&text, 30), theirs);
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
