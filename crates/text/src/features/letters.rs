//! What each character becomes in a normalised text: one table for the Basic Multilingual Plane.
//!
//! Most characters become one or several characters or a separator, whatever their neighbours; the
//! table has the result, so that a character that stands for a phrase costs no more than the
//! phrase. The others (combining marks, Hangul letters, most of what is beyond the plane) are
//! *entangled*: [`normalise`] decides what becomes of them, on a stretch that begins with the
//! character before them. Marks that compose with nothing (most of Arabic, Hebrew, Indic and Thai)
//! stay what they are as long as they are in order ([`Letters::marks_that_stay`]). Beyond the
//! plane, Han and emoji are known without a table. It is built from the Unicode tables on first
//! use, in a few milliseconds, and has 512 KiB, of which a text in one script touches little.
//! Tested against those tables for every character.

use std::sync::LazyLock;

use icu_normalizer::ComposingNormalizer;
use icu_normalizer::properties::{
    CanonicalCombiningClassMapBorrowed, CanonicalDecompositionBorrowed, Decomposed,
};

use crate::features::normalise::normalise;
use crate::features::runs::{Class, classify, is_digit, is_kana, joins_across_space};

/// The kind of a normalised character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// May combine with the character before it, or is not in the table.
    Entangled,
    /// Becomes several characters, or one beyond the plane: [`Letters::several`].
    Several,
    Invisible,
    /// White space, which separates words and most CJK runs.
    Space,
    /// Separates words and CJK runs.
    Separator,
    /// A letter or number of a word, other than a digit.
    Word,
    /// A decimal digit of any script, which is part of a word.
    Digit,
    /// A mark, which belongs to a word that has a letter or number.
    Mark,
    Hangul,
    /// A character of the CJK ranges other than kana and Hangul.
    Han,
    /// Hiragana or katakana of the main blocks.
    Kana,
}

/// A normalised character: its kind and its spelling, in one word. Of [`Kind::Several`], where they
/// are in the table, and their number. Of an entangled mark that composes with nothing, its
/// spelling and its combining class; of other entangled characters nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Letter {
    /// Its UTF-8 bytes, the first one lowest; unused bytes are 0.
    pub(crate) bytes: u32,
    /// The number of UTF-8 bytes, 1 to 4.
    pub(crate) length: u8,
    pub(crate) kind: Kind,
}

impl Letter {
    const ENTANGLED: Self = Self { bytes: 0, length: 0, kind: Kind::Entangled };
    const INVISIBLE: Self = Self { bytes: 0, length: 0, kind: Kind::Invisible };
    /// Any separator other than white space.
    const SEPARATOR: Self = Self { bytes: b'.' as u32, length: 1, kind: Kind::Separator };

    /// From a character that is already normalised.
    pub(crate) fn of(character: char) -> Self {
        let mut utf_8 = [0; 4];
        let length = character.encode_utf8(&mut utf_8).len() as u8;
        let kind = match classify(character) {
            Class::Separator => Kind::Separator,
            Class::Space => Kind::Space,
            Class::Letter if is_digit(character) => Kind::Digit,
            Class::Letter => Kind::Word,
            Class::Mark => Kind::Mark,
            Class::Cjk if is_kana(character) => Kind::Kana,
            Class::Cjk if joins_across_space(character) => Kind::Han,
            Class::Cjk => Kind::Hangul,
        };
        Self { bytes: u32::from_le_bytes(utf_8), length, kind }
    }

    /// What it spells, if it spells a character. Decoded here, because the check of any bytes takes
    /// several times as long.
    #[inline]
    pub(crate) fn character(self) -> Option<char> {
        let [a, b, c, d] = self.bytes.to_le_bytes().map(u32::from);
        let low = |byte: u32| byte & 0x3f;
        char::from_u32(match self.length {
            1 => a,
            2 => (a & 0x1f) << 6 | low(b),
            3 => (a & 0x0f) << 12 | low(b) << 6 | low(c),
            4 => (a & 0x07) << 18 | low(b) << 12 | low(c) << 6 | low(d),
            _ => return None,
        })
    }
}

