//! Makes the verification sketch V1 from the tokens of a text.
//!
//! Every pair of neighbouring tokens is a shingle, and every occurrence of a shingle an element of
//! 64 bits: nine choose one of 512 bins, 32 are its value. A bin keeps its least value v, and its
//! code is 1 + v mod 3, or 0 if the bin is empty. Exact definition: `docs/recipe-np1.md`. How two
//! sketches compare is the business of [`crate::sketch`]. About 10 ns a token. Tested by the
//! published example, the reference sketches and a naive builder in `naive.rs`.

use xxhash_rust::xxh3::xxh3_64;

use crate::sketch::{BINS, Sketch};
use crate::text::tally::Tally;

const P: u64 = 0x9E37_79B9_7F4A_7C15;

/// Above every value that an element can have.
const EMPTY: u32 = u32::MAX;

/// The final mixing of `MurmurHash3`.
pub(crate) const fn mix(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}

/// A sketch in the making.
#[derive(Debug)]
pub(crate) struct SketchBuilder {
    least: [u32; BINS],
    shingles: Tally,
    last_token: Option<u64>,
    tokens: usize,
}

impl SketchBuilder {
    /// For the tokens of this text; none has come yet.
    pub(crate) fn of_tokens_from(normalised: &str) -> Self {
        Self {
            least: [EMPTY; BINS],
            shingles: Tally::of_keys_from(normalised, normalised.len() / 6),
            last_token: None,
            tokens: 0,
        }
    }

    /// Takes the next token, as UTF-8.
    #[inline]
    pub(crate) fn token(&mut self, token: &[u8]) {
        let hash = xxh3_64(token);
        if let Some(last) = self.last_token.replace(hash) {
            self.shingle(mix(last.wrapping_mul(P).wrapping_add(hash)));
        }
        self.tokens += 1;
    }

    fn shingle(&mut self, shingle: u64) {
        let earlier = u64::from(self.shingles.add(shingle));
        let element = mix(shingle.wrapping_add(earlier.wrapping_mul(P)));
        let least = &mut self.least[(element >> 55) as usize];
        *least = (*least).min((element as u32).min(EMPTY - 1));
    }

    /// How many tokens came.
    pub(crate) const fn tokens(&self) -> usize {
        self.tokens
    }

    /// The sketch; `None` if no token came.
    pub(crate) fn finish(mut self) -> Option<Box<Sketch>> {
        let last = self.last_token?;
        if self.tokens == 1 {
            self.shingle(mix(last));
        }
        let codes = self.least.map(|least| match least {
            EMPTY => 0,
            least => 1 + (least % 3) as u8,
        });
        Some(Box::new(Sketch::from_codes(&codes)))
    }
}
