//! Fixed arrays for tables: large ones on 2 MiB pages.
//!
//! A look-up touches dozens of random lines. On 4 KiB pages each of them also misses the TLB, which
//! doubles its cost (more in a virtual machine). So large arrays are mappings of their own
//! ([`crate::memory::pages`]) that ask for huge pages. Smaller arrays come from the
//! allocator, which keeps their pages for the next small segment: with a mapping for each, they
//! caused a third of all page faults while millions of documents were inserted.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};

use bytemuck::Pod;

use crate::memory::pages::{HUGE_PAGE_BYTES, PagePart};

/// Arrays of at least this size have huge pages of their own.
pub(crate) const PAGES_FROM_BYTES: usize = 2 * HUGE_PAGE_BYTES;

/// A fixed array of numbers.
#[derive(Debug)]
pub struct Array<T>(Memory<T>);

#[derive(Debug)]
enum Memory<T> {
    Heap(Box<[T]>),
    Pages(PagePart, PhantomData<T>),
}

impl<T: Pod> Array<T> {
    /// An array of `count` zeros. If there is no memory for it the process aborts, as with any
    /// allocation: if only one thread ended, others would wait for it.
    pub fn zeros(count: usize) -> Self {
        Self::try_zeros(count).unwrap_or_else(|| Self::on_heap(count))
    }

    /// An array of `count` zeros, if there is memory for it. Pages that are never written take no
    /// memory.
    pub(crate) fn try_zeros(count: usize) -> Option<Self> {
        let bytes = count.checked_mul(size_of::<T>())?;
        if bytes < PAGES_FROM_BYTES {
            return Some(Self::on_heap(count));
        }
        Some(Self(Memory::Pages(PagePart::zeros(bytes).ok()?, PhantomData)))
    }

    /// Cuts the array into two. Large ones are adjacent, so that [`Self::joined`] makes one of them
    /// again without copying.
    ///
    /// # Panics
    /// When it is shorter, or was shared.
    #[must_use]
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        match &mut self.0 {
            Memory::Heap(heap) => {
                let mut first = std::mem::take(heap).into_vec();
                let rest = first.split_off(at);
                *heap = first.into();
                Self(Memory::Heap(rest.into()))
            }
            Memory::Pages(part, _) => {
                Self(Memory::Pages(part.split_off(at * size_of::<T>()), PhantomData))
            }
        }
    }

    /// Keeps the first `len` items.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len < self.len() {
            drop(self.split_off(len));
        }
    }

    /// A part of the array, which shares its memory if the array is large. From then on both are
    /// read-only, and memory that neither covers goes back to the system.
    #[must_use]
    pub(crate) fn share(&self, range: Range<usize>) -> Self {
        match &self.0 {
            Memory::Heap(heap) => Self(Memory::Heap(heap[range].into())),
            Memory::Pages(part, _) => {
                let bytes = range.start * size_of::<T>()..range.end * size_of::<T>();
                Self(Memory::Pages(part.share(bytes), PhantomData))
            }
        }
    }

    /// Joins arrays. Those that [`Self::split_off`] cut from one are shared, others are
    /// copied.
    pub(crate) fn joined(parts: &[&Self]) -> Self {
        let pages = parts.iter().map(|part| match &part.0 {
            Memory::Heap(_) => None,
            Memory::Pages(part, _) => Some(part),
        });
        let joined =
            pages.collect::<Option<Vec<&PagePart>>>().and_then(|parts| PagePart::joined(&parts));
        joined.map_or_else(
            || {
                Self::copied(
                    &parts.iter().flat_map(|part| part.iter().copied()).collect::<Vec<T>>(),
                )
            },
            |part| Self(Memory::Pages(part, PhantomData)),
        )
    }

    /// A copy of a slice.
    pub(crate) fn copied(from: &[T]) -> Self {
        let mut array = Self::zeros(from.len());
        array.copy_from_slice(from);
        array
    }

    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&**self)
    }

    fn on_heap(count: usize) -> Self {
        Self(Memory::Heap(vec![T::zeroed(); count].into()))
    }
}

impl<T: Pod> Default for Array<T> {
    fn default() -> Self {
        Self::zeros(0)
    }
}

impl<T: Pod> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.0 {
            Memory::Heap(heap) => heap,
            Memory::Pages(part, _) => bytemuck::cast_slice(part.bytes()),
        }
    }
}

impl<T: Pod> DerefMut for Array<T> {
    /// # Panics
    /// When it was shared.
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Memory::Heap(heap) => heap,
            Memory::Pages(part, _) => bytemuck::cast_slice_mut(part.bytes_mut()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_arrays_hold_what_is_put_into_them() {
        for count in [0, 1, 1_000, PAGES_FROM_BYTES / 8, PAGES_FROM_BYTES / 6 + 7] {
            let mut array = Array::<[u8; 6]>::zeros(count);
            assert_eq!(array.len(), count);
            assert!(array.iter().all(|item| *item == [0; 6]));
            if let Some(last) = array.last_mut() {
                *last = [1, 2, 3, 4, 5, 6];
            }
            assert_eq!(*Array::copied(&array), *array);
            assert_eq!(array.bytes(), count * 6);
        }
    }

    #[test]
    fn parts_are_joined_and_shared_whatever_their_size() {
        for scale in [0, 1, 1_000, PAGES_FROM_BYTES / 8] {
            let counts = [scale, 0, 2 * scale + 1, 3];
            let mut rest = Array::<u64>::zeros(counts.iter().sum());
            let mut parts: Vec<Array<u64>> = Vec::new();
            for count in counts {
                let behind = rest.split_off(count);
                parts.push(std::mem::replace(&mut rest, behind));
            }
            assert!(rest.is_empty());
            for (part, number) in parts.iter_mut().zip(1..) {
                part.fill(number);
            }
            let joined = Array::joined(&parts.iter().collect::<Vec<_>>());
            drop(parts);
            let expected =
                counts.iter().zip(1..).flat_map(|(&count, n)| std::iter::repeat_n(n, count));
            assert!(joined.iter().copied().eq(expected));
            let part = joined.share(scale..joined.len() - 2);
            drop(joined);
            assert_eq!((part.len(), part[0], part[part.len() - 1]), (2 * scale + 2, 3, 4));
        }
    }
}