/// What the characters of the Basic Multilingual Plane become.
pub(crate) struct Letters {
    plane: Box<[Letter]>,
    /// What characters of [`Kind::Several`] become, one after the other.
    several: Vec<Letter>,
}

impl Letters {
    /// The table, built on first use.
    pub(crate) fn table() -> &'static Self {
        static TABLE: LazyLock<Letters> = LazyLock::new(Letters::new);
        &TABLE
    }

    fn new() -> Self {
        let (mut spelling, mut several) = (String::new(), Vec::new());
        let letter = |code| match char::from_u32(code) {
            None => Letter::ENTANGLED,
            // Han and Hangul syllables do not change, and looking up 38,000 of them is slow.
            Some(c @ ('\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')) => Letter::of(c),
            Some(c) => {
                spelling.clear();
                spelling.push(c);
                alone(&spelling, &mut several)
            }
        };
        let mut plane: Box<[Letter]> = (0..0x1_0000).map(letter).collect();
        let decompositions = CanonicalDecompositionBorrowed::new();
        for composite in '\u{80}'..='\u{abff}' {
            if let Decomposed::Expansion(_, second) = decompositions.decompose(composite)
                && let Some(second) = plane.get_mut(second as usize)
                && second.kind == Kind::Entangled
            {
                *second = Letter::ENTANGLED;
            }
        }
        Self { plane, several }
    }

    /// The length of the marks at the beginning of some UTF-8 that are left as they are by what
    /// comes before them, because they compose with nothing and are in order. `None` if anything
    /// else combines there.
    #[inline]
    pub(crate) fn marks_that_stay(&self, utf_8: &[u8]) -> Option<usize> {
        let (mut length, mut class) = (0, 1);
        while utf_8.get(length).is_some_and(|byte| !byte.is_ascii()) {
            let (letter, bytes) = self.first_of(&utf_8[length..]);
            if letter.kind != Kind::Entangled {
                break;
            }
            if letter.length < class {
                return None;
            }
            (length, class) = (length + bytes, letter.length);
        }
        Some(length)
    }

    /// What the first character of some UTF-8 becomes, and its length in the source.
    #[inline]
    pub(crate) fn first_of(&self, utf_8: &[u8]) -> (Letter, usize) {
        let low = |byte: u8| u32::from(byte & 0x3f);
        let (code, length) = match *utf_8 {
            [a, b, ..] if a < 0xe0 => (u32::from(a & 0x1f) << 6 | low(b), 2),
            [a, b, c, ..] if a < 0xf0 => (u32::from(a & 0x0f) << 12 | low(b) << 6 | low(c), 3),
            _ => return (beyond_plane(utf_8), 4),
        };
        (self.plane[code as usize], length)
    }

    /// What a character of [`Kind::Several`] becomes.
    #[inline]
    pub(crate) fn several(&self, letter: Letter) -> &[Letter] {
        &self.several[letter.bytes as usize..][..usize::from(letter.length)]
    }
}

/// What a character of four bytes becomes: Han and emoji stay what they are.
fn beyond_plane(utf_8: &[u8]) -> Letter {
    let Some(&bytes) = utf_8.first_chunk::<4>() else { return Letter::ENTANGLED };
    let [_, b, c, d] = bytes.map(|byte| u32::from(byte & 0x3f));
    match u32::from(bytes[0] & 0x07) << 18 | b << 12 | c << 6 | d {
        0x1_f300..=0x1_faff => Letter::SEPARATOR,
        0x2_0000..=0x2_f7ff | 0x3_0000..=0x3_23af => {
            Letter { bytes: u32::from_le_bytes(bytes), length: 4, kind: Kind::Han }
        }
        _ => Letter::ENTANGLED,
    }
}

