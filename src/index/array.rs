//! Fixed arrays for tables: large ones on 2 MiB pages.
//!
//! A look-up touches dozens of random lines; on 4 KiB pages each of them also misses the TLB, which
//! costs as much again (more in a virtual machine). So large arrays are anonymous mappings with the
//! advice to use huge pages. From [`PAGES_FROM_BYTES`] on, arrays are mappings of their own: they go
//! back to the operating system when dropped, where the allocator would keep them (measured: 10
//! bytes a fingerprint after ten million inserts).

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use memmap2::{Advice, MmapMut};

/// From this size on an array has pages of its own.
pub const PAGES_FROM_BYTES: usize = 128 << 10;

/// From this size on these are huge pages.
const HUGE_FROM_BYTES: usize = 2 * HUGE_PAGE_BYTES;

/// Mappings are multiples of it, since Linux aligns only those to huge pages.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A fixed array of numbers.
#[derive(Debug)]
pub struct Array<T>(Memory<T>);

#[derive(Debug)]
enum Memory<T> {
    Heap(Box<[T]>),
    Pages { map: MmapMut, bytes: usize, of: PhantomData<T> },
}

impl<T: Pod> Array<T> {
    /// An array of `count` zeros.
    ///
    /// # Panics
    /// When there is no memory for it.
    pub fn zeros(count: usize) -> Self {
        Self::try_zeros(count).expect("there is memory")
    }

    /// An array of `count` zeros, if there is memory for it; what is not written takes none.
    pub fn try_zeros(count: usize) -> Option<Self> {
        let bytes = count.checked_mul(size_of::<T>())?;
        let huge = bytes >= HUGE_FROM_BYTES;
        let mapped = if huge { bytes.next_multiple_of(HUGE_PAGE_BYTES) } else { bytes };
        if bytes >= PAGES_FROM_BYTES {
            let map = MmapMut::map_anon(mapped).ok()?;
            if huge {
                // Without huge pages it is slower and just as right.
                let _advised: std::io::Result<()> = map.advise(Advice::HugePage);
            }
            return Some(Self(Memory::Pages { map, bytes, of: PhantomData }));
        }
        Some(Self(Memory::Heap(vec![T::zeroed(); count].into())))
    }

    /// A copy of a slice.
    pub fn copied(from: &[T]) -> Self {
        let mut array = Self::zeros(from.len());
        array.copy_from_slice(from);
        array
    }

    /// Keeps the first `count` items. The pages behind them were never touched, or stay.
    fn truncated(self, count: usize) -> Self {
        Self(match self.0 {
            Memory::Heap(heap) => {
                let mut heap = heap.into_vec();
                heap.truncate(count);
                Memory::Heap(heap.into())
            }
            Memory::Pages { map, bytes, of } => {
                Memory::Pages { map, bytes: bytes.min(count * size_of::<T>()), of }
            }
        })
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(&**self)
    }
}

impl<T: Pod> Default for Array<T> {
    fn default() -> Self {
        Self::zeros(0)
    }
}

impl<T: Pod> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Memory::Heap(heap) => heap,
            Memory::Pages { map, bytes, .. } => bytemuck::cast_slice(&map[..*bytes]),
        }
    }
}

impl<T: Pod> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Memory::Heap(heap) => heap,
            Memory::Pages { map, bytes, .. } => bytemuck::cast_slice_mut(&mut map[..*bytes]),
        }
    }
}

/// An array that is being filled. Unlike a vector's, its memory is never the allocator's to keep.
#[derive(Debug)]
pub struct Filling<T> {
    array: Array<T>,
    len: usize,
}

impl<T: Pod> Filling<T> {
    /// With room for `count`, which costs nothing until it is used.
    pub fn with_capacity(count: usize) -> Self {
        Self { array: Array::zeros(count), len: 0 }
    }

    /// Appends an item.
    pub fn push(&mut self, item: T) {
        if self.len == self.array.len() {
            let mut larger = Array::zeros((2 * self.len).max(64));
            larger[..self.len].copy_from_slice(&self.array);
            self.array = larger;
        }
        self.array[self.len] = item;
        self.len += 1;
    }

    /// What it was filled with.
    pub fn finish(self) -> Array<T> {
        self.array.truncated(self.len)
    }
}

impl<T: Pod> Default for Filling<T> {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}

impl<T: Pod> Deref for Filling<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.array[..self.len]
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_array_is_what_it_was_filled_with() {
        for (capacity, count) in [(0, 0), (0, 200), (100, 7), (1_000_000, 900_000), (9, 900_000)] {
            let mut filling = Filling::with_capacity(capacity);
            (0..count).for_each(|item: u64| filling.push(item));
            assert!(filling.iter().copied().eq(0..count));
            assert!(filling.finish().iter().copied().eq(0..count));
        }
    }

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
}
