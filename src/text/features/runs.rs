//! Runs: the words and the CJK stretches of a normalised text.
//!
//! A *CJK run* is a maximal sequence of characters of the CJK ranges, a *word run* a maximal
//! sequence of other letters, numbers and combining marks (general categories L, N, M). Everything
//! else separates. Runs of different kinds may be adjacent. One pass, no allocation, about 2 ns a
//! character. Tested against a naive splitter in `tests/naive.rs`.

use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};

/// The class of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Part of a word: a letter, number or combining mark outside the CJK ranges.
    Word,
    /// In one of the CJK ranges, whatever its category.
    Cjk,
    /// Neither; separates runs.
    Separator,
}

/// A maximal run of characters of one class, as a slice of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Run<'a> {
    /// Letters, numbers and marks; one token.
    Word(&'a str),
    /// Characters of the CJK ranges; each is a token.
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

/// The class of a character of a normalised text.
#[inline]
pub(crate) fn classify(character: char) -> Class {
    const WORD: GeneralCategoryGroup = GeneralCategoryGroup::Letter
        .union(GeneralCategoryGroup::Number)
        .union(GeneralCategoryGroup::Mark);
    if character.is_ascii() {
        return if character.is_ascii_alphanumeric() { Class::Word } else { Class::Separator };
    }
    if is_cjk(character) {
        Class::Cjk
    } else if WORD.contains(CodePointMapData::<GeneralCategory>::new().get(character)) {
        Class::Word
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
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        let (_, rest) = self.rest.split_at(stretch(self.rest, Class::Separator));
        let class = rest.chars().next().map(classify)?;
        let (run, rest) = rest.split_at(stretch(rest, class));
        self.rest = rest;
        Some(if class == Class::Cjk { Run::Cjk(run) } else { Run::Word(run) })
    }
}

/// The number of bytes at the beginning of the text that are of this class.
#[inline]
fn stretch(text: &str, class: Class) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte.is_ascii() {
            if classify(char::from(byte)) != class {
                break;
            }
            at += 1;
        } else {
            match text[at..].chars().next() {
                Some(character) if classify(character) == class => at += character.len_utf8(),
                _ => break,
            }
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_cjk_runs_may_be_adjacent_without_a_separator() {
        let runs: Vec<_> = Runs::of(" v2\u{7248}\u{672c}x, y").collect();
        let expected =
            [Run::Word("v2"), Run::Cjk("\u{7248}\u{672c}"), Run::Word("x"), Run::Word("y")];
        assert_eq!(runs, expected);
    }

    #[test]
    fn combining_marks_stay_in_their_word() {
        // Thai with a tone mark, Devanagari with a vowel sign and a virama.
        for word in ["\u{e19}\u{e49}\u{e33}", "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}"] {
            assert_eq!(Runs::of(word).collect::<Vec<_>>(), [Run::Word(word)]);
        }
    }

    #[test]
    fn numbers_of_every_kind_are_words_and_symbols_separate() {
        // Roman numeral, superscript, Arabic-Indic digit; euro, emoji, joiner, underscore.
        assert_eq!(
            Runs::of("\u{2167}\u{b2}\u{663}").collect::<Vec<_>>(),
            [Run::Word("\u{2167}\u{b2}\u{663}")]
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
