//! Computes the fingerprint and the sketch of a text while reading it, in blocks for the kernel.
//!
//! ```text
//! stream -ascii, letters-> segment -windows-> hashes -saturation-> counts of bits -> fingerprint
//!        -han------------> run ---------pairs--^         ^
//!                                -tokens-> hashes -singles+--> shingles -> sketch
//! ```
//!
//! The segment and the CJK run are those of `docs/recipe-np2.md`; only the part of a segment that
//! the next windows and the current word need is stored. Strings of up to eight bytes, as most
//! features and tokens are, wait in blocks to be hashed together; longer ones are hashed one by
//! one. The order of the features matters to [`Saturation`]: single characters pass it in the order
//! of the text, and so do all other features. Memory: the table of shingles
//! ([`crate::hashing::sketching`]), and marks in a row, because a letter after them makes them a
//! word; a long word is hashed as it is read. Tested against the naive recipe.

use xxhash_rust::xxh3::Xxh3;

use crate::features::letters::{Kind, Letter};
use crate::features::stream;
use crate::features::stream::{CharacterSink, ascii_length};
use crate::hashing::block::{Block, short};
use crate::hashing::saturation::{Counters, Saturation};
use crate::hashing::sketching::SketchBuilder;
use crate::hashing::tally::Tally;
use crate::kernel::Simd;
use crate::kernel::han::{HAN_MAX, begins_with_han, han};
use crate::kernel::squeeze::{self, squeeze};
use crate::kernel::text::{self as kernel, BLOCK, BitCounts};

/// This many bytes of ASCII are squeezed at a time.
const PIECE: usize = 2_048;

/// The beginning of a word that is longer is hashed before the word ends.
const LONG_WORD: usize = 32 << 10;

/// More ASCII than this is likely to have digits.
const MANY: usize = 256;

/// Space after the segment, so that eight bytes can be read from every offset in it.
const PAD: usize = squeeze::SLACK;

/// Reads a text and accumulates what its fingerprint and its sketch are computed from.
pub(crate) struct TextDigest<const WINDOW: usize> {
    simd: Simd,
    segment: Segment,
    run: CjkRun,
    features: Block,
    tokens: Block,
    /// Which tokens of the block are also features.
    single: [bool; BLOCK],
    /// The number of tokens of the block that are also features.
    singles: usize,
    ends: Box<[u32; PIECE]>,
    /// Which of the words that end at `ends` have an ASCII digit, in ascending order.
    numeric: Vec<u32>,
    saturation: Saturation,
    admitted: Admitted,
    pub(crate) sketch: Option<SketchBuilder>,
    pub(crate) tally: Option<Tally>,
    pub(crate) token_count: usize,
    /// Whether the text is read again, for its shingles alone.
    only_tokens: bool,
}

/// Word runs joined by single spaces, over which the windows slide.
#[derive(Default)]
struct Segment {
    /// The end of the segment as read so far, and at least [`PAD`] unused bytes.
    bytes: Vec<u8>,
    /// The used bytes; the last may be a space that no word follows yet.
    length: usize,
    /// The start of the current word, or of its rest that is not hashed yet; equal to `length` when
    /// none has begun.
    word: usize,
    /// The beginning of the current word, if it is long.
    long: Option<Box<Xxh3>>,
    /// The start of the next window.
    window: usize,
    /// Whether a window has been taken.
    has_windows: bool,
    /// Whether the current word has begun and has only marks, so that it may be none.
    only_marks: bool,
    /// Whether the current word has a digit.
    has_digit: bool,
}

/// The CJK run that is being read.
#[derive(Default)]
struct CjkRun {
    /// The number of characters; not counted beyond two.
    characters: u8,
    last: u64,
    last_length: u8,
    /// Whether it is a kana, which is a feature by itself only if it is the whole run.
    last_is_kana: bool,
    /// Whether white space does not end the run here, if kana or Han comes after it.
    last_joins: bool,
    /// Whether white space has been read after the last character.
    is_spaced: bool,
}

/// The features that count; their bits are counted many at a time.
struct Admitted {
    hashes: [u64; 2 * BLOCK],
    waiting: usize,
    counts: BitCounts,
}

