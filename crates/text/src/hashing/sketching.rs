//! Builds the sketch V2 from the tokens of a text.
//!
//! Every pair of neighbouring tokens is a shingle, and every occurrence of a shingle an element of
//! 64 bits: nine choose one of 512 bins, 32 are its value. A bin keeps its least value v, and its
//! code is 1 + v mod 3, or 0 if the bin is empty. Labels come from the same values: 32 neighbouring
//! bins are a wide bin, with the least of their values. Tokens with digits are numbers, and go into
//! 16 bins of their own. Exact definition: `docs/recipe-np2.md`.
//! [`nearprint_fingerprint`] compares sketches. About 8 ns a token. Tested by the published
//! example, the reference sketches and a naive builder in `tests/naive.rs`.

use nearprint_fingerprint::{BINS, LABELS, Label, MINIMA, Numbers, Sketch};

use crate::hashing::repeats::Repeats;
use crate::hashing::tally::Tally;
use crate::kernel::Simd;
use crate::kernel::text::{self as kernel, BLOCK, Marks, mix, shingle};

/// Above every value that an element can have.
const EMPTY: u32 = kernel::EMPTY_BIN;

#[derive(Debug)]
pub(crate) struct SketchBuilder {
    least: Box<[u32; BINS]>,
    /// The shingles of a text that has few of them.
    repeats: Option<Repeats>,
    /// The counts of the shingles that occur more than once; in a long text, of all.
    shingles: Tally,
    last_token: u64,
    tokens: usize,
    numbers: NumberBins,
}

impl SketchBuilder {
    /// A builder sized for a text.
    pub(crate) fn for_text(text: &str) -> Self {
        Self {
            least: Box::new([EMPTY; BINS]),
            repeats: Some(Repeats::with_capacity(text.len() / 6)),
            shingles: Tally::with_capacity(0).bounded_by(text),
            last_token: 0,
            tokens: 0,
            numbers: NumberBins::default(),
        }
    }

    /// Adds the hashes of the next tokens, at most [`BLOCK`], with those marked that have a digit.
    pub(crate) fn tokens(&mut self, simd: Simd, hashes: &[u64], numbers: &Marks) {
        let (Some(&first), Some(&last)) = (hashes.first(), hashes.last()) else { return };
        let mut shingles = [0; BLOCK];
        shingles[0] = shingle(self.last_token, first);
        kernel::mix_shingles(simd, hashes, &mut shingles[1..hashes.len()]);
        // The first token of the text has none before it.
        let from = usize::from(self.tokens == 0);
        self.last_token = last;
        self.tokens += hashes.len();
        self.numbers.add(hashes, &shingles, numbers);
        self.shingles(simd, &mut shingles[from..hashes.len()]);
    }

    /// Adds shingles. Treats all as first occurrences until the text ends or has too many for
    /// [`Repeats`]; adding an element twice changes nothing, so they can be counted later.
    fn shingles(&mut self, simd: Simd, shingles: &mut [u64]) {
        match &mut self.repeats {
            Some(repeats) if repeats.has_room(shingles.len()) => {
                repeats.add(shingles);
                self.elements(simd, shingles, &[0; BLOCK]);
            }
            _ => {
                if let Some(repeats) = self.repeats.take() {
                    self.count(simd, repeats.all());
                }
                self.count(simd, shingles);
            }
        }
    }

    /// Adds shingles, each with its number of earlier occurrences.
    fn count(&mut self, simd: Simd, shingles: &[u64]) {
        self.shingles.make_room(shingles.len());
        for some in shingles.chunks(BLOCK) {
            let (mut elements, mut earlier) = ([0; BLOCK], [0; BLOCK]);
            let elements = &mut elements[..some.len()];
            elements.copy_from_slice(some);
            self.shingles.add(some, &mut earlier);
            self.elements(simd, elements, &earlier);
        }
    }

    /// Turns each shingle into its element, in place, and puts it into its bin.
    fn elements(&mut self, simd: Simd, shingles: &mut [u64], earlier: &[u32]) {
        kernel::mix_elements(simd, shingles, earlier);
        for &element in &*shingles {
            let least = &mut self.least[(element >> 55) as usize];
            *least = (*least).min((element as u32).min(EMPTY - 1));
        }
    }

    /// Whether the caller must add all tokens once more, because not all counts of their shingles
    /// fitted into memory. Nothing is lost: adding an element twice changes nothing.
    pub(crate) fn needs_another_pass(&mut self) -> bool {
        let again = self.shingles.next_partition();
        if again {
            self.tokens = 0;
            self.numbers.is_last = false;
        }
        again
    }

