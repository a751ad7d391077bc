//! Runs: the words and the CJK stretches of a normalised text.
//!
//! A *CJK run* is a maximal sequence of characters of the CJK ranges; white space between two of
//! them that are kana or Han does not end it, because lines of Chinese and Japanese break anywhere.
//! A *word run* is a maximal sequence of other letters, numbers and combining marks (general
//! categories L, N, M) with at least one letter or number. Everything else separates. Runs of
//! different kinds may be adjacent. The text comes in pieces, and only what may yet belong to a run
//! is held: marks, and white space. Tested against a naive splitter in `tests/naive.rs`.

use crate::features::letters::{Kind, Letter};
use crate::features::stream::CharacterSink;
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

/// Receives the runs of a text, in order, and what stands between them.
pub(crate) trait RunSink {
    /// The next part of a word run, which is one token.
    fn word(&mut self, part: &str);
    fn end_word(&mut self);
    /// The next character of a CJK run, each of which is a token.
    fn cjk(&mut self, character: char);
    fn end_cjk(&mut self) {}
    /// A separator, white space outside CJK runs, or a space in the place of a stray mark.
    fn between(&mut self, _character: char) {}
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

/// Whether a character of a normalised text is a decimal digit of any script.
pub(crate) fn is_digit(character: char) -> bool {
    let category = CodePointMapData::<GeneralCategory>::new();
    let is_decimal = |c| category.get(c) == GeneralCategory::DecimalNumber;
    character.is_ascii_digit() || !character.is_ascii() && is_decimal(character)
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

/// Finds the runs of a normalised text that comes in pieces, cut anywhere, or letter by letter. Of
/// letters it passes on any separator for another, and any white space.
#[derive(Debug)]
pub(crate) struct Runs<S> {
    pub(crate) sink: S,
    state: State,
    /// Marks that may begin a word, or white space that may stand within a CJK run.
    held: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Between,
    Word,
    /// Within marks that are part of a word if a letter or number follows.
    Marks,
    /// Within a CJK run; whether it goes on after white space if kana or Han follows.
    Cjk {
        joins: bool,
    },
    /// After white space that may stand within a CJK run.
    Spaced,
}

impl<S: RunSink> Runs<S> {
    pub(crate) const fn new(sink: S) -> Self {
        Self { sink, state: State::Between, held: String::new() }
    }

    /// Takes the next piece of the text.
    pub(crate) fn push(&mut self, piece: &str) {
        let mut rest = piece;
        while let Some(first) = rest.chars().next() {
            let alphanumeric = rest.bytes().take_while(u8::is_ascii_alphanumeric).count();
            let (part, after) = rest.split_at(alphanumeric.max(first.len_utf8()));
            match classify(first) {
                Class::Letter => self.letters(part),
                Class::Mark => self.mark(first),
                Class::Cjk => self.cjk(first),
                Class::Space => self.space(first),
                Class::Separator => self.separator(first),
            }
            rest = after;
        }
    }

    /// Ends the text, and returns what received it.
    pub(crate) fn finish(mut self) -> S {
        self.end_run();
        self.sink
    }

    fn separator(&mut self, separator: char) {
        self.end_run();
        self.sink.between(separator);
    }

    fn letters(&mut self, part: &str) {
        if self.state == State::Marks {
            self.sink.word(&self.held);
            self.held.clear();
        } else if self.state != State::Word {
            self.end_run();
        }
        self.state = State::Word;
        self.sink.word(part);
    }

    fn mark(&mut self, mark: char) {
        if self.state == State::Word {
            self.sink.word(mark.encode_utf8(&mut [0; 4]));
            return;
        }
        if self.state != State::Marks {
            self.end_run();
            self.state = State::Marks;
        }
        self.held.push(mark);
    }

    fn cjk(&mut self, character: char) {
        let joins = joins_across_space(character);
        match self.state {
            State::Cjk { .. } => {}
            State::Spaced if joins => self.held.clear(),
            State::Between | State::Word | State::Marks | State::Spaced => self.end_run(),
        }
        self.state = State::Cjk { joins };
        self.sink.cjk(character);
    }

    fn space(&mut self, space: char) {
        if matches!(self.state, State::Spaced | State::Cjk { joins: true }) {
            self.state = State::Spaced;
            self.held.push(space);
        } else {
            self.end_run();
            self.sink.between(space);
        }
    }

    fn end_run(&mut self) {
        match std::mem::replace(&mut self.state, State::Between) {
            State::Between => {}
            State::Word => self.sink.end_word(),
            // Marks alone are not a word; they separate words as spaces do.
            State::Marks => self.held.drain(..).for_each(|_| self.sink.between(' ')),
            State::Cjk { .. } => self.sink.end_cjk(),
            State::Spaced => {
                self.sink.end_cjk();
                self.held.drain(..).for_each(|space| self.sink.between(space));
            }
        }
    }
}

impl<S: RunSink> CharacterSink for Runs<S> {
    fn ascii(&mut self, ascii: &[u8]) {
        let mut rest = ascii;
        while let Some(&first) = rest.first() {
            let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
            let (part, after) = rest.split_at(length.max(1));
            if length > 0 {
                for part in part.chunks(64) {
                    let mut lower = [0; 64];
                    let lower = &mut lower[..part.len()];
                    lower.copy_from_slice(part);
                    lower.make_ascii_lowercase();
                    self.letters(std::str::from_utf8(lower).unwrap_or_default());
                }
            } else if char::from(first).is_whitespace() {
                self.space(' ');
            } else {
                self.separator('.');
            }
            rest = after;
        }
    }

    fn han(&mut self, _rest: &[u8]) -> usize {
        0
    }

    fn letter(&mut self, letter: Letter) {
        let Some(character) = letter.character() else { return };
        match letter.kind {
            Kind::Word | Kind::Digit => self.letters(character.encode_utf8(&mut [0; 4])),
            Kind::Mark => self.mark(character),
            Kind::Hangul | Kind::Han | Kind::Kana => self.cjk(character),
            Kind::Space => self.space(' '),
            Kind::Separator => self.separator('.'),
            Kind::Entangled | Kind::Several | Kind::Invisible => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq)]
    enum TextRun {
        Word(String),
        Cjk(String),
    }

    /// The runs, and the text with nothing in CJK runs and with spaces for stray marks.
    #[derive(Default)]
    struct Collected {
        runs: Vec<TextRun>,
        tidied: String,
        run: String,
    }

    impl RunSink for Collected {
        fn word(&mut self, part: &str) {
            self.run.push_str(part);
            self.tidied.push_str(part);
        }
        fn end_word(&mut self) {
            self.runs.push(TextRun::Word(std::mem::take(&mut self.run)));
        }
        fn cjk(&mut self, character: char) {
            self.run.push(character);
            self.tidied.push(character);
        }
        fn end_cjk(&mut self) {
            self.runs.push(TextRun::Cjk(std::mem::take(&mut self.run)));
        }
        fn between(&mut self, character: char) {
            self.tidied.push(character);
        }
    }

    /// In one piece and in pieces of one character.
    fn collected(text: &str) -> Collected {
        let (mut whole, mut pieces) =
            (Runs::new(Collected::default()), Runs::new(Collected::default()));
        whole.push(text);
        text.chars().for_each(|c| pieces.push(c.encode_utf8(&mut [0; 4])));
        let (whole, pieces) = (whole.finish(), pieces.finish());
        assert_eq!((&whole.runs, &whole.tidied), (&pieces.runs, &pieces.tidied));
        whole
    }

    fn runs(text: &str) -> Vec<TextRun> {
        collected(text).runs
    }

    fn word(word: &str) -> TextRun {
        TextRun::Word(word.to_owned())
    }

    fn cjk(cjk: &str) -> TextRun {
        TextRun::Cjk(cjk.to_owned())
    }

    #[test]
    fn words_and_cjk_runs_may_be_adjacent_without_a_separator() {
        let expected = [word("v2"), cjk("\u{7248}\u{672c}"), word("x"), word("y")];
        assert_eq!(runs(" v2\u{7248}\u{672c}x, y"), expected);
    }

    #[test]
    fn combining_marks_stay_in_their_word() {
        // Thai with a tone mark, Devanagari with a vowel sign and a virama.
        for text in ["\u{e19}\u{e49}\u{e33}", "\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}"] {
            assert_eq!(runs(text), [word(text)]);
        }
    }

    #[test]
    fn marks_without_a_letter_or_number_are_no_word() {
        let found = runs("\u{301} \u{301}\u{64b} a\u{301} \u{301}1 .\u{301}");
        assert_eq!(found, [word("a\u{301}"), word("\u{301}1")]);
        // They separate, as other symbols do.
        let found = runs("\u{8336}\u{301}\u{8336}\u{301}a");
        assert_eq!(found, [cjk("\u{8336}"), cjk("\u{8336}"), word("\u{301}a")]);
    }

    #[test]
    fn white_space_ends_no_run_between_kana_and_han_but_one_next_to_hangul() {
        for run in ["\u{8336}\n \u{3068}", "\u{30a2}\u{85}\u{2028}\u{20000}", "\u{8336} \u{8336}"] {
            let joined = run.replace(char::is_whitespace, "");
            assert_eq!(runs(run), [cjk(&joined)]);
            assert_eq!(runs(&format!("\n{run} ")), [cjk(&joined)]);
        }
        for (one, other) in
            [("\u{d55c}", "\u{ae00}"), ("\u{8336}", "\u{d55c}"), ("\u{d55c}", "\u{3068}")]
        {
            let (apart, joined) = (format!("{one} {other}"), format!("{one}{other}"));
            assert_eq!(runs(&apart), [cjk(one), cjk(other)]);
            assert_eq!(runs(&joined), [cjk(&joined)]);
        }
    }

    #[test]
    fn what_stands_between_runs_stays_but_stray_marks_become_spaces() {
        let text = "\u{301} tea, \u{8336}\n\u{8336}. \u{d55c} \u{ae00}\u{301}! \u{8336}\n\u{301}";
        let expected = "  tea, \u{8336}\u{8336}. \u{d55c} \u{ae00} ! \u{8336}\n ";
        assert_eq!(collected(text).tidied, expected);
        assert_eq!(collected(expected).tidied, expected);
        assert_eq!(collected("tea,\n tea").tidied, "tea,\n tea");
    }

    #[test]
    fn numbers_of_every_kind_are_words_and_symbols_separate() {
        // Roman numeral, superscript, Arabic-Indic digit; euro, emoji, joiner, underscore.
        assert_eq!(runs("\u{2167}\u{b2}\u{663}"), [word("\u{2167}\u{b2}\u{663}")]);
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