impl Admitted {
    /// Adds those of the hashes that count, of at most [`BLOCK`].
    fn add(&mut self, simd: Simd, counters: &mut Counters, hashes: &[u64]) {
        self.waiting += counters.admit(hashes, &mut self.hashes[self.waiting..]);
        if self.waiting >= BLOCK {
            kernel::count_bits(simd, &self.hashes[..BLOCK], &mut self.counts);
            self.hashes.copy_within(BLOCK..self.waiting, 0);
            self.waiting -= BLOCK;
        }
    }

    /// The sum of each bit, bit 0 first.
    fn sums(&mut self, simd: Simd) -> [i64; 64] {
        kernel::count_bits(simd, &self.hashes[..self.waiting], &mut self.counts);
        self.waiting = 0;
        let total = self.counts.total().cast_signed();
        self.counts.ones().map(|ones| 2 * ones.cast_signed() - total)
    }
}

impl<const WINDOW: usize> TextDigest<WINDOW> {
    pub(crate) fn new(sketch: Option<SketchBuilder>, tally: Option<Tally>) -> Self {
        Self {
            simd: Simd::best(),
            segment: Segment::default(),
            run: CjkRun::default(),
            features: Block::new(),
            tokens: Block::new(),
            single: [false; BLOCK],
            singles: 0,
            ends: Box::new([0; PIECE]),
            numeric: Vec::new(),
            saturation: Saturation::for_text(),
            admitted: Admitted { hashes: [0; 2 * BLOCK], waiting: 0, counts: BitCounts::default() },
            sketch,
            tally,
            token_count: 0,
            only_tokens: false,
        }
    }

    /// For reading the text again, for the shingles that did not fit into memory.
    pub(crate) fn of_tokens(sketch: Option<SketchBuilder>) -> Self {
        Self { only_tokens: true, ..Self::new(sketch, None) }
    }

    pub(crate) fn read(&mut self, text: &str) {
        stream::read(text, self);
        self.end_run();
        self.end_segment();
        self.hash_features();
        self.hash_tokens();
    }

    /// The sum of each bit, bit 0 first.
    pub(crate) fn sums(&mut self) -> [i64; 64] {
        self.admitted.sums(self.simd)
    }

    /// Adds a feature in the form that [`short`] returns.
    #[inline]
    fn feature(&mut self, (word, length): (u64, u8)) {
        if self.features.push(word, length) {
            self.hash_features();
        }
    }

    /// Adds a token; `single` if it is also a feature.
    #[inline]
    fn token(&mut self, (word, length): (u64, u8), single: bool) {
        self.single[self.tokens.waiting % BLOCK] = single;
        self.singles += usize::from(single);
        if self.tokens.push(word, length) {
            self.hash_tokens();
        }
    }

    fn hash_features(&mut self) {
        if self.only_tokens {
            (self.features.waiting, self.features.is_hashed) = (0, true);
            return;
        }
        let hashes = self.features.hash(self.simd);
        self.admitted.add(self.simd, self.saturation.others(), hashes);
        tally(self.tally.as_mut(), hashes);
    }

    fn hash_tokens(&mut self) {
        let numbers = self.sketch.as_ref().map(|_| self.tokens.take_marks());
        let hashes = self.tokens.hash(self.simd);
        self.token_count += hashes.len();
        let singles = std::mem::take(&mut self.singles);
        if self.only_tokens {
            // Their features have been counted.
        } else if singles == hashes.len() {
            self.admitted.add(self.simd, self.saturation.characters(), hashes);
            tally(self.tally.as_mut(), hashes);
        } else if singles > 0 {
            let pairs = hashes.iter().zip(&self.single);
            let picked: Vec<u64> = pairs.filter(|&(_, single)| *single).map(|(&h, _)| h).collect();
            self.admitted.add(self.simd, self.saturation.characters(), &picked);
            tally(self.tally.as_mut(), &picked);
        }
        if let Some((sketch, numbers)) = self.sketch.as_mut().zip(numbers) {
            sketch.tokens(self.simd, hashes, &numbers);
        }
    }

