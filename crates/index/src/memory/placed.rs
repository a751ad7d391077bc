//! Arrays that lie in memory or in a file. They are filled in order, and from then on read.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;

use crate::kernel;
use crate::memory::array::Array;
use crate::memory::file::{FileArray, TemporaryFiles, TemporaryWriter, unwind};

/// Where new arrays lie.
#[derive(Debug, Clone, Default)]
pub enum Placement {
    #[default]
    Memory,
    /// In a new file each.
    Files(Arc<dyn TemporaryFiles>),
}

/// A fixed array of numbers in memory or in a file.
#[derive(Debug)]
pub(crate) enum PlacedArray<T> {
    Memory(Array<T>),
    File(FileArray<T>),
    /// In a file that is being filled.
    Filling(FillingArray<T>),
}

/// The first items of an array, which are in its file, and the next ones.
#[derive(Debug)]
pub(crate) struct FillingArray<T> {
    file: Box<dyn TemporaryWriter>,
    written: usize,
    next: Vec<T>,
}

/// The items that are written at once.
const WRITTEN_AT_ONCE: usize = 8_192;

/// The last items before the newest one that may still be filled.
const OPEN: usize = 2;

impl<T: Pod> PlacedArray<T> {
    /// An array of `len` zeros, to be filled. In memory, those that are never filled take none.
    pub(crate) fn zeros(placement: &Placement, len: usize) -> Self {
        match placement {
            Placement::Files(files) if len > 0 => {
                let file = files.create().unwrap_or_else(|error| unwind(error));
                Self::Filling(FillingArray { file, written: 0, next: Vec::new() })
            }
            Placement::Files(_) | Placement::Memory => Self::Memory(Array::zeros(len)),
        }
    }

    /// The item at a place, to be filled. In a file, places are filled in order.
    ///
    /// # Panics
    /// When there is no such place, or when it lies before others that were filled.
    #[inline]
    pub(crate) fn slot(&mut self, at: usize) -> &mut T {
        match self {
            Self::Memory(array) => &mut array[at],
            Self::Filling(filling) => filling.slot(at),
            Self::File(_) => panic!("a file is filled once"),
        }
    }

    /// Keeps the first `len` items, of which no more are filled.
    pub(crate) fn finish(&mut self, len: usize) {
        if let Self::Memory(array) = self {
            return array.truncate(len);
        }
        if let Self::Filling(filling) = std::mem::take(self) {
            let filled = filling.finish(len).unwrap_or_else(|error| unwind(error));
            *self = Self::File(filled);
        }
    }

