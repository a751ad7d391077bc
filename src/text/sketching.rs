//! Makes the verification sketch V1 from the tokens of a text.
//!
//! Every pair of neighbouring tokens is a shingle, and every occurrence of a shingle an element of
//! 64 bits: nine choose one of 512 bins, 32 are its value. A bin keeps its least value v, and its
//! code is 1 + v mod 3, or 0 if the bin is empty. Exact definition: `docs/recipe-np1.md`. How two
//! sketches compare is the business of [`crate::sketch`]. About 10 ns a token. Tested by the
//! published example, the reference sketches and a naive builder in `naive.rs`.

use crate::kernel::Simd;
use crate::kernel::text::{self as kernel, BLOCK, mix};
use crate::sketch::{BINS, Sketch};
use crate::text::tally::Tally;

/// Above every value that an element can have.
const EMPTY: u32 = u32::MAX;

/// A sketch in the making.
#[derive(Debug)]
pub(crate) struct SketchBuilder {
    least: [u32; BINS],
    shingles: Tally,
    last_token: u64,
    tokens: usize,
}

impl SketchBuilder {
    /// For the tokens of this text; none has come yet.
    pub(crate) fn of_tokens_from(text: &str) -> Self {
        Self {
            least: [EMPTY; BINS],
            shingles: Tally::of_keys_from(text, text.len() / 6),
            last_token: 0,
            tokens: 0,
        }
    }

    /// Takes the hashes of the next tokens, at most [`BLOCK`].
    pub(crate) fn tokens(&mut self, simd: Simd, hashes: &[u64]) {
        let mut tokens = [0; BLOCK + 1];
        tokens[0] = self.last_token;
        tokens[1..=hashes.len()].copy_from_slice(hashes);
        // The first token of all has none before it.
        let tokens = &tokens[usize::from(self.tokens == 0)..=hashes.len()];
        let Some(&last) = tokens.last() else { return };
        self.last_token = last;
        self.tokens += hashes.len();
        let mut shingles = [0; BLOCK];
        let shingles = &mut shingles[..tokens.len() - 1];
        kernel::mix_shingles(simd, tokens, shingles);
        self.shingles(simd, shingles);
    }

    fn shingles(&mut self, simd: Simd, shingles: &mut [u64]) {
        let mut earlier = [0; BLOCK];
        self.shingles.add(shingles, &mut earlier);
        kernel::mix_elements(simd, shingles, &earlier);
        for &element in &*shingles {
            let least = &mut self.least[(element >> 55) as usize];
            *least = (*least).min((element as u32).min(EMPTY - 1));
        }
    }

    /// The sketch; `None` if no token came.
    pub(crate) fn finish(mut self) -> Option<Box<Sketch>> {
        match self.tokens {
            0 => return None,
            1 => self.shingles(Simd::best(), &mut [mix(self.last_token)]),
            _ => {}
        }
        let codes = self.least.map(|least| match least {
            EMPTY => 0,
            least => 1 + (least % 3) as u8,
        });
        Some(Box::new(Sketch::from_codes(&codes)))
    }
}