    /// Adds a word of the segment; only a sketch needs its hash.
    #[inline]
    fn word(&mut self, from: usize, to: usize) {
        let long = self.segment.long.take();
        let is_marked = std::mem::take(&mut self.segment.has_digit);
        if self.sketch.is_some() {
            if is_marked {
                self.tokens.mark(0);
            }
            let token = match long {
                None => short(&self.segment.bytes[from..], to - from),
                Some(mut long) => {
                    long.update(&self.segment.bytes[from..to]);
                    (long.digest(), 0)
                }
            };
            self.token(token, false);
        } else {
            self.token_count += 1;
        }
    }

    /// Notes which of the next words have a digit, and whether what comes after them has one; the
    /// text of a piece begins at `from`, and `self.ends` has the offsets of the ends of its words.
    fn find_digits(&mut self, from: usize, bytes: usize, count: usize) {
        const { assert!(PAD >= 64) };
        let mut word = 0;
        for at in (0..bytes).step_by(64) {
            let chunk =
                self.segment.bytes[from + at..].first_chunk().expect("the segment is padded");
            let mut rest = kernel::digits(chunk) & u64::MAX >> 64_usize.saturating_sub(bytes - at);
            while rest != 0 {
                let digit = at as u32 + rest.trailing_zeros();
                while word < count && self.ends[word] <= digit {
                    word += 1;
                }
                if word == count {
                    self.segment.has_digit = true;
                    return;
                }
                if self.numeric.last() != Some(&(word as u32)) {
                    self.numeric.push(word as u32);
                }
                // Further digits of the word say nothing new.
                let end = self.ends[word] - at as u32;
                rest &= u64::MAX.checked_shl(end).unwrap_or(0);
            }
        }
    }

    /// Adds the current word of the segment and the next ones; `self.ends` has the offsets of their
    /// ends from `from`, which is where `bytes` bytes begin.
    #[inline]
    fn words(&mut self, (from, bytes): (usize, usize), count: usize, has_digits: bool) {
        // Whether the part of the first word that was read before has a digit.
        let was_marked = count > 0 && std::mem::take(&mut self.segment.has_digit);
        self.numeric.clear();
        if was_marked {
            self.numeric.push(0);
        }
        if has_digits && self.sketch.is_some() {
            self.find_digits(from, bytes, count);
        }
        let Some(&last) = self.ends[..count].last() else { return };
        let mut done = 0;
        let mut numeric = 0;
        if self.segment.long.is_some() {
            let goes_on = self.segment.has_digit;
            self.segment.has_digit = self.numeric.first() == Some(&0);
            numeric = usize::from(self.segment.has_digit);
            let end = from + self.ends[0] as usize;
            self.word(self.segment.word, end);
            self.segment.has_digit = goes_on;
            self.segment.word = end + 1;
            done = 1;
        }
        if self.sketch.is_none() {
            self.token_count += count - done;
            self.segment.word = from + last as usize + 1;
            return;
        }
        while done < count {
            let waiting = self.tokens.waiting;
            let some = (BLOCK - waiting).min(count - done);
            while let Some(&word) = self.numeric.get(numeric)
                && (word as usize) < done + some
            {
                self.tokens.mark(word as usize - done);
                numeric += 1;
            }
            let Segment { bytes, word, .. } = &mut self.segment;
            let ends = &self.ends[done..done + some];
            self.tokens.push_words(bytes, *word, from, ends);
            *word = from + ends[some - 1] as usize + 1;
            self.single[waiting..waiting + some].fill(false);
            done += some;
            if self.tokens.waiting == BLOCK {
                self.hash_tokens();
            }
        }
    }

    /// Decides whether the marks that the current word begins with are part of one.
    #[inline]
    fn end_marks(&mut self, is_word: bool) {
        let segment = &mut self.segment;
        if std::mem::take(&mut segment.only_marks) && !is_word {
            segment.length = segment.word;
        }
    }

    /// Ends the current word of the segment.
    #[inline]
    fn end_word(&mut self) {
        let Segment { length, word, .. } = self.segment;
        if word < length {
            self.word(word, length);
        }
    }

    /// Ends the segment, before a CJK run or at the end of the text.
    fn end_segment(&mut self) {
        self.end_marks(false);
        if self.segment.length == 0 {
            return;
        }
        self.end_word();
        self.windows();
        let Segment { ref bytes, window, has_windows, .. } = self.segment;
        if !has_windows {
            // It is shorter than a window, and so one feature.
            let end = self.segment.end();
            let feature = short(&bytes[window..], end - window);
            self.feature(feature);
        }
        let bytes = std::mem::take(&mut self.segment.bytes);
        self.segment = Segment { bytes, ..Segment::default() };
    }