/// What a character becomes, if that does not depend on its neighbours. Adds to `several` what is
/// more than a letter of the plane.
fn alone(spelling: &str, several: &mut Vec<Letter>) -> Letter {
    let class = CanonicalCombiningClassMapBorrowed::new();
    let joins = |c: char| class.get_u8(c) != 0 || is_second(c);
    // Checked before and after folding, because folding turns one mark (U+0345) into a letter.
    let composed = ComposingNormalizer::new_nfkc().normalize(spelling);
    let normal = normalise(spelling);
    if composed.chars().chain(normal.chars()).any(joins) {
        return match normal.chars().next().map(Letter::of) {
            Some(letter) if letter.kind == Kind::Mark && [spelling, &composed] == [&normal; 2] => {
                let length = spelling.chars().next().map_or(0, |mark| class.get_u8(mark));
                Letter { length, kind: Kind::Entangled, ..letter }
            }
            Some(_) | None => Letter::ENTANGLED,
        };
    }
    let mut letters = normal.chars().map(Letter::of);
    match (letters.next(), letters.next()) {
        (None, _) => Letter::INVISIBLE,
        (Some(letter), None) if letter.length < 4 => letter,
        _ if separates(&normal) => Letter::SEPARATOR,
        _ => {
            let first = several.len();
            several.extend(normal.chars().map(Letter::of));
            let length = (several.len() - first) as u8;
            Letter { bytes: first as u32, length, kind: Kind::Several }
        }
    }
}

/// Whether a character combines with a letter right before it, although it is not a combining mark
/// in the order of marks: Hangul letters, and the second parts of vowel signs.
const fn is_second(character: char) -> bool {
    matches!(character,
        '\u{1100}'..='\u{11ff}'
        | '\u{a960}'..='\u{a97f}'
        | '\u{d7b0}'..='\u{d7ff}'
        | '\u{9be}'
        | '\u{9d7}'
        | '\u{b3e}'
        | '\u{b56}'
        | '\u{b57}'
        | '\u{bbe}'
        | '\u{bd7}'
        | '\u{cc2}'
        | '\u{cd5}'
        | '\u{cd6}'
        | '\u{d3e}'
        | '\u{d57}'
        | '\u{dcf}'
        | '\u{ddf}'
        | '\u{102e}'
        | '\u{1b35}')
}

/// Whether a text has no part of a run, and is not only white space.
fn separates(normal: &str) -> bool {
    let no_run = |c| matches!(classify(c), Class::Space | Class::Separator);
    normal.chars().all(no_run) && normal.contains(|c| classify(c) == Class::Separator)
}

#[cfg(test)]
mod tests {
    use icu_normalizer::DecomposingNormalizer;
    use icu_normalizer::properties::CanonicalCompositionBorrowed;

    use super::*;

    fn letter(character: char) -> Letter {
        Letters::table().first_of(character.to_string().as_bytes()).0
    }

    #[test]
    fn the_table_agrees_with_normalisation_for_each_character() {
        for character in ('\u{80}'..='\u{ffff}').filter(|&c| letter(c).kind != Kind::Entangled) {
            let spelling = character.to_string();
            let normal = normalise(&spelling);
            let letter = letter(character);
            if letter.kind == Kind::Several {
                let expected: Vec<Letter> = normal.chars().map(Letter::of).collect();
                assert_eq!(Letters::table().several(letter), expected, "{character:?}");
            } else if letter.kind == Kind::Separator {
                assert!(separates(&normal), "{character:?}");
            } else if letter.kind == Kind::Invisible {
                assert_eq!(normal, "", "{character:?}");
            } else {
                let bytes = &letter.bytes.to_le_bytes()[..usize::from(letter.length)];
                assert_eq!(bytes, normal.as_bytes(), "{character:?}");
                assert_eq!(Letter::of(normal.chars().next().unwrap()), letter);
            }
        }
    }

    #[test]
    fn a_letter_spells_its_character() {
        for character in '\0'..=char::MAX {
            assert_eq!(Letter::of(character).character(), Some(character));
        }
        assert_eq!(Letter::INVISIBLE.character(), None);
    }

    #[test]
    fn han_and_emoji_beyond_the_plane_stay_what_they_are() {
        for character in ('\u{10000}'..=char::MAX).filter(|&c| letter(c).kind != Kind::Entangled) {
            assert_eq!(normalise(&character.to_string()), character.to_string());
            if letter(character).kind == Kind::Separator {
                assert_eq!(classify(character), Class::Separator, "{character:?}");
            } else {
                assert_eq!(letter(character), Letter::of(character));
            }
        }
    }