    /// The item at a place.
    ///
    /// # Panics
    /// When there is none.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> T {
        match self {
            Self::Memory(array) => array[at],
            Self::File(file) => file.get(at),
            Self::Filling(filling) => filling.get(at),
        }
    }

    /// The items at two places; a zero for the second if there is none.
    ///
    /// # Panics
    /// When there is no first one.
    #[inline]
    pub(crate) fn two(&self, at: usize) -> [T; 2] {
        match self {
            Self::Memory(array) => {
                [array[at], array.get(at + 1).copied().unwrap_or_else(T::zeroed)]
            }
            Self::File(file) => {
                let mut two = [T::zeroed(); 2];
                let there = two.len().min(file.len() - at);
                file.read(at, &mut two[..there]);
                two
            }
            Self::Filling(filling) => [filling.get(at), filling.get(at + 1)],
        }
    }

    /// Some items: a copy, if they are in a file.
    ///
    /// # Panics
    /// When there are not so many.
    #[inline]
    pub(crate) fn range(&self, range: Range<usize>) -> Cow<'_, [T]> {
        match self {
            Self::Memory(array) => Cow::Borrowed(&array[range]),
            Self::File(file) => {
                let mut copy = vec![T::zeroed(); range.len()];
                file.read(range.start, &mut copy);
                Cow::Owned(copy)
            }
            Self::Filling(filling) => Cow::Owned(range.map(|at| filling.get(at)).collect()),
        }
    }

    /// The first of some places, in the order of a predicate, for which it is false.
    pub(crate) fn partition_point(
        &self,
        range: Range<usize>,
        is_before: impl Fn(&T) -> bool,
    ) -> usize {
        if let Self::Memory(array) = self {
            return range.start + array[range].partition_point(is_before);
        }
        let (mut low, mut high) = (range.start, range.end);
        while low < high {
            let middle = low.midpoint(high);
            if is_before(&self.get(middle)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// All items, if they are in memory; else none.
    #[inline]
    pub(crate) fn in_memory(&self) -> &[T] {
        match self {
            Self::Memory(array) => array,
            Self::File(_) | Self::Filling(_) => &[],
        }
    }

    /// The file that has them, if they are in one.
    #[inline]
    pub(crate) fn file(&self) -> Option<&FileArray<T>> {
        match self {
            Self::File(file) => Some(file),
            Self::Memory(_) | Self::Filling(_) => None,
        }
    }

    /// Prefetches an item, if there is one, and the next one.
    #[inline]
    pub(crate) fn prefetch(&self, at: usize) {
        match self {
            Self::Memory(array) => kernel::prefetch(array, at as u32),
            Self::File(file) => file.will_need(at..at + 2),
            Self::Filling(_) => {}
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Memory(array) => array.len(),
            Self::File(file) => file.len(),
            Self::Filling(filling) => filling.written + filling.next.len(),
        }
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(self.in_memory())
    }

    /// The bytes in a file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file().map_or(0, FileArray::bytes)
    }

    /// Whether it is in a temporary file.
    pub(crate) fn is_temporary(&self) -> bool {
        self.file().is_some_and(FileArray::is_temporary)
    }

    /// A part of it, which shares its memory if it is large; in memory, both are read-only from
    /// then on.
    pub(crate) fn share(&self, range: Range<usize>) -> Self {
        match self {
            Self::Memory(array) => Self::Memory(array.share(range)),
            Self::File(file) => Self::File(file.part(&range)),
            Self::Filling(_) => panic!("what is being filled is not shared"),
        }
    }

    /// Cuts it into two ([`Array::split_off`]).
    ///
    /// # Panics
    /// When it is not in memory.
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        match self {
            Self::Memory(array) => Self::Memory(array.split_off(at)),
            Self::File(_) | Self::Filling(_) => panic!("only memory is cut"),
        }
    }

    /// Joins arrays ([`Array::joined`]).
    ///
    /// # Panics
    /// When one is not in memory.
    pub(crate) fn joined(parts: &[&Self]) -> Self {
        let in_memory = parts.iter().map(|part| match part {
            Self::Memory(array) => array,
            Self::File(_) | Self::Filling(_) => panic!("only memory is joined"),
        });
        Self::Memory(Array::joined(&in_memory.collect::<Vec<_>>()))
    }

    /// Writes the first `len` items.
    ///
    /// # Errors
    /// Those of the sink.
    pub(crate) fn write(&self, len: usize, sink: &mut dyn Write) -> io::Result<()> {
        for start in (0..len).step_by(WRITTEN_AT_ONCE) {
            let items = self.range(start..len.min(start + WRITTEN_AT_ONCE));
            sink.write_all(bytemuck::cast_slice(&items))?;
        }
        Ok(())
    }
}

impl<T: Pod> Default for PlacedArray<T> {
    fn default() -> Self {
        Self::Memory(Array::default())
    }
}

impl<T: Pod> From<Array<T>> for PlacedArray<T> {
    fn from(array: Array<T>) -> Self {
        Self::Memory(array)
    }
}

impl<T: Pod> FillingArray<T> {
    fn slot(&mut self, at: usize) -> &mut T {
        assert!(at >= self.written, "a file is filled in order");
        self.fill_up_to(at + 1).unwrap_or_else(|error| unwind(error));
        &mut self.next[at - self.written]
    }