    /// Takes all windows of the segment as read so far.
    fn windows(&mut self) {
        let end = self.segment.end();
        if self.only_tokens {
            self.segment.window = self.segment.window.max(end);
            return;
        }
        let bytes = std::mem::take(&mut self.segment.bytes);
        let mut at = self.segment.window;
        while at < end {
            let ascii = ascii_length(&bytes[at..end]);
            if ascii >= WINDOW {
                self.ascii_windows(&bytes[at..at + ascii]);
                at += ascii - WINDOW + 1;
                self.segment.has_windows = true;
                continue;
            }
            let mut after = at;
            for _ in 0..WINDOW {
                after += bytes.get(after).map_or(1, |&first| utf_8_length(first));
            }
            if after > end {
                break;
            }
            self.feature(short(&bytes[at..], after - at));
            self.segment.has_windows = true;
            at += utf_8_length(bytes[at]);
        }
        self.segment.bytes = bytes;
        self.segment.window = at;
    }

    fn ascii_windows(&mut self, ascii: &[u8]) {
        let count_all = ascii.len() - WINDOW + 1;
        let mut at = 0;
        while at < count_all {
            at += self.features.push_windows::<WINDOW>(self.simd, &ascii[at..]);
            if self.features.waiting == BLOCK {
                self.hash_features();
            }
        }
    }

    /// Makes space for `more` bytes after the segment.
    fn make_room(&mut self, more: usize) {
        if self.segment.length + more + PAD <= self.segment.bytes.len() {
            return;
        }
        self.windows();
        let segment = &mut self.segment;
        segment.hash_long_word();
        let start = segment.word.min(segment.window);
        segment.bytes.copy_within(start..segment.length, 0);
        segment.length -= start;
        segment.word -= start;
        segment.window -= start;
        let needed = segment.length + more + PAD;
        if needed > segment.bytes.len() {
            // Half as much again, so that what is long is not moved for each of its pieces.
            segment.bytes.resize(needed + needed / 2, 0);
        }
    }

    #[inline]
    fn end_run(&mut self) {
        if self.run.characters == 0 {
            return;
        }
        if self.run.characters == 1 && self.run.last_is_kana {
            self.feature((self.run.last, self.run.last_length));
        }
        self.run = CjkRun::default();
    }

    /// Whether white space after the last character does not end the run yet.
    #[inline]
    const fn goes_on_after_space(&mut self) -> bool {
        self.run.is_spaced = self.run.last_joins;
        self.run.is_spaced
    }

    fn cjk(&mut self, Letter { bytes, length, kind }: Letter) {
        let (letter, is_kana, joins) = (u64::from(bytes), kind == Kind::Kana, kind != Kind::Hangul);
        if self.run.is_spaced && !joins {
            self.end_run();
        }
        let CjkRun { characters, last, last_length, .. } = self.run;
        if characters == 0 {
            self.end_segment();
        } else {
            self.feature((last | letter << (8 * last_length), last_length + length));
        }
        self.token((letter, length), !is_kana);
        self.run = CjkRun {
            characters: (characters + 1).min(2),
            last: letter,
            last_length: length,
            last_is_kana: is_kana,
            last_joins: joins,
            is_spaced: false,
        };
    }
}

impl Segment {
    /// Hashes the beginning of the current word if it is long; its last byte remains.
    fn hash_long_word(&mut self) {
        if self.only_marks || self.length - self.word <= LONG_WORD {
            return;
        }
        let end = self.length - 1;
        let long = self.long.get_or_insert_with(|| Box::new(Xxh3::new()));
        long.update(&self.bytes[self.word..end]);
        self.word = end;
    }

    /// The end of the words, without a trailing space and without marks that may be no word.
    fn end(&self) -> usize {
        let is_word = self.word < self.length && !self.only_marks;
        if is_word { self.length } else { self.word.saturating_sub(1) }
    }
}

/// Counts the occurrences of features.
fn tally(tally: Option<&mut Tally>, hashes: &[u64]) {
    if let Some(tally) = tally {
        tally.add(hashes, &mut [0; BLOCK]);
    }
}

