//! The features of a normalised text, by the recipes `np2` and `np2-5`.
//!
//! Consecutive word runs with no CJK run between them are joined by one space into a *segment*;
//! each window of four code points of it is a feature (a shorter segment is one feature). In a CJK
//! run of two or more characters, each character that is not kana is a feature, and so is each pair
//! of neighbours; a CJK run of one character is one feature.
//!
//! One pass; features are slices, and the only allocation is the buffer of the current segment.
//! Tested against a naive collector in `tests/naive.rs`.

use std::iter;

use crate::features::runs::{Runs, TextRun, characters_of, is_cjk, is_kana};

/// Passes each occurrence of a feature in a normalised text to `take`, in text order, with windows
/// of `WINDOW` code points.
pub(crate) fn walk<const WINDOW: usize>(normalised: &str, take: &mut dyn FnMut(&[u8])) {
    let mut segment = String::with_capacity(normalised.len());
    for run in Runs::of(normalised) {
        match run {
            TextRun::Word(word) => {
                if !segment.is_empty() {
                    segment.push(' ');
                }
                segment.push_str(word);
            }
            TextRun::Cjk(characters) => {
                windows::<WINDOW>(&segment, take);
                segment.clear();
                cjk(characters, take);
            }
        }
    }
    windows::<WINDOW>(&segment, take);
}

/// All windows of a segment; the whole segment if it is shorter than one window.
fn windows<const WINDOW: usize>(segment: &str, take: &mut dyn FnMut(&[u8])) {
    let bytes = segment.as_bytes();
    if segment.is_ascii() && bytes.len() > WINDOW {
        bytes.windows(WINDOW).for_each(take);
        return;
    }
    // The start and the end of each window. A segment shorter than a window has one end, its own,
    // and so one window; an empty segment has no start.
    let starts = segment.char_indices().map(|(at, _)| at);
    let ends = starts.clone().skip(WINDOW).chain(iter::once(bytes.len()));
    for (start, end) in starts.zip(ends) {
        take(&bytes[start..end]);
    }
}

/// The characters and pairs of a CJK run.
fn cjk(run: &str, take: &mut dyn FnMut(&[u8])) {
    let mut before = None;
    let is_single = characters_of(run).nth(1).is_none();
    for character in characters_of(run) {
        if is_single || !character.starts_with(is_kana) {
            take(character.as_bytes());
        }
        if let Some(before) = before.replace(character) {
            // White space may stand between them.
            take([before, character].concat().as_bytes());
        }
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

    fn features(normalised: &str) -> Vec<String> {
        let mut features = Vec::new();
        walk::<WINDOW>(normalised, &mut |feature| {
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
