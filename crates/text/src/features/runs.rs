//! Runs: the words and the CJK stretches of a normalised text.
//!
//! A *CJK run* is a maximal sequence of characters of the CJK ranges; white space between two of
//! them that are kana or Han does not end it, because lines of Chinese and Japanese break anywhere.
//! A *word run* is a maximal sequence of other letters, numbers and combining marks (general
//! categories L, N, M) with at least one letter or number. Everything else separates. Runs of
//! different kinds may be adjacent. One pass, no allocation, about 2 ns a character. Tested against
//! a naive splitter in `tests/naive.rs`.

use std::borrow::Cow;

use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};

/// The class of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A letter or number outside the CJK ranges.
    Letter,
    /// A combining mark outside the CJK ranges; part of a word that has a letter or number.
    Mark,
    /// In one of the CJK ranges, whatever its category.
    Cjk,
    /// White space: separates runs, except within CJK runs.
    Space,
    /// Anything else; separates runs.
    Separator,
}

/// A maximal run, as a slice of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextRun<'a> {
    /// Letters, numbers and marks; one token.
    Word(&'a str),
    /// Characters of the CJK ranges, each of them a token, and white space between them.
    Cjk(&'a str),
}

/// Whether a character lies in the CJK ranges: Han with its compatibility forms and the
/// supplementary planes, kana, Hangul syllables. Fixed ranges, so that a newer Unicode version
/// moves no character.
pub(crate) const fn is_cjk(character: char) -> bool {
    matches!(character,
        '\u{3040}'..='\u{30FF}'
        | '\u{31F0}'..='\u{31FF}'
        | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}'
        | '\u{AC00}'..='\u{D7AF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{2FA1F}'
        | '\u{30000}'..='\u{323AF}')
}

/// Whether a character is hiragana or katakana of the main blocks: so common that one alone carries
/// little information.
pub(crate) const fn is_kana(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30FF}')
}

/// Whether white space may stand between this CJK character and another such one within a run. Not
/// Hangul: Korean separates its words by spaces.
pub(crate) const fn joins_across_space(cjk: char) -> bool {
    !matches!(cjk, '\u{AC00}'..='\u{D7AF}')
}

/// The class of a character of a normalised text.
#[inline]
pub(crate) fn classify(character: char) -> Class {
    const LETTER: GeneralCategoryGroup =
        GeneralCategoryGroup::Letter.union(GeneralCategoryGroup::Number);
    if character.is_ascii() {
        return match character {
            _ if character.is_ascii_alphanumeric() => Class::Letter,
            _ if character.is_whitespace() => Class::Space,
            _ => Class::Separator,
        };
    }
    if is_cjk(character) {
        return Class::Cjk;
    }
    let category = CodePointMapData::<GeneralCategory>::new().get(character);
    if LETTER.contains(category) {
        Class::Letter
    } else if GeneralCategoryGroup::Mark.contains(category) {
        Class::Mark
    } else if character.is_whitespace() {
        Class::Space
    } else {
        Class::Separator
    }
}

/// The runs of a normalised text, in order.
#[derive(Debug, Clone)]
pub(crate) struct Runs<'a> {
    rest: &'a str,
}

impl<'a> Runs<'a> {
    pub(crate) const fn of(normalised: &'a str) -> Self {
        Self { rest: normalised }
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = TextRun<'a>;

    fn next(&mut self) -> Option<TextRun<'a>> {
        loop {
            let starts = |c| !matches!(classify(c), Class::Space | Class::Separator);
            let rest = &self.rest[self.rest.find(starts)?..];
            if rest.chars().next().is_some_and(is_cjk) {
                let (run, rest) = rest.split_at(cjk_run(rest));
                self.rest = rest;
                return Some(TextRun::Cjk(run));
            }
            let ends = |c| !matches!(classify(c), Class::Letter | Class::Mark);
            let (run, rest) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
            self.rest = rest;
            if run.contains(|c| classify(c) == Class::Letter) {
                return Some(TextRun::Word(run));
            }
        }
    }
}

/// The number of bytes of the CJK run at the beginning.
fn cjk_run(text: &str) -> usize {
    let (mut end, mut joins, mut spaced) = (0, false, false);
    for (at, character) in text.char_indices() {
        if is_cjk(character) {
            let joins_too = joins_across_space(character);
            if spaced && !(joins && joins_too) {
                break;
            }
            (end, joins, spaced) = (at + character.len_utf8(), joins_too, false);
        } else if character.is_whitespace() {
            spaced = true;
        } else {
            break;
        }
    }
    end
}

/// The characters of a CJK run, without the white space between them, as slices.
pub(crate) fn characters_of(cjk: &str) -> impl Iterator<Item = &str> {
    let characters = cjk.char_indices().filter(|(_, character)| !character.is_whitespace());
    characters.map(|(at, character)| &cjk[at..at + character.len_utf8()])
}

