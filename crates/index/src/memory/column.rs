//! Columns: numbers of equal width, packed side by side.

use std::borrow::Cow;
use std::ops::Range;

use crate::kernel;
use crate::memory::array::Array;

/// Places for numbers of equal width, 0 to 64 bits; each is 0 until it is set.
#[derive(Debug)]
pub(crate) struct PackedColumn {
    bits: u32,
    words: Array<u64>,
    /// The bit of the first word at which the first number begins: not 0 in a part of another
    /// column.
    first_bit: usize,
}

impl PackedColumn {
    /// `len` places of `bits` bits. Places that are never set take no memory if there are many.
    pub(crate) fn new(bits: u32, len: usize) -> Self {
        Self::of_words(bits, Array::zeros(Self::words_for(bits, len)))
    }

    /// The column of these words, which are those of [`Self::stored`].
    pub(crate) fn of_words(bits: u32, words: Array<u64>) -> Self {
        Self { bits, words, first_bit: 0 }
    }

    /// The number of words that an image has for `len` numbers: one more than they take. Numbers of
    /// no bits take none.
    pub(crate) fn words_for(bits: u32, len: usize) -> usize {
        if len == 0 || bits == 0 { 0 } else { (len * bits as usize).div_ceil(64) + 1 }
    }

    /// The width of a number.
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.words.bytes()
    }

    /// The words of the first `len` numbers, as an image has them.
    pub(crate) fn stored(&self, len: usize) -> Cow<'_, [u64]> {
        let words = Self::words_for(self.bits, len);
        match self.words.get(..words) {
            Some(words) if self.first_bit == 0 => Cow::Borrowed(words),
            _ => {
                let mut packed = Self::new(self.bits, len);
                (0..len).for_each(|at| packed.set(at, self.get(at)));
                Cow::Owned(packed.words.to_vec())
            }
        }
    }

    /// The numbers at some places, which share their memory if it is large; both are read-only from
    /// then on.
    pub(crate) fn part(&self, range: &Range<u32>) -> Self {
        let bit = |place: u32| self.first_bit + place as usize * self.bits as usize;
        let end = bit(range.end).div_ceil(64).min(self.words.len());
        let words = self.words.share((bit(range.start) / 64).min(end)..end);
        Self { bits: self.bits, words, first_bit: bit(range.start) % 64 }
    }

    /// Cuts off the places from a multiple of 64 on.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        debug_assert!(at.is_multiple_of(64) && self.first_bit == 0, "a word has whole numbers");
        let words = (at / 64 * self.bits as usize).min(self.words.len());
        Self::of_words(self.bits, self.words.split_off(words))
    }

    /// Keeps the first `len` places.
    pub(crate) fn truncate(&mut self, len: usize) {
        let words = Self::words_for(self.bits, len);
        if words < self.words.len() {
            drop(self.words.split_off(words));
        }
    }

    /// Joins columns of one width that [`Self::split_off`] cut, without copying if they are large.
    pub(crate) fn joined(parts: &[&Self]) -> Self {
        let bits = parts.first().map_or(0, |part| part.bits);
        let words: Vec<_> = parts.iter().map(|part| &part.words).collect();
        Self::of_words(bits, Array::joined(&words))
    }

    /// Sets the number at a place that was not set.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, number: u64) {
        if self.bits == 0 {
            return;
        }
        let bit = index * self.bits as usize;
        let two = u128::from(number) << (bit % 64);
        self.words[bit / 64] |= two as u64;
        if let Some(next) = self.words.get_mut(bit / 64 + 1) {
            *next |= (two >> 64) as u64;
        }
    }

    /// The number at a place.
    ///
    /// # Panics
    /// When there is no such place.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> u64 {
        if self.bits == 0 {
            return 0;
        }
        let bit = self.first_bit + index * self.bits as usize;
        let next = self.words.get(bit / 64 + 1).copied().unwrap_or_default();
        let two = u128::from(self.words[bit / 64]) | u128::from(next) << 64;
        (two >> (bit % 64)) as u64 & (u64::MAX >> (64 - self.bits))
    }

    /// Prefetches the number at a place.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        let bit = self.first_bit + index * self.bits as usize;
        kernel::prefetch(&self.words, (bit / 64) as u32);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl PackedColumn {
        fn of(bits: u32, numbers: &[u64]) -> Self {
            let mut column = Self::new(bits, numbers.len());
            numbers.iter().enumerate().for_each(|(at, &number)| column.set(at, number));
            column
        }
    }

    proptest! {
        #[test]
        fn numbers_come_back_from_a_column_and_its_parts(
            bits in 1..=64_u32,
            numbers in prop::collection::vec(any::<u64>(), 1..300),
            from in any::<prop::sample::Index>(),
            at in 0..4_usize,
        ) {
            let numbers: Vec<u64> = numbers.iter().map(|number| number >> (64 - bits)).collect();
            let column = PackedColumn::of(bits, &numbers);
            let get = |column: &PackedColumn, len| (0..len).map(|at| column.get(at)).collect::<Vec<_>>();
            prop_assert_eq!(&get(&column, numbers.len()), &numbers);
            let from = from.index(numbers.len());
            let part = column.part(&(from as u32..numbers.len() as u32));
            prop_assert_eq!(&get(&part, numbers.len() - from), &numbers[from..]);

            let rest = PackedColumn::of(bits, &numbers[from..]);
            prop_assert_eq!(part.stored(numbers.len() - from), rest.stored(numbers.len() - from));

            let cut = (64 * at).min(numbers.len() / 64 * 64);
            let mut first = PackedColumn::new(bits, numbers.len());
            let mut second = first.split_off(cut);
            numbers[..cut].iter().enumerate().for_each(|(at, &number)| first.set(at, number));
            numbers[cut..].iter().enumerate().for_each(|(at, &number)| second.set(at, number));
            second.truncate(numbers.len() - cut);
            prop_assert_eq!(&get(&first, cut), &numbers[..cut]);
            let joined = PackedColumn::joined(&[&first, &second]);
            prop_assert_eq!(&*joined.stored(numbers.len()), &*column.stored(numbers.len()));
        }
    }
}
