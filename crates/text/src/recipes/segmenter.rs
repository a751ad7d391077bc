//! Cuts a text into the words of jieba, a piece at a time.
//!
//! The segmenter takes up to 60 bytes for each character that it is given at once, so it is given
//! pieces, cut where no word can be broken: next to a character that is in none of its words, where
//! none of the words in its dictionary reaches across, or within a long row of ASCII letters and
//! digits, which is one word. The words are those of the whole text, but in one case: Han without a
//! separator in which words of the dictionary overlap for [`OVERLAPS_MAX`] bytes is cut there. No
//! sentence does that; one word repeated a hundred thousand times may. Where Han goes on for more
//! than a piece without a separator, a tie may also go another way than in the whole: of two
//! segmentations into the same words in another order (three times one character as one and two, or
//! as two and one), jieba takes the one whose sum is rounded up, and a piece has another sum. Where
//! the pieces end depends on the text alone, and so its words are always the same.
//! Tested against the segmentation of the whole text.

use jieba_rs::Jieba;

use crate::features::runs::{RunSink, Runs};
use crate::features::stream::normalise_in_pieces;

/// The bytes that are cut at a time.
const PIECE: usize = 32 << 10;

/// The bytes without a place to cut after which they are cut anywhere.
const OVERLAPS_MAX: usize = 256 << 10;

/// No word of the dictionary has more characters.
const WORD_MAX: usize = 16;

/// So many of the last places of a piece are tried.
const PLACES_TRIED: usize = 64;

/// Passes the words of a text in normal form to `take`, in order, and the characters between them.
pub(crate) fn words(jieba: &Jieba, text: &str, take: impl FnMut(&str)) {
    let mut runs = Runs::new(Cutter::new(jieba, take));
    normalise_in_pieces(text, &mut |piece| runs.push(piece));
    runs.finish().finish();
}

/// What has been read and not yet been cut.
struct Cutter<'a, F> {
    jieba: &'a Jieba,
    take: F,
    waiting: String,
    /// The begin of a row of letters and digits that goes on where `waiting` begins.
    row: String,
    piece: usize,
    overlaps_max: usize,
    /// The bytes that wait when they are cut next.
    next: usize,
}

/// The runs without the white space within them: a word that is broken over two lines is one.
impl<F: FnMut(&str)> RunSink for Cutter<'_, F> {
    fn word(&mut self, part: &str) {
        let mut rest = part;
        while !rest.is_empty() {
            let (some, after) = rest.split_at(rest.floor_char_boundary(self.piece.max(4)));
            match some.chars().next() {
                Some(first) if some.len() == first.len_utf8() => self.between(first),
                _ => {
                    self.waiting.push_str(some);
                    self.cut_if_enough();
                }
            }
            rest = after;
        }
    }

    fn end_word(&mut self) {}

    fn cjk(&mut self, character: char) {
        self.between(character);
    }

    fn between(&mut self, character: char) {
        // In a script without words, each character is a token by itself.
        if !character.is_ascii() && !is_of_words(character) {
            self.cut_all();
            (self.take)(character.encode_utf8(&mut [0; 4]));
            return;
        }
        self.waiting.push(character);
        self.cut_if_enough();
    }
}

impl<'a, F: FnMut(&str)> Cutter<'a, F> {
    fn new(jieba: &'a Jieba, take: F) -> Self {
        let (waiting, row) = (String::new(), String::new());
        Self { jieba, take, waiting, row, piece: PIECE, overlaps_max: OVERLAPS_MAX, next: PIECE }
    }

    fn cut_if_enough(&mut self) {
        if self.waiting.len() < self.next {
            return;
        }
        self.pass_row();
        if let Some(end) = self.last_place() {
            self.cut(end, false);
        } else if length_of_last_row(&self.waiting) > 2 * WORD_MAX {
            let end = self.waiting.len() - length_of_last_row(&self.waiting) + WORD_MAX;
            self.cut(end, true);
            self.pass_row();
        } else if self.waiting.len() >= self.overlaps_max {
            // What ends a line is a word of two characters.
            self.cut(self.waiting.trim_end_matches('\r').len().max(1), false);
        }
        self.next = self.waiting.len() + self.piece;
    }

    fn finish(mut self) {
        self.cut_all();
    }

    fn cut_all(&mut self) {
        if !self.waiting.is_empty() || !self.row.is_empty() {
            self.pass_row();
            self.cut(self.waiting.len(), false);
            self.next = self.piece;
        }
    }

    /// Adds to the row what certainly belongs to it: all but what may belong to a word of the
    /// dictionary.
    fn pass_row(&mut self) {
        if !self.row.is_empty() {
            let length = self.waiting.bytes().take_while(u8::is_ascii_alphanumeric).count();
            let certain = length.saturating_sub(WORD_MAX);
            self.row.push_str(&self.waiting[..certain]);
            self.waiting.drain(..certain);
        }
    }