/// The runs of a normalised text in one string, separated by spaces: no word of marks alone, and no
/// white space within a CJK run. For a segmenter with rules of its own, which needs the other
/// separators as they are; they stay.
pub(crate) fn tidied(normalised: &str) -> Cow<'_, str> {
    if normalised.is_ascii() {
        return Cow::Borrowed(normalised);
    }
    let mut tidied = String::with_capacity(normalised.len());
    let mut end = 0;
    for run in Runs::of(normalised) {
        let (TextRun::Word(slice) | TextRun::Cjk(slice)) = run;
        let start = slice.as_ptr().addr() - normalised.as_ptr().addr();
        tidied.extend(normalised[end..start].chars().map(mark_to_space));
        match run {
            TextRun::Word(word) => tidied.push_str(word),
            TextRun::Cjk(cjk) => tidied.extend(characters_of(cjk)),
        }
        end = start + slice.len();
    }
    tidied.extend(normalised[end..].chars().map(mark_to_space));
    Cow::Owned(tidied)
}

/// Between runs, marks do not belong to a word.
fn mark_to_space(character: char) -> char {
    if classify(character) == Class::Mark { ' ' } else { character }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_cjk_runs_may_be_adjacent_without_a_separator() {
        let runs: Vec<_> = Runs::of(" v2\u{7248}\u{672c}x, y").collect();
        let expected = [
            TextRun::Word("v2"),
            TextRun::Cjk("\u{7248}\u{672c}"),
            TextRun::Word("x"),
            TextRun::Word("y"),
        ];
        assert_eq!(runs, expected);
    }

    #[test]
    fn combining_marks_stay_in_their_word() {
        // Thai with a tone mark, Devanagari with a vowel sign and a virama.
        for word in ["\u{e19}\u{e49}\u{e33}", "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}"] {
            assert_eq!(Runs::of(word).collect::<Vec<_>>(), [TextRun::Word(word)]);
        }
    }

    #[test]
    fn marks_without_a_letter_or_number_are_no_word() {
        let runs: Vec<_> = Runs::of("\u{301} \u{301}\u{64b} a\u{301} \u{301}1 .\u{301}").collect();
        assert_eq!(runs, [TextRun::Word("a\u{301}"), TextRun::Word("\u{301}1")]);
        // They separate, as other symbols do.
        let runs: Vec<_> = Runs::of("\u{8336}\u{301}\u{8336}").collect();
        assert_eq!(runs, [TextRun::Cjk("\u{8336}"), TextRun::Cjk("\u{8336}")]);
    }

    #[test]
    fn white_space_ends_no_run_between_kana_and_han_but_one_next_to_hangul() {
        for run in ["\u{8336}\n \u{3068}", "\u{30a2}\u{85}\u{2028}\u{20000}", "\u{8336} \u{8336}"] {
            assert_eq!(Runs::of(run).collect::<Vec<_>>(), [TextRun::Cjk(run)]);
            let text = format!("\n{run} ");
            assert_eq!(Runs::of(&text).collect::<Vec<_>>(), [TextRun::Cjk(run)]);
            assert_eq!(characters_of(run).count(), 2);
        }
        for (one, other) in
            [("\u{d55c}", "\u{ae00}"), ("\u{8336}", "\u{d55c}"), ("\u{d55c}", "\u{3068}")]
        {
            let (apart, joined) = (format!("{one} {other}"), format!("{one}{other}"));
            assert_eq!(
                Runs::of(&apart).collect::<Vec<_>>(),
                [TextRun::Cjk(one), TextRun::Cjk(other)]
            );
            assert_eq!(Runs::of(&joined).collect::<Vec<_>>(), [TextRun::Cjk(&joined)]);
        }
    }

    #[test]
    fn a_tidied_text_has_the_same_runs_and_separators() {
        let text = "\u{301} tea, \u{8336}\n\u{8336}. \u{d55c} \u{ae00}\u{301}!";
        let expected = "  tea, \u{8336}\u{8336}. \u{d55c} \u{ae00} !";
        assert_eq!(tidied(text), expected);
        assert_eq!(tidied(expected), expected);
        assert_eq!(tidied("tea,\n tea"), "tea,\n tea");
    }

    #[test]
    fn numbers_of_every_kind_are_words_and_symbols_separate() {
        // Roman numeral, superscript, Arabic-Indic digit; euro, emoji, joiner, underscore.
        assert_eq!(
            Runs::of("\u{2167}\u{b2}\u{663}").collect::<Vec<_>>(),
            [TextRun::Word("\u{2167}\u{b2}\u{663}")]
        );
        for separator in ['\u{20ac}', '\u{1f600}', '\u{200d}', '_', '\u{ad}'] {
            assert_eq!(classify(separator), Class::Separator, "{separator:?}");
        }
    }

    #[test]
    fn the_ends_of_every_cjk_range_belong_to_it() {
        let ranges = [
            (0x3040, 0x30FF),
            (0x31F0, 0x31FF),
            (0x3400, 0x4DBF),
            (0x4E00, 0x9FFF),
            (0xAC00, 0xD7AF),
            (0xF900, 0xFAFF),
            (0x20000, 0x2FA1F),
            (0x30000, 0x323AF),
        ];
        let cjk = |code| char::from_u32(code).is_some_and(is_cjk);
        for (first, last) in ranges {
            assert!(cjk(first) && cjk(last), "{first:x} and {last:x}");
            assert!(!cjk(first - 1) && !cjk(last + 1), "next to {first:x}, {last:x}");
        }
    }
}
