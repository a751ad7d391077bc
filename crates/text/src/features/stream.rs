//! Reads a text once and passes it on normalised, without copying it.
//!
//! Equivalent to [`crate::features::normalise`] followed by [`crate::features::runs`], but faster:
//! ASCII and Han are passed on in stretches, and other characters by a table
//! ([`crate::features::letters`]). Entangled characters go through the Unicode tables in stretches:
//! from the character before them, which may combine with them, to the next one that combines with
//! nothing before it. Normalising such a stretch by itself gives what it becomes within the text.
//! Marks that compose with nothing need no tables where they are in order. A stretch that is longer
//! than a piece is normalised character by character, so that memory does not grow with what a text
//! becomes.

use crate::features::letters::{Kind, Letter, Letters};
use crate::features::normalise::{PIECE, normalise, normalise_by_character};

/// Receives a text as it is read.
pub(crate) trait CharacterSink {
    /// A stretch of ASCII as it stands in the text, with upper case and separators.
    fn ascii(&mut self, ascii: &[u8]);
    /// The rest of a text. Takes Han characters from its beginning, if there are any, and returns
    /// their length in bytes.
    fn han(&mut self, rest: &[u8]) -> usize;
    fn letter(&mut self, letter: Letter);
}

/// At most this many bytes are passed on at a time, so that they are still in the first-level
/// cache.
const STRETCH_MAX: usize = 4_096;

/// Characters that combine are frequent if there is another one within so many characters.
const NEAR: usize = 4;

pub(crate) fn read(text: &str, to: &mut impl CharacterSink) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let ascii = ascii_length(&rest[..rest.len().min(STRETCH_MAX)]);
        if ascii > 0 {
            // The next character may combine with the last of them.
            let last = usize::from(ascii < STRETCH_MAX && is_entangled(&rest[ascii..]));
            if ascii > last {
                to.ascii(&rest[..ascii - last]);
            }
            at += ascii - last;
            if last > 0 {
                at = entangled(text, at, to);
            }
            continue;
        }
        // Nothing combines with Han.
        let han = to.han(rest);
        if han > 0 {
            at += han;
            continue;
        }
        let table = Letters::table();
        let (letter, length) = table.first_of(rest);
        let is_entangled = letter.kind == Kind::Entangled;
        let marks = if is_entangled { None } else { table.marks_that_stay(&rest[length..]) };
        let Some(marks) = marks else {
            at = entangled(text, at, to);
            continue;
        };
        if letter.kind == Kind::Several {
            table.several(letter).iter().for_each(|&letter| to.letter(letter));
        } else {
            to.letter(letter);
        }
        at += length;
        let end = at + marks;
        while at < end {
            let (mark, length) = table.first_of(&bytes[at..]);
            to.letter(Letter { length: length as u8, kind: Kind::Mark, ..mark });
            at += length;
        }
    }
}

/// Passes on a stretch that must be normalised as a whole, and returns its end.
#[cold]
fn entangled(text: &str, from: usize, to: &mut impl CharacterSink) -> usize {
    let end = end_of_stretch(text, from);
    let stretch = &text[from..end];
    let mut letters = |normal: &str| normal.chars().for_each(|c| to.letter(Letter::of(c)));
    if stretch.len() <= PIECE {
        letters(&normalise(stretch));
    } else {
        normalise_by_character(stretch, &mut letters);
    }
    end
}

/// The offset of the next character that combines with nothing before it.
fn end_of_entangled(text: &str, mut at: usize) -> usize {
    let bytes = text.as_bytes();
    while is_entangled(&bytes[at..]) {
        at += Letters::table().first_of(&bytes[at..]).1;
    }
    at
}

/// The end of a stretch that begins with a character and what combines with it. Where such
/// characters are frequent, as many as fit into a piece are normalised together, because the
/// Unicode tables cost more to begin with than to go on with.
fn end_of_stretch(text: &str, from: usize) -> usize {
    let mut end = end_of_entangled(text, text.ceil_char_boundary(from + 1));
    while end - from < PIECE / 4 {
        let near = text[end..].char_indices().take(NEAR).map(|(at, _)| end + at);
        let Some(next) = near.into_iter().find(|&at| is_entangled(&text.as_bytes()[at..])) else {
            break;
        };
        end = end_of_entangled(text, next);
    }
    end
}

/// Passes the normal form of a text on in pieces of about [`PIECE`] bytes of the text.
pub(crate) fn normalise_in_pieces(text: &str, take: &mut dyn FnMut(&str)) {
    let mut rest = text;
    while !rest.is_empty() {
        let end = end_of_entangled(rest, rest.floor_char_boundary(PIECE));
        let (piece, after) = rest.split_at(end);
        if piece.len() <= 2 * PIECE {
            take(&normalise(piece));
        } else {
            normalise_by_character(piece, take);
        }
        rest = after;
    }
}

/// Whether a text begins with a character that may combine with the one before it.
#[inline]
fn is_entangled(utf_8: &[u8]) -> bool {
    utf_8.first().is_some_and(|first| !first.is_ascii())
        && Letters::table().first_of(utf_8).0.kind == Kind::Entangled
}

/// The number of ASCII bytes at the beginning.
#[inline]
pub(crate) fn ascii_length(bytes: &[u8]) -> usize {
    let is_short = bytes.first().is_none_or(|first| !first.is_ascii());
    if is_short {
        return 0;
    }
    let (chunks, _) = bytes.as_chunks::<32>();
    let whole = 32 * chunks.iter().take_while(|chunk| chunk.is_ascii()).count();
    let rest = bytes[whole..].iter().take_while(|byte| byte.is_ascii()).count();
    whole + rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Marks, Hangul letters and vowel signs, which combine with what is before them; characters
    /// that become several; and starters.
    fn piece() -> impl Strategy<Value = String> {
        prop_oneof![
            "[\u{301}\u{323}\u{345}\u{344}\u{f73}\u{93c}\u{1d16e}]{1,40}",
            "[\u{1100}\u{1161}\u{11a8}\u{ac00}]{1,40}",
            "[\u{cc6}\u{cc2}\u{cd5}\u{16d63}\u{16d67}]{1,40}",
            "[\u{fdfa}\u{390}\u{fb01}\u{1e9e}\u{ff76}\u{ff9e}]{1,40}",
            "[ a-zA\u{e9}\u{8336}\u{1f600}\u{fe0f}\u{200d}\u{ad}]{1,40}",
        ]
    }

    proptest! {
        #[test]
        fn pieces_give_the_normal_form_of_the_whole(
            begin in PIECE - 200..PIECE,
            pieces in prop::collection::vec(piece(), 1..40),
            times in 1..60_usize,
        ) {
            let text = "b".repeat(begin) + &pieces.concat().repeat(times);
            let whole = normalise(&text);
            let mut in_pieces = String::new();
            normalise_in_pieces(&text, &mut |piece| in_pieces.push_str(piece));
            prop_assert_eq!(&in_pieces, &whole);
            let mut by_character = String::new();
            normalise_by_character(&text, &mut |piece| by_character.push_str(piece));
            prop_assert_eq!(&by_character, &whole);
        }
    }
}
