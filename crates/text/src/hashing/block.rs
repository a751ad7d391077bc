//! Short strings that wait to be hashed together.

use xxhash_rust::xxh3::xxh3_64;

use crate::kernel::Simd;
use crate::kernel::han::HAN_MAX;
use crate::kernel::text::{self as kernel, BLOCK, Marks, SHORT_MAX};

/// Strings that wait to be hashed.
pub(super) struct Block {
    pub(super) words: [u64; BLOCK],
    /// 0 where the word is already a hash.
    pub(super) lengths: [u8; BLOCK],
    pub(super) waiting: usize,
    /// Whether all words are already hashes.
    pub(super) is_hashed: bool,
    /// Those that have a digit.
    marked: Marks,
}

impl Block {
    pub(super) const fn new() -> Self {
        Self {
            words: [0; BLOCK],
            lengths: [0; BLOCK],
            waiting: 0,
            is_hashed: true,
            marked: [0; BLOCK / 64],
        }
    }

    /// Adds a string; returns whether the block is full.
    #[inline]
    pub(super) fn push(&mut self, word: u64, length: u8) -> bool {
        let at = self.waiting % BLOCK;
        (self.words[at], self.lengths[at]) = (word, length);
        self.waiting = at + 1;
        self.is_hashed = false;
        self.waiting == BLOCK
    }

    /// Notes that the string after the next `after` ones has a digit; there is space for it.
    #[inline]
    pub(super) const fn mark(&mut self, after: usize) {
        let at = (self.waiting + after) % BLOCK;
        self.marked[at / 64] |= 1 << (at % 64);
    }

    /// Which of the waiting strings have a digit.
    pub(super) fn take_marks(&mut self) -> Marks {
        std::mem::take(&mut self.marked)
    }

    /// Adds words, for all of which there is space. They are separated by single spaces: the first
    /// begins at `first`, and `ends` are the offsets of their ends from `from`.
    pub(super) fn push_words(&mut self, bytes: &[u8], first: usize, from: usize, ends: &[u32]) {
        let Some(&first_end) = ends.first() else { return };
        let words = &mut self.words[self.waiting..][..ends.len()];
        let lengths = &mut self.lengths[self.waiting..][..ends.len()];
        (words[0], lengths[0]) = short(&bytes[first..], from + first_end as usize - first);
        let bytes = &bytes[from..];
        for i in 1..ends.len() {
            let (start, end) = (ends[i - 1] as usize + 1, ends[i] as usize);
            (words[i], lengths[i]) = short(&bytes[start..], end - start);
        }
        self.waiting += ends.len();
        self.is_hashed = false;
    }

    /// Adds the hashes of the first windows of some ASCII, as many as there is space for; returns
    /// their number.
    pub(super) fn push_windows<const WINDOW: usize>(&mut self, simd: Simd, ascii: &[u8]) -> usize {
        let some = (BLOCK - self.waiting).min(ascii.len() - WINDOW + 1);
        let range = self.waiting..self.waiting + some;
        kernel::hash_windows::<WINDOW>(simd, ascii, &mut self.words[range.clone()]);
        self.lengths[range].fill(0);
        self.waiting += some;
        some
    }

    /// The space for the words of a stretch of Han.
    pub(super) fn space(&mut self, at: usize) -> &mut [u64; HAN_MAX] {
        self.words[at..].first_chunk_mut().expect("a block has room for a stretch")
    }

    /// Hashes all waiting strings and empties the block.
    pub(super) fn hash(&mut self, simd: Simd) -> &[u64] {
        let waiting = std::mem::take(&mut self.waiting);
        if !std::mem::replace(&mut self.is_hashed, true) {
            kernel::hash_short(simd, &mut self.words[..waiting], &self.lengths[..waiting]);
        }
        &self.words[..waiting]
    }
}

/// The string at the beginning of `bytes`, in the form that a block stores.
#[expect(clippy::inline_always, reason = "a call for each word would take longer than this")]
#[inline(always)]
pub(super) fn short(bytes: &[u8], length: usize) -> (u64, u8) {
    match bytes.first_chunk() {
        Some(first) if length <= SHORT_MAX => {
            let unused = 8 * (SHORT_MAX - length) as u32;
            // The length is never 0, so nothing is shifted by 64.
            (u64::from_le_bytes(*first) << (unused & 63) >> (unused & 63), length as u8)
        }
        _ => (xxh3_64(&bytes[..length]), 0),
    }
}
