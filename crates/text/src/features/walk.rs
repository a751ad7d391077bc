//! The features of a text, by the recipes `np2` and `np2-5`.
//!
//! Consecutive word runs with no CJK run between them are joined by one space into a *segment*;
//! each window of four code points of it is a feature (a shorter segment is one feature). In a CJK
//! run of two or more characters, each character that is not kana is a feature, and so is each pair
//! of neighbours; a CJK run of one character is one feature.
//!
//! One pass over a text in pieces, of which only the current window is stored. Tested against a
//! naive collector in `tests/naive.rs`.

use crate::features::runs::{RunSink, Runs, is_cjk, is_kana};
use crate::features::stream;

/// Passes each occurrence of a feature in a text to `take`, in text order, with windows of `WINDOW`
/// code points.
pub(crate) fn walk<const WINDOW: usize>(text: &str, take: &mut dyn FnMut(&[u8])) {
    let mut runs = Runs::new(Windows::<WINDOW> {
        take,
        window: String::new(),
        length: 0,
        is_in_word: false,
        has_any: false,
        before: None,
        is_single: true,
    });
    stream::read(text, &mut runs);
    runs.finish().end_segment();
}

/// The current window of a segment, and the last character of a CJK run.
struct Windows<'a, const WINDOW: usize> {
    take: &'a mut dyn FnMut(&[u8]),
    window: String,
    /// The code points of the window.
    length: usize,
    is_in_word: bool,
    /// Whether the segment has had a whole window.
    has_any: bool,
    before: Option<char>,
    is_single: bool,
}

impl<const WINDOW: usize> Windows<'_, WINDOW> {
    fn push(&mut self, character: char) {
        if self.length == WINDOW {
            self.window.remove(0);
            self.length -= 1;
        }
        self.window.push(character);
        self.length += 1;
        if self.length == WINDOW {
            (self.take)(self.window.as_bytes());
            self.has_any = true;
        }
    }

    /// Ends the segment; all of it is a feature if it is shorter than a window.
    fn end_segment(&mut self) {
        if self.length > 0 && !self.has_any {
            (self.take)(self.window.as_bytes());
        }
        self.window.clear();
        (self.length, self.has_any) = (0, false);
    }
}

impl<const WINDOW: usize> RunSink for Windows<'_, WINDOW> {
    fn word(&mut self, part: &str) {
        if !self.is_in_word && self.length > 0 {
            self.push(' ');
        }
        self.is_in_word = true;
        part.chars().for_each(|character| self.push(character));
    }

    fn end_word(&mut self) {
        self.is_in_word = false;
    }

    fn cjk(&mut self, character: char) {
        self.end_segment();
        let mut utf_8 = [0; 8];
        let last = character.encode_utf8(&mut utf_8).len();
        if !is_kana(character) {
            (self.take)(&utf_8[..last]);
        }
        if let Some(before) = self.before.replace(character) {
            self.is_single = false;
            let first = before.encode_utf8(&mut utf_8).len();
            let pair = first + character.encode_utf8(&mut utf_8[first..]).len();
            (self.take)(&utf_8[..pair]);
        }
    }

    fn end_cjk(&mut self) {
        let last = self.before.take().filter(|&last| self.is_single && is_kana(last));
        if let Some(kana) = last {
            (self.take)(kana.encode_utf8(&mut [0; 4]).as_bytes());
        }
        self.is_single = true;
    }
}

/// Whether a feature is a single character of a CJK run, other than kana.
pub(crate) fn is_character(feature: &[u8]) -> bool {
    let mut characters = std::str::from_utf8(feature).unwrap_or_default().chars();
    let first = characters.next().filter(|&first| is_cjk(first) && !is_kana(first));
    first.is_some() && characters.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipes::np2::WINDOW;

    fn features(text: &str) -> Vec<String> {
        let mut features = Vec::new();
        walk::<WINDOW>(text, &mut |feature| {
            features.push(String::from_utf8(feature.to_vec()).unwrap());
        });
        features
    }

    #[test]
    fn word_runs_join_by_one_space_whatever_separates_them() {
        assert_eq!(features("ab, \u{2014}\n cd"), ["ab c", "b cd"]);
    }

    #[test]
    fn a_segment_shorter_than_a_window_is_one_feature() {
        for segment in ["a", "ab", "abc", "abcd", "\u{e9}", "\u{e9}\u{e8}\u{ea}"] {
            assert_eq!(features(segment), [segment]);
        }
        assert!(features("?! ...").is_empty());
    }

    #[test]
    fn windows_count_code_points_and_not_bytes() {
        assert_eq!(features("\u{e9}t\u{e9} ax"), ["\u{e9}t\u{e9} ", "t\u{e9} a", "\u{e9} ax"]);
    }

    #[test]
    fn a_cjk_run_ends_the_segment_before_it() {
        assert_eq!(features("tea \u{8336} pot"), ["tea", "\u{8336}", "pot"]);
    }

    #[test]
    fn kana_count_in_pairs_and_alone_only_as_a_whole_run() {
        // Han, hiragana, hiragana.
        let run = "\u{8336}\u{3068}\u{306f}";
        assert_eq!(features(run), ["\u{8336}", "\u{8336}\u{3068}", "\u{3068}\u{306f}"]);
        assert_eq!(features("\u{3068}"), ["\u{3068}"]);
        assert_eq!(features("\u{8336}\n\u{3068} \u{306f}"), features(run));
    }
}
