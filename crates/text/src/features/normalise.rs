//! Normalisation: Unicode NFKC, then full case folding, and no second NFKC; then invisible
//! characters are dropped.
//!
//! Gives full-width letters, ligatures and composed accents one spelling, and removes case. What a
//! reader cannot see (soft hyphens, joiners, variation selectors, byte order marks) separates no
//! words and makes no difference. Linear in the text. The result is nearly always as long as the
//! text, and at most eleven times as long (one code point of three bytes stands for a phrase of
//! 33). The tables are those of Unicode 17 (`icu_normalizer`, `icu_casemap`), compiled in: no
//! locale, no environment. Tested by the reference fingerprints; the fast path for ASCII is tested
//! against the tables.

use std::borrow::Cow;

use icu_casemap::CaseMapper;
use icu_normalizer::ComposingNormalizer;

/// The normal form of a text.
///
/// ```
/// use nearprint_text::normalise;
/// assert_eq!(normalise("Stra\u{df}e \u{ff34}ea"), "strasse tea");
/// assert_eq!(normalise("zero\u{200b}width"), "zerowidth");
/// ```
pub fn normalise(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return lower_ascii(text);
    }
    Cow::Owned(folded(&ComposingNormalizer::new_nfkc().normalize(text)))
}

/// This many bytes of a long text are normalised at a time.
pub(crate) const PIECE: usize = 4_096;

/// Passes the normal form of a text on in pieces, one character after the other: for a text whose
/// characters may all combine, so that it cannot be cut before it is composed. Only marks in a row
/// are in memory together.
pub(crate) fn normalise_by_character(text: &str, take: &mut dyn FnMut(&str)) {
    let mut composed = String::with_capacity(PIECE + size_of::<char>());
    for character in ComposingNormalizer::new_nfkc().normalize_iter(text.chars()) {
        composed.push(character);
        if composed.len() >= PIECE {
            take(&folded(&composed));
            composed.clear();
        }
    }
    take(&folded(&composed));
}

/// Whether a character has the property `Default_Ignorable_Code_Point`. The ranges are those of
/// Unicode 17; they are fixed, so that a newer version drops no other character.
const fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{AD}'
        | '\u{34F}'
        | '\u{61C}'
        | '\u{115F}'..='\u{1160}'
        | '\u{17B4}'..='\u{17B5}'
        | '\u{180B}'..='\u{180F}'
        | '\u{200B}'..='\u{200F}'
        | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{3164}'
        | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}'
        | '\u{FFA0}'
        | '\u{FFF0}'..='\u{FFF8}'
        | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}')
}

/// Folds the case and drops what is invisible. No character's folding depends on its neighbours, so
/// stretches of ASCII, which are common in texts of most languages, can bypass the tables.
fn folded(composed: &str) -> String {
    let mut folded = String::with_capacity(composed.len());
    let mut rest = composed;
    while !rest.is_empty() {
        let (ascii, after) = split_where(rest, |byte| !byte.is_ascii());
        let start = folded.len();
        folded.push_str(ascii);
        folded[start..].make_ascii_lowercase();
        let (other, after) = split_where(after, |byte| byte.is_ascii());
        let visible = |character: &char| !is_invisible(*character);
        folded.extend(CaseMapper::new().fold_string(other).chars().filter(visible));
        rest = after;
    }
    folded
}

/// Splits before the first matching byte, which must begin a character.
fn split_where(text: &str, begins: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().position(begins).unwrap_or(text.len()))
}

/// NFKC leaves ASCII as it is, and folding it is lower case.
fn lower_ascii(text: &str) -> Cow<'_, str> {
    if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(text.to_ascii_lowercase())
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use icu_properties::CodePointSetData;
    use icu_properties::props::DefaultIgnorableCodePoint;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn case_folds_in_full_after_composition() {
        // Capital sharp s, the fi ligature, final sigma, a decomposed e-acute, a circled digit.
        let text = "\u{1e9e} \u{fb01} \u{3a3}\u{3c2} E\u{301} \u{2460}";
        assert_eq!(normalise(text), "ss fi \u{3c3}\u{3c3} \u{e9} 1");
    }

    #[test]
    fn folding_is_not_composed_again() {
        // U+0390 folds to iota, diaeresis, acute: three code points, and stays that.
        assert_eq!(normalise("\u{390}"), "\u{3b9}\u{308}\u{301}");
    }

    #[test]
    fn half_width_kana_and_hangul_letters_become_syllables() {
        assert_eq!(normalise("\u{ff76}\u{ff9e}"), "\u{30ac}");
        assert_eq!(normalise("\u{1112}\u{1161}\u{11ab}"), "\u{d55c}");
    }

    #[test]
    fn invisible_characters_are_those_of_unicode() {
        let ignorable = CodePointSetData::new::<DefaultIgnorableCodePoint>();
        for character in '\0'..=char::MAX {
            assert_eq!(is_invisible(character), ignorable.contains(character), "{character:?}");
        }
    }

    #[test]
    fn invisible_characters_go_after_composition() {
        // The joiner keeps the accent from its letter, and then goes.
        assert_eq!(normalise("e\u{34f}\u{301}"), "e\u{301}");
        assert_eq!(normalise("\u{feff}co\u{ad}op\u{200d}"), "coop");
        assert_eq!(normalise("\u{3164}\u{ffa0}"), "");
    }

    proptest! {
        #[test]
        fn the_ascii_paths_agree_with_the_tables(
            text in "([ -~\n\t]{0,9}|\\PC{0,3}|[\u{390}\u{130}\u{df}\u{ad}]){0,4}",
        ) {
            let composed = ComposingNormalizer::new_nfkc().normalize(&text).into_owned();
            let folded = CaseMapper::new().fold_string(&composed).into_owned();
            prop_assert_eq!(normalise(&text), folded.replace(is_invisible, ""));
        }
    }
}
