//! Columns: numbers of equal width, packed side by side.

use std::io::{self, Write};
use std::ops::Range;

use crate::memory::placed::{PlacedArray, Placement};

/// Places for numbers of equal width, 0 to 64 bits; each is 0 until it is set.
#[derive(Debug)]
pub(crate) struct PackedColumn {
    bits: u32,
    words: PlacedArray<u64>,
    /// The bit of the first word at which the first number begins: not 0 in a part of another
    /// column.
    first_bit: usize,
}

impl PackedColumn {
    /// `len` places of `bits` bits in memory.
    pub(crate) fn new(bits: u32, len: usize) -> Self {
        Self::placed(&Placement::Memory, bits, len)
    }

    /// `len` places of `bits` bits. In memory, places that are never set take none if there are
    /// many; in a file, they are set in order.
    pub(crate) fn placed(placement: &Placement, bits: u32, len: usize) -> Self {
        let words = Self::words_for(bits, len);
        Self::of_words(bits, PlacedArray::zeros(placement, words))
    }

    /// The column of these words, which are those of [`Self::stored`].
    pub(crate) fn of_words(bits: u32, words: impl Into<PlacedArray<u64>>) -> Self {
        Self { bits, words: words.into(), first_bit: 0 }
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

    /// The bytes in a file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.words.file_bytes()
    }

    /// The number of words.
    pub(crate) fn words(&self) -> usize {
        self.words.len()
    }

    /// Writes the words of the first `len` numbers, as an image has them.
    ///
    /// # Errors
    /// Those of the sink.
    pub(crate) fn write(&self, len: usize, sink: &mut dyn Write) -> io::Result<()> {
        let words = Self::words_for(self.bits, len);
        if self.first_bit == 0 && self.words.len() >= words {
            return self.words.write(words, sink);
        }
        let mut packed = Self::new(self.bits, len);
        (0..len).for_each(|at| packed.set(at, self.get(at)));
        packed.words.write(words, sink)
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
        self.words.finish(words);
    }

    /// Joins columns of one width that [`Self::split_off`] cut, without copying if they are large.
    pub(crate) fn joined(parts: &[&Self]) -> Self {
        let bits = parts.first().map_or(0, |part| part.bits);
        let words: Vec<_> = parts.iter().map(|part| &part.words).collect();
        Self::of_words(bits, PlacedArray::joined(&words))
    }

    /// Sets the number at a place that was not set.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, number: u64) {
        if self.bits == 0 {
            return;
        }
        let bit = index * self.bits as usize;
        let two = u128::from(number) << (bit % 64);
        if let PlacedArray::Memory(words) = &mut self.words {
            words[bit / 64] |= two as u64;
            if let Some(next) = words.get_mut(bit / 64 + 1) {
                *next |= (two >> 64) as u64;
            }
        } else {
            *self.words.slot(bit / 64) |= two as u64;
            *self.words.slot(bit / 64 + 1) |= (two >> 64) as u64;
        }
    }

    /// The number at a place.
    ///
    /// # Panics
    /// When there is no such place.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> u64 {
        let bit = self.first_bit + index * self.bits as usize;
        number(self.bits, bit, |word| self.words.two(word))
    }

    /// [`Self::get`] of a column in memory, for a loop: whether it is in memory is asked once, not
    /// for each number.
    ///
    /// # Panics
    /// When there is no such place, or the column is in a file.
    #[inline]
    pub(crate) fn get_in_memory(&self) -> impl Fn(usize) -> u64 {
        let (bits, words, first_bit) = (self.bits, self.words.in_memory(), self.first_bit);
        let two = |word| [words[word], words.get(word + 1).copied().unwrap_or_default()];
        move |index| number(bits, first_bit + index * bits as usize, two)
    }

    /// Prefetches the number at a place.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        let bit = self.first_bit + index * self.bits as usize;
        self.words.prefetch(bit / 64);
    }
}

/// The number of `bits` bits that begins at a bit. `two` returns a word and the next one.
#[inline]
fn number(bits: u32, bit: usize, two: impl FnOnce(usize) -> [u64; 2]) -> u64 {
    if bits == 0 {
        return 0;
    }
    let [word, next] = two(bit / 64);
    let two = u128::from(word) | u128::from(next) << 64;
    (two >> (bit % 64)) as u64 & (u64::MAX >> (64 - bits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::sync::Arc;

    use super::*;
    use crate::memory::file::tests::FilesInMemory;

    impl PackedColumn {
        /// The words of the first `len` numbers, as an image has them.
        pub(crate) fn stored(&self, len: usize) -> Vec<u64> {
            let mut bytes = Vec::new();
            self.write(len, &mut bytes).unwrap();
            bytes.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
        }

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
            let in_memory = |column: &PackedColumn, len| {
                (0..len).map(column.get_in_memory()).collect::<Vec<_>>()
            };
            prop_assert_eq!(&in_memory(&column, numbers.len()), &numbers);
            let from = from.index(numbers.len());
            let part = column.part(&(from as u32..numbers.len() as u32));
            prop_assert_eq!(&get(&part, numbers.len() - from), &numbers[from..]);
            prop_assert_eq!(&in_memory(&part, numbers.len() - from), &numbers[from..]);

            let rest = PackedColumn::of(bits, &numbers[from..]);
            prop_assert_eq!(part.stored(numbers.len() - from), rest.stored(numbers.len() - from));
            let files = Placement::Files(Arc::new(FilesInMemory::default()));
            let mut in_file = PackedColumn::placed(&files, bits, numbers.len());
            numbers[..from].iter().enumerate().for_each(|(at, &number)| in_file.set(at, number));
            in_file.truncate(from);
            prop_assert_eq!(in_file.file_bytes(), 8 * in_file.words() as u64);
            prop_assert_eq!(&get(&in_file, from), &numbers[..from]);
            let halved = in_file.part(&(from as u32 / 2..from as u32));
            prop_assert_eq!(&get(&halved, from - from / 2), &numbers[from / 2..from]);
            prop_assert_eq!(in_file.stored(from), PackedColumn::of(bits, &numbers[..from]).stored(from));

            let cut = (64 * at).min(numbers.len() / 64 * 64);
            let mut first = PackedColumn::new(bits, numbers.len());
            let mut second = first.split_off(cut);
            numbers[..cut].iter().enumerate().for_each(|(at, &number)| first.set(at, number));
            numbers[cut..].iter().enumerate().for_each(|(at, &number)| second.set(at, number));
            second.truncate(numbers.len() - cut);
            prop_assert_eq!(&get(&first, cut), &numbers[..cut]);
            let joined = PackedColumn::joined(&[&first, &second]);
            prop_assert_eq!(joined.stored(numbers.len()), column.stored(numbers.len()));
        }
    }
}