/// The length of a character by its first byte.
#[inline]
const fn utf_8_length(first: u8) -> usize {
    match first {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0.. => 4,
    }
}

impl<const WINDOW: usize> CharacterSink for TextDigest<WINDOW> {
    fn ascii(&mut self, ascii: &[u8]) {
        if self.run.characters > 0 {
            let is_space = |byte: &u8| char::from(*byte).is_whitespace();
            if ascii.iter().all(is_space) && self.goes_on_after_space() {
                return;
            }
            self.end_run();
        }
        self.end_marks(ascii.first().is_some_and(u8::is_ascii_alphanumeric));
        for piece in ascii.chunks(PIECE) {
            self.make_room(piece.len());
            let segment = &mut self.segment;
            let from = segment.length;
            let in_word = segment.word < from;
            let squeezed =
                squeeze(self.simd, piece, in_word, &mut segment.bytes[from..], &mut *self.ends);
            segment.length += squeezed.bytes;
            // Between words of other scripts, there are spaces alone. A short stretch is read in
            // the text, because what was just written is read slowly.
            let has_digits =
                squeezed.bytes > squeezed.words && (piece.len() > MANY || kernel::has_digit(piece));
            self.words((from, squeezed.bytes), squeezed.words, has_digits);
        }
    }

    /// Writes as many characters as there can be, so that no branch depends on their number, and
    /// then counts only those that are there.
    fn han(&mut self, rest: &[u8]) -> usize {
        if !begins_with_han(rest) {
            return 0;
        }
        if self.run.characters == 0 {
            self.end_segment();
        }
        if self.tokens.waiting + HAN_MAX >= BLOCK {
            self.hash_tokens();
        }
        if self.features.waiting + HAN_MAX >= BLOCK {
            self.hash_features();
        }
        let CjkRun { characters, last, last_length, .. } = self.run;
        // The first character of a run has no pair with one before it.
        let with_last = usize::from(characters > 0);
        let (token, feature) = (self.tokens.waiting, self.features.waiting);
        let words = self.tokens.space(token);
        let count = han(self.simd, rest, words, self.features.space(feature + with_last));
        let (first, last_read) = (words[0], words[count - 1]);
        self.tokens.lengths[token..token + HAN_MAX].fill(3);
        self.single[token..token + HAN_MAX].fill(true);
        self.features.lengths[feature + with_last..][..HAN_MAX].fill(6);
        if characters > 0 {
            self.features.words[feature] = last | first << (8 * last_length);
            self.features.lengths[feature] = last_length + 3;
        }
        self.tokens.waiting += count;
        self.singles += count;
        self.features.waiting += count - 1 + with_last;
        (self.tokens.is_hashed, self.features.is_hashed) = (false, false);
        let characters = if count > 1 { 2 } else { (characters + 1).min(2) };
        self.run = CjkRun {
            characters,
            last: last_read,
            last_length: 3,
            last_is_kana: false,
            last_joins: true,
            is_spaced: false,
        };
        3 * count
    }

    fn letter(&mut self, letter: Letter) {
        match letter.kind {
            Kind::Invisible => {}
            Kind::Word | Kind::Mark | Kind::Digit => {
                self.end_run();
                self.make_room(4);
                let segment = &mut self.segment;
                segment.has_digit |= letter.kind == Kind::Digit;
                let begins = segment.word == segment.length;
                segment.only_marks = letter.kind == Kind::Mark && (begins || segment.only_marks);
                let place = &mut segment.bytes[segment.length..segment.length + 4];
                place.copy_from_slice(&letter.bytes.to_le_bytes());
                segment.length += usize::from(letter.length);
            }
            Kind::Space if self.goes_on_after_space() => {}
            Kind::Space | Kind::Separator | Kind::Entangled | Kind::Several => {
                self.end_run();
                self.end_marks(false);
                if self.segment.word < self.segment.length {
                    self.end_word();
                    self.make_room(1);
                    let segment = &mut self.segment;
                    segment.bytes[segment.length] = b' ';
                    segment.length += 1;
                    segment.word = segment.length;
                }
            }
            Kind::Kana | Kind::Han | Kind::Hangul => self.cjk(letter),
        }
    }
}
