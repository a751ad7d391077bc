//! Reads a text once and hands it on normalised, character by character, without a copy of it.
//!
//! Equal to [`crate::text::features::normalise`] followed by [`crate::text::features::runs`], for whom it is a faster way:
//! ASCII and Han go on in stretches, other characters by a table ([`crate::text::features::letters`]).
//! Characters that the table cannot say go through the Unicode tables, from the character before
//! them (which may combine with them) to the next one that combines with nothing before it: to
//! normalise such a stretch by itself gives what it becomes within the text.

use crate::text::features::letters::{Kind, Letter, Letters};
use crate::text::features::normalise::normalise;

/// Takes a text as it is read.
pub(crate) trait Reader {
    /// A stretch of ASCII as it stands in the text, upper case and separators too.
    fn ascii(&mut self, ascii: &[u8]);
    /// The rest of a text, of which it takes some Han characters from the beginning, if there are
    /// any; says how many bytes they have.
    fn han(&mut self, rest: &[u8]) -> usize;
    /// One character, normalised.
    fn letter(&mut self, letter: Letter);
}

/// At most so many bytes are handed on at a time, so that they are still in the first cache.
const STRETCH_MAX: usize = 4_096;

/// Reads a text.
pub(crate) fn read(text: &str, to: &mut impl Reader) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let ascii = ascii_length(&rest[..rest.len().min(STRETCH_MAX)]);
        if ascii > 0 {
            // What follows may combine with the last of them.
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
        let (letter, length) = Letters::table().first_of(rest);
        if letter.kind == Kind::Entangled || is_entangled(&rest[length..]) {
            at = entangled(text, at, to);
        } else {
            to.letter(letter);
            at += length;
        }
    }
}

/// Hands on a stretch that is to be normalised as a whole, and says where it ends.
#[cold]
fn entangled(text: &str, from: usize, to: &mut impl Reader) -> usize {
    let bytes = text.as_bytes();
    let mut end = from + Letters::table().first_of(&bytes[from..]).1;
    if bytes[from].is_ascii() {
        end = from + 1;
    }
    while is_entangled(&bytes[end..]) {
        end += Letters::table().first_of(&bytes[end..]).1;
    }
    for character in normalise(&text[from..end]).chars() {
        to.letter(Letter::of(character));
    }
    end
}

/// Whether a text begins with a character that may combine with the one before it.
#[inline]
fn is_entangled(utf_8: &[u8]) -> bool {
    utf_8.first().is_some_and(|first| !first.is_ascii())
        && Letters::table().first_of(utf_8).0.kind == Kind::Entangled
}

/// How many bytes of ASCII some bytes begin with.
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
