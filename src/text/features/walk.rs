//! Features and tokens of a normalised text.
//!
//! Consecutive word runs with no CJK run between them are joined by one space into a *segment*;
//! each window of four code points of it is a feature (a shorter segment is one feature). Of a CJK
//! run of two or more characters each character that is not kana is a feature, and each pair of
//! neighbours; a CJK run of one character is one feature. A token, for the sketch and for the
//! length, is a word run or one CJK character.
//!
//! One pass; features are slices, and the only allocation is the buffer of the current segment. Tested
//! against a naive collector in `naive.rs`.

use std::iter;

use crate::text::features::runs::{Run, Runs, is_kana};

/// Receives the features and the tokens of a text, each kind in text order.
pub(crate) trait FeatureSink {
    /// One occurrence of a feature, in UTF-8.
    fn feature(&mut self, feature: &[u8]);
    /// One occurrence of a token, in UTF-8.
    fn token(&mut self, token: &[u8]);
}

/// Passes the features and tokens of a normalised text to a sink, with windows of `WINDOW` code points.
pub(crate) fn walk<const WINDOW: usize>(normalised: &str, sink: &mut impl FeatureSink) {
    let mut segment = String::with_capacity(normalised.len());
    for run in Runs::of(normalised) {
        match run {
            Run::Word(word) => {
                sink.token(word.as_bytes());
                if !segment.is_empty() {
                    segment.push(' ');
                }
                segment.push_str(word);
            }
            Run::Cjk(characters) => {
                windows::<WINDOW>(&segment, sink);
                segment.clear();
                cjk(characters, sink);
            }
        }
    }
    windows::<WINDOW>(&segment, sink);
}

/// All windows of a segment; the whole segment if it is shorter than one window.
fn windows<const WINDOW: usize>(segment: &str, sink: &mut impl FeatureSink) {
    let bytes = segment.as_bytes();
    if segment.is_ascii() && bytes.len() > WINDOW {
        bytes.windows(WINDOW).for_each(|window| sink.feature(window));
        return;
    }
    // The start and the end of each window. A segment shorter than a window has one end, its own, and
    // so one window; an empty segment has no start.
    let starts = segment.char_indices().map(|(at, _)| at);
    let ends = starts.clone().skip(WINDOW).chain(iter::once(bytes.len()));
    for (start, end) in starts.zip(ends) {
        sink.feature(&bytes[start..end]);
    }
}

/// The characters and pairs of a CJK run.
fn cjk(run: &str, sink: &mut impl FeatureSink) {
    let mut before: Option<&str> = None;
    let mut rest = run;
    while let Some(character) = rest.chars().next() {
        let (one, after) = rest.split_at(character.len_utf8());
        sink.token(one.as_bytes());
        if one.len() == run.len() || !is_kana(character) {
            sink.feature(one.as_bytes());
        }
        if let Some(before) = before {
            let end = run.len() - after.len();
            let start = end - one.len() - before.len();
            sink.feature(&run.as_bytes()[start..end]);
        }
        (before, rest) = (Some(one), after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::recipes::np1::WINDOW;

    #[derive(Default)]
    struct Seen {
        features: Vec<String>,
        tokens: Vec<String>,
    }

    impl FeatureSink for Seen {
        fn feature(&mut self, feature: &[u8]) {
            self.features.push(String::from_utf8(feature.to_vec()).unwrap());
        }

        fn token(&mut self, token: &[u8]) {
            self.tokens.push(String::from_utf8(token.to_vec()).unwrap());
        }
    }

    fn seen(normalised: &str) -> Seen {
        let mut seen = Seen::default();
        walk::<WINDOW>(normalised, &mut seen);
        seen
    }

    #[test]
    fn word_runs_join_by_one_space_whatever_separates_them() {
        let seen = seen("ab, \u{2014}\n cd");
        assert_eq!(seen.features, ["ab c", "b cd"]);
        assert_eq!(seen.tokens, ["ab", "cd"]);
    }

    #[test]
    fn a_segment_shorter_than_a_window_is_one_feature() {
        for segment in ["a", "ab", "abc", "abcd", "\u{e9}", "\u{e9}\u{e8}\u{ea}"] {
            assert_eq!(seen(segment).features, [segment]);
        }
        assert!(seen("?! ...").features.is_empty());
    }

    #[test]
    fn windows_count_code_points_and_not_bytes() {
        assert_eq!(seen("\u{e9}t\u{e9} ax").features, ["\u{e9}t\u{e9} ", "t\u{e9} a", "\u{e9} ax"]);
    }

    #[test]
    fn a_cjk_run_ends_the_segment_before_it() {
        let seen = seen("tea \u{8336} pot");
        assert_eq!(seen.features, ["tea", "\u{8336}", "pot"]);
        assert_eq!(seen.tokens, ["tea", "\u{8336}", "pot"]);
    }

    #[test]
    fn kana_count_in_pairs_and_alone_only_as_a_whole_run() {
        // Han, hiragana, hiragana.
        let seen_run = seen("\u{8336}\u{3068}\u{306f}");
        assert_eq!(seen_run.features, ["\u{8336}", "\u{8336}\u{3068}", "\u{3068}\u{306f}"]);
        assert_eq!(seen_run.tokens.len(), 3);
        assert_eq!(seen("\u{3068}").features, ["\u{3068}"]);
    }
}
