//! Reads a text once and passes it on normalised, without copying it.
//!
//! Equivalent to [`crate::features::normalise`] followed by [`crate::features::runs`],
//! but faster: ASCII and Han are passed on in stretches, and other characters by a table
//! ([`crate::features::letters`]). Entangled characters go through the Unicode tables in
//! stretches: from the character before them, which may combine with them, to the next one that
//! combines with nothing before it. Normalising such a stretch by itself gives what it becomes
//! within the text.

use crate::features::letters::{Kind, Letter, Letters};
use crate::features::normalise::normalise;

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
        let (letter, length) = Letters::table().first_of(rest);
        if letter.kind == Kind::Entangled || is_entangled(&rest[length..]) {
            at = entangled(text, at, to);
        } else {
            to.letter(letter);
            at += length;
        }
    }
}

/// Passes on a stretch that must be normalised as a whole, and returns its end.
#[cold]
fn entangled(text: &str, from: usize, to: &mut impl CharacterSink) -> usize {
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