    /// Adds zeros until there are so many items, and writes those that are no longer filled.
    fn fill_up_to(&mut self, len: usize) -> io::Result<()> {
        while self.written + self.next.len() < len {
            let wanted = (len - self.written).min(WRITTEN_AT_ONCE + OPEN + 1);
            self.next.resize(wanted.max(self.next.len() + 1), T::zeroed());
            if self.next.len() > WRITTEN_AT_ONCE + OPEN {
                self.write(self.next.len() - OPEN)?;
            }
        }
        Ok(())
    }

    /// An item that may still be filled.
    fn get(&self, at: usize) -> T {
        let place = at.checked_sub(self.written).expect("it is not in the file yet");
        self.next.get(place).copied().unwrap_or_else(T::zeroed)
    }

    fn finish(mut self, len: usize) -> io::Result<FileArray<T>> {
        self.fill_up_to(len)?;
        self.next.truncate(len.checked_sub(self.written).expect("no more are filled"));
        self.write(self.next.len())?;
        Ok(FileArray::new(self.file.into_body()?, 0, len))
    }

    /// Writes the first of the next items.
    fn write(&mut self, count: usize) -> io::Result<()> {
        self.file.write_all(bytemuck::cast_slice(&self.next[..count]))?;
        self.next.drain(..count);
        self.written += count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memory::file::tests::FilesInMemory;

    proptest! {
        /// In memory and in a file, filled with gaps, each item twice.
        #[test]
        fn what_is_filled_is_read(
            gaps in prop::collection::vec(
                prop_oneof![8 => 1..3_usize, 2 => Just(WRITTEN_AT_ONCE), 1 => Just(50_000_usize)], 0..40),
            behind in prop_oneof![4 => 0..3_usize, 1 => Just(20_000_usize)],
            from in any::<prop::sample::Index>(),
        ) {
            let places: Vec<usize> = gaps
                .iter()
                .scan(0, |at, gap| {
                    *at += gap;
                    Some(*at)
                })
                .collect();
            let len = places.last().map_or(0, |last| last + 1) + behind;
            let mut expected = vec![0_u64; len];
            let files = Placement::Files(Arc::new(FilesInMemory::default()));
            let mut arrays = [Placement::Memory, files].map(|at| PlacedArray::<u64>::zeros(&at, len));
            for &place in &places {
                expected[place] = 3 * place as u64;
                for array in &mut arrays {
                    *array.slot(place) += place as u64;
                    *array.slot(place) += 2 * place as u64;
                }
            }
            for array in &mut arrays {
                array.finish(len);
            }
            prop_assert!(arrays[0].file().is_none() && (len == 0 || arrays[1].file().is_some()));
            for array in &arrays {
                prop_assert_eq!(array.len(), len);
                prop_assert_eq!(array.bytes() as u64 + array.file_bytes(), 8 * len as u64);
                let mut written = Vec::new();
                array.write(len, &mut written).unwrap();
                prop_assert_eq!(&written[..], bytemuck::cast_slice::<u64, u8>(&expected));
                for (at, &item) in expected.iter().enumerate().step_by(97) {
                    array.prefetch(at);
                    let next = expected.get(at + 1).copied().unwrap_or_default();
                    prop_assert_eq!((array.get(at), array.two(at)), (item, [item, next]));
                }
                if len > 0 {
                    let from = from.index(len);
                    prop_assert_eq!(&*array.range(from..len), &expected[from..]);
                    let part = array.share(from..len);
                    prop_assert_eq!(&*part.range(0..len - from), &expected[from..]);
                    // The predicate is in order before the first item that was filled.
                    let zeros = expected.iter().take_while(|&&item| item == 0).count();
                    let first = array.partition_point(0..zeros, |_| false);
                    prop_assert_eq!(first, 0);
                    prop_assert_eq!(array.partition_point(0..zeros, |&item| item == 0), zeros);
                }
            }
        }
    }
}