    /// [`crate::features::stream`] relies on this.
    #[test]
    fn only_entangled_characters_combine_with_the_one_before() {
        let decompositions = CanonicalDecompositionBorrowed::new();
        let compositions = CanonicalCompositionBorrowed::new();
        let classes = CanonicalCombiningClassMapBorrowed::new();
        let decomposing = DecomposingNormalizer::new_nfkd();
        for character in ('\u{80}'..=char::MAX).filter(|&c| letter(c).kind != Kind::Entangled) {
            let decomposed = decomposing.normalize(character.encode_utf8(&mut [0; 4])).into_owned();
            let first = decomposed.chars().next().unwrap();
            // Leading consonants are Hangul letters too, and combine with nothing before them.
            let begins = first.is_ascii()
                || matches!(first, '\u{1100}'..='\u{1112}')
                || letter(first).kind != Kind::Entangled;
            assert!(begins && classes.get_u8(first) == 0, "{first:?} of {character:?}");
        }
        for character in '\0'..=char::MAX {
            let bmp = (0x80..0x1_0000).contains(&u32::from(character));
            if bmp && classes.get_u8(character) != 0 {
                assert_eq!(letter(character).kind, Kind::Entangled, "{character:?}");
            }
            if let Decomposed::Expansion(first, second) = decompositions.decompose(character)
                && compositions.compose(first, second) == Some(character)
            {
                let entangled = !second.is_ascii() && letter(second).kind == Kind::Entangled;
                assert!(entangled, "{second:?} of {character:?}");
            }
        }
    }

    /// [`crate::features::stream`] relies on this, too.
    #[test]
    fn marks_that_stay_compose_with_nothing() {
        let decompositions = CanonicalDecompositionBorrowed::new();
        let compositions = CanonicalCompositionBorrowed::new();
        let stays = |mark: char| Letters::table().marks_that_stay(mark.to_string().as_bytes());
        for composite in '\0'..=char::MAX {
            if let Decomposed::Expansion(first, second) = decompositions.decompose(composite)
                && compositions.compose(first, second) == Some(composite)
            {
                let is_mark = !second.is_ascii() && letter(second).kind == Kind::Entangled;
                assert!(!is_mark || stays(second).is_none(), "{second:?} of {composite:?}");
            }
        }
        for mark in ['\u{64b}', '\u{5b4}', '\u{94d}', '\u{e48}'] {
            assert_eq!(stays(mark), Some(mark.len_utf8()), "{mark:?}");
        }
        // Out of order; followed by one that composes.
        for marks in ["\u{651}\u{64b}", "\u{64b}\u{301}", "\u{301}"] {
            assert_eq!(Letters::table().marks_that_stay(marks.as_bytes()), None, "{marks:?}");
        }
    }

    #[test]
    fn common_characters_are_not_entangled() {
        for (character, kind) in [
            ('\u{e9}', Kind::Word),
            ('\u{416}', Kind::Word),
            ('\u{ff21}', Kind::Word),
            ('\u{ff11}', Kind::Digit),
            ('\u{b2}', Kind::Digit),
            ('\u{967}', Kind::Digit),
            ('\u{ff0c}', Kind::Separator),
            ('\u{a0}', Kind::Space),
            ('\u{3000}', Kind::Space),
            ('\u{2028}', Kind::Space),
            ('\u{ad}', Kind::Invisible),
            ('\u{200b}', Kind::Invisible),
            ('\u{feff}', Kind::Invisible),
            ('\u{2026}', Kind::Separator),
            ('\u{8336}', Kind::Han),
            ('\u{d55c}', Kind::Hangul),
            ('\u{306e}', Kind::Kana),
            ('\u{301}', Kind::Entangled),
            ('\u{df}', Kind::Several),
            ('\u{fdfa}', Kind::Several),
            ('\u{1f600}', Kind::Separator),
            ('\u{1d400}', Kind::Entangled),
        ] {
            assert_eq!(letter(character).kind, kind, "{character:?}");
        }
    }
}
