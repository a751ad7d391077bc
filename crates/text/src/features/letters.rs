//! What each character becomes in a normalised text: one table for the Basic Multilingual Plane.
//!
//! Most characters become one character or a separator, whatever their neighbours; the table has
//! the result. The others (combining marks, Hangul letters, ligatures, characters that fold to
//! several, everything beyond the plane) are *entangled*: [`normalise`] decides what becomes of
//! them, on a stretch that begins with the character before them. The table is built from the
//! Unicode tables on first use, in a few milliseconds. It has 512 KiB, of which a text in one
//! script touches little. Tested against those tables for every character.

use std::sync::LazyLock;

use icu_normalizer::ComposingNormalizer;
use icu_properties::CodePointMapData;
use icu_properties::props::{GeneralCategory, GeneralCategoryGroup};

use crate::features::normalise::normalise;
use crate::features::runs::{Class, classify, is_kana, joins_across_space};

/// The kind of a normalised character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Depends on its neighbours, or becomes several characters.
    Entangled,
    Invisible,
    /// White space, which separates words and most CJK runs.
    Space,
    /// Separates words and CJK runs.
    Separator,
    /// A letter or number of a word.
    Word,
    /// A mark, which belongs to a word that has a letter or number.
    Mark,
    Hangul,
    /// A character of the CJK ranges other than kana and Hangul.
    Han,
    /// Hiragana or katakana of the main blocks.
    Kana,
}

/// A normalised character: its kind and its spelling, in one word.
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
            Class::Letter => Kind::Word,
            Class::Mark => Kind::Mark,
            Class::Cjk if is_kana(character) => Kind::Kana,
            Class::Cjk if joins_across_space(character) => Kind::Han,
            Class::Cjk => Kind::Hangul,
        };
        Self { bytes: u32::from_le_bytes(utf_8), length, kind }
    }
}

/// What the characters of the Basic Multilingual Plane become.
pub(crate) struct Letters(Box<[Letter]>);

impl Letters {
    /// The table, built on first use.
    pub(crate) fn table() -> &'static Self {
        static TABLE: LazyLock<Letters> = LazyLock::new(Letters::new);
        &TABLE
    }

    fn new() -> Self {
        let mut spelling = String::new();
        let letter = |code| match char::from_u32(code) {
            None => Letter::ENTANGLED,
            // Han and Hangul syllables do not change, and looking up 38,000 of them is slow.
            Some(c @ ('\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}')) => Letter::of(c),
            Some(c) => {
                spelling.clear();
                spelling.push(c);
                alone(&spelling)
            }
        };
        Self((0..0x1_0000).map(letter).collect())
    }

    /// What the first character of some UTF-8 becomes, and its length in the source.
    #[inline]
    pub(crate) fn first_of(&self, utf_8: &[u8]) -> (Letter, usize) {
        let low = |byte: u8| u32::from(byte & 0x3f);
        let (code, length) = match *utf_8 {
            [a, b, ..] if a < 0xe0 => (u32::from(a & 0x1f) << 6 | low(b), 2),
            [a, b, c, ..] if a < 0xf0 => (u32::from(a & 0x0f) << 12 | low(b) << 6 | low(c), 3),
            _ => return (Letter::ENTANGLED, 4),
        };
        (self.0[code as usize], length)
    }
}

/// What a character becomes, if that does not depend on its neighbours.
fn alone(spelling: &str) -> Letter {
    let category = CodePointMapData::<GeneralCategory>::new();
    let joins = |c: char| {
        let is_jamo = matches!(c, '\u{1100}'..='\u{11ff}' | '\u{a960}'..='\u{a97f}' | '\u{d7b0}'..='\u{d7ff}');
        is_jamo || GeneralCategoryGroup::Mark.contains(category.get(c))
    };
    // Checked before and after folding, because folding turns one mark (U+0345) into a letter.
    let composed = ComposingNormalizer::new_nfkc().normalize(spelling);
    let normal = normalise(spelling);
    if composed.chars().chain(normal.chars()).any(joins) {
        return Letter::ENTANGLED;
    }
    let mut letters = normal.chars().map(Letter::of);
    match (letters.next(), letters.next()) {
        (None, _) => Letter::INVISIBLE,
        (Some(letter), None) if letter.length < 4 => letter,
        _ if separates(&normal) => Letter::SEPARATOR,
        _ => Letter::ENTANGLED,
    }
}

/// Whether a text has no part of a run, and is not only white space.
fn separates(normal: &str) -> bool {
    let no_run = |c| matches!(classify(c), Class::Space | Class::Separator);
    normal.chars().all(no_run) && normal.contains(|c| classify(c) == Class::Separator)
}

#[cfg(test)]
mod tests {
    use icu_normalizer::properties::{
        CanonicalCombiningClassMapBorrowed, CanonicalDecompositionBorrowed, Decomposed,
    };

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
            if letter.kind == Kind::Separator {
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

    /// [`crate::features::stream`] relies on this.
    #[test]
    fn only_entangled_characters_combine_with_the_one_before() {
        let decompositions = CanonicalDecompositionBorrowed::new();
        let classes = CanonicalCombiningClassMapBorrowed::new();
        for character in '\0'..=char::MAX {
            let bmp = (0x80..0x1_0000).contains(&u32::from(character));
            if bmp && classes.get_u8(character) != 0 {
                assert_eq!(letter(character).kind, Kind::Entangled, "{character:?}");
            }
            if let Decomposed::Expansion(_, second) = decompositions.decompose(character) {
                let entangled = !second.is_ascii() && letter(second).kind == Kind::Entangled;
                assert!(entangled, "{second:?} of {character:?}");
            }
        }
    }

    #[test]
    fn common_characters_are_not_entangled() {
        for (character, kind) in [
            ('\u{e9}', Kind::Word),
            ('\u{416}', Kind::Word),
            ('\u{ff21}', Kind::Word),
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
            ('\u{df}', Kind::Entangled),
            ('\u{1f600}', Kind::Entangled),
        ] {
            assert_eq!(letter(character).kind, kind, "{character:?}");
        }
    }
}