    /// Passes on the words of the first bytes. If the last one is a row that goes on, it is kept.
    fn cut(&mut self, end: usize, goes_on: bool) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut words: Vec<&str> =
            self.jieba.cut(&waiting[..end], false).iter().map(|token| token.word).collect();
        let last = words.pop_if(|_| goes_on);
        let mut words = words.into_iter().peekable();
        if !self.row.is_empty() {
            let rest = words.next_if(|word| word.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            self.row.push_str(rest.unwrap_or_default());
            (self.take)(&std::mem::take(&mut self.row));
        }
        words.for_each(|word| (self.take)(word));
        self.row.push_str(last.unwrap_or_default());
        waiting.drain(..end);
        self.waiting = waiting;
    }

    /// The last place at which the words of what waits are those of both sides.
    fn last_place(&self) -> Option<usize> {
        let separates = |c: char| !is_of_words(c) && c != '\r';
        if let Some((at, separator)) = self.waiting.rmatch_indices(separates).next() {
            return Some(at + separator.len());
        }
        let places = self.waiting.char_indices().rev().map(|(at, _)| at).filter(|&at| at > 0);
        places.skip(WORD_MAX).take(PLACES_TRIED).find(|&at| !self.is_crossed(at))
    }

    /// Whether a word may reach across this place.
    fn is_crossed(&self, at: usize) -> bool {
        let (before, after) = self.waiting.split_at(at);
        let in_row = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        if in_row(before.chars().next_back()) && in_row(after.chars().next()) {
            return true;
        }
        before.char_indices().rev().take(WORD_MAX - 1).any(|(begin, _)| {
            let ends = after.char_indices().take(WORD_MAX - 1);
            ends.map(|(end, last)| at + end + last.len_utf8())
                .any(|end| self.jieba.has_word(&self.waiting[begin..end]))
        })
    }
}

/// The length of the row of ASCII letters and digits at the end.
fn length_of_last_row(text: &str) -> usize {
    text.bytes().rev().take_while(u8::is_ascii_alphanumeric).count()
}

/// Whether a character may be part of a word of several characters, as jieba has it.
const fn is_of_words(character: char) -> bool {
    matches!(character,
        'a'..='z' | 'A'..='Z' | '0'..='9' | '+' | '#' | '&' | '.' | '_' | '%' | '-'
        | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}'
        | '\u{F900}'..='\u{FAFF}'
        | '\u{20000}'..='\u{2A6DF}'
        | '\u{2A700}'..='\u{2EBEF}'
        | '\u{2F800}'..='\u{2FA1F}')
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    static JIEBA: LazyLock<Jieba> = LazyLock::new(Jieba::new);

    fn in_pieces(text: &str, piece: usize) -> Vec<String> {
        let mut words = Vec::new();
        let mut cutter = Cutter::new(&JIEBA, |word: &str| words.push(word.to_owned()));
        (cutter.piece, cutter.next, cutter.overlaps_max) = (piece, piece, usize::MAX);
        text.chars().for_each(|character| cutter.between(character));
        cutter.finish();
        words
    }

    fn whole(text: &str) -> Vec<String> {
        JIEBA.cut(text, false).iter().map(|token| token.word.to_owned()).collect()
    }

    proptest! {
        /// Words that overlap, words with letters, digits and signs, rows of letters, and
        /// separators.
        #[test]
        fn pieces_have_the_words_of_the_whole(
            parts in prop::collection::vec(
                prop_oneof![
                    "[\u{4e2d}\u{56fd}\u{4eba}\u{6c11}\u{5927}\u{5b66}\u{751f}]{1,20}\u{3002}",
                    "[a-z0-9]{1,9}",
                    "[a-z]{60,90}",
                    "[4c][s#+]{1,2}\u{5e97}?",
                    "\u{6c5f}\u{5357}style",
                    "[ \u{3002}\u{e9}\u{d55c}\r\n.-]{1,4}",
                    Just("\r\n".to_owned()),
                ],
                0..80,
            ),
            piece in 150..400_usize,
        ) {
            let text = parts.concat();
            prop_assert_eq!(in_pieces(&text, piece), whole(&text));
        }

        /// Han without separators is cut where no word crosses, which decides nothing but ties: the
        /// words are the same in another order, and so exactly as likely.
        #[test]
        fn pieces_without_separators_have_the_same_words_but_for_ties(
            parts in prop::collection::vec(
                prop_oneof![
                    3 => "[\u{4e2d}\u{56fd}\u{4eba}\u{6c11}\u{5927}\u{5b66}\u{751f}]{1,20}",
                    1 => "\u{6c5f}\u{5357}style",
                ],
                1..20,
            ),
            piece in 12..150_usize,
        ) {
            let text = parts.concat();
            let (mut words, mut expected) = (in_pieces(&text, piece), whole(&text));
            prop_assert_eq!(words.concat(), expected.concat());
            words.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(words, expected);
        }
    }

    #[test]
    fn words_that_overlap_without_end_are_cut_after_so_many_bytes() {
        let text = "\u{4e2d}\u{56fd}".repeat(OVERLAPS_MAX / 3);
        let mut words = 0;
        super::words(&JIEBA, &text, |word| {
            assert!(word.chars().count() <= 2);
            words += 1;
        });
        assert!((text.len() / 6..text.len() / 6 + 9).contains(&words), "{words}");
    }
}