    /// The sketch; `None` without a token.
    pub(crate) fn finish(mut self) -> Option<Box<Sketch>> {
        match self.tokens {
            0 => return None,
            1 => self.shingles(Simd::best(), &mut [mix(self.last_token)]),
            _ => {}
        }
        if let Some(repeats) = self.repeats.take() {
            self.count(Simd::best(), &repeats.suspects());
        }
        let mut planes = [0; 16];
        kernel::code_planes(Simd::best(), &self.least, &mut planes);
        Some(Box::new(Sketch::new(planes, labels(&self.least), self.numbers.finish())))
    }
}

/// The least values of the numbers of a text.
#[derive(Debug)]
struct NumberBins {
    least: [u32; Numbers::BINS],
    /// Whether the last token is a number.
    is_last: bool,
}

impl Default for NumberBins {
    fn default() -> Self {
        Self { least: [EMPTY; Numbers::BINS], is_last: false }
    }
}

impl NumberBins {
    /// Adds the tokens that are marked, with the shingles that end with them. After a number, a
    /// number counts together with it, so that `2.13` and `13.2` differ: most numbers have
    /// separators in them.
    fn add(&mut self, hashes: &[u64], shingles: &[u64; BLOCK], numbers: &Marks) {
        for (word, &marked) in numbers.iter().enumerate() {
            // Those that come right after another one.
            let pairs = marked & (marked << 1 | u64::from(self.is_last));
            self.is_last = marked >> 63 == 1;
            let mut rest = marked;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                let at = 64 * word + bit as usize;
                let number = if pairs >> bit & 1 == 1 { shingles[at] } else { hashes[at] };
                let element = mix(number);
                let least = &mut self.least[(element >> 60) as usize];
                *least = (*least).min((element as u32).min(EMPTY - 1));
            }
        }
        let last = hashes.len() - 1;
        self.is_last = numbers[last / 64] >> (last % 64) & 1 == 1;
    }

    fn finish(&self) -> Numbers {
        Numbers::of_minima(&self.least.map(|least| (least != EMPTY).then_some(least)))
    }
}

/// The number of bins whose least value is a minimum of a label.
const WIDE_BINS: usize = 16;

/// The labels of a text with these values. Label t has the first minima of the wide bins from 4t
/// on. An empty wide bin borrows from the next one that is not (densified one-permutation hashing,
/// Shrivastava and Li 2014).
fn labels(least: &[u32; BINS]) -> [Label; LABELS] {
    let mut wide = [EMPTY; WIDE_BINS];
    for (wide, bins) in wide.iter_mut().zip(least.chunks_exact(BINS / WIDE_BINS)) {
        *wide = bins.iter().fold(EMPTY, |least, &value| least.min(value));
    }
    let minimum = |bin: usize| {
        let from_here = wide[bin..].iter().chain(&wide[..bin]);
        from_here.copied().find(|&value| value != EMPTY).unwrap_or(EMPTY)
    };
    std::array::from_fn(|label| {
        let first = label * (WIDE_BINS / LABELS);
        Label::of_minima(std::array::from_fn::<_, MINIMA, _>(|at| minimum(first + at)))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hashing::repeats::KEYS_MAX;

    proptest! {
        #[test]
        fn little_memory_gives_the_same_sketch(
            tokens in prop::collection::vec(prop_oneof![0..30_u64, any::<u64>()], 0..2_000),
        ) {
            let whole = SketchBuilder::for_text("");
            let mut in_shares = SketchBuilder::for_text("");
            in_shares.repeats = None;
            in_shares.shingles = in_shares.shingles.with_slots_max(2 * BLOCK);
            prop_assert_eq!(sketch(in_shares, &tokens), sketch(whole, &tokens));
        }

        /// Shingles from before [`Repeats`] was full count for the later ones.
        #[test]
        fn a_long_text_is_counted_from_its_beginning(
            tokens in prop::collection::vec(prop_oneof![0..30_u64, any::<u64>()], 1_000..2_000),
            more in 0..1_000_usize,
        ) {
            let tokens: Vec<u64> = tokens.iter().copied().cycle().take(KEYS_MAX - 500 + more).collect();
            let whole = SketchBuilder::for_text("");
            let mut counted = SketchBuilder::for_text("");
            counted.repeats = None;
            prop_assert_eq!(sketch(whole, &tokens), sketch(counted, &tokens));
        }
    }

    fn sketch(mut builder: SketchBuilder, tokens: &[u64]) -> Option<Box<Sketch>> {
        loop {
            for tokens in tokens.chunks(BLOCK) {
                let mut numbers = [0; BLOCK / 64];
                for (at, token) in tokens.iter().enumerate() {
                    numbers[at / 64] |= u64::from(token % 3 == 0) << (at % 64);
                }
                builder.tokens(Simd::best(), tokens, &numbers);
            }
            if !builder.needs_another_pass() {
                return builder.finish();
            }
        }
    }
}
