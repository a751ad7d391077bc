//! Fixed arrays for tables: large ones on 2 MiB pages.
//!
//! A look-up touches dozens of random lines; on 4 KiB pages each of them also misses the TLB, which
//! costs as much again (more in a virtual machine). So large arrays are anonymous mappings with the
//! advice to use huge pages. Smaller ones are the allocator's, which keeps their pages for the next
//! small segment: their own mappings were a third of all page faults while millions were inserted.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use memmap2::{Advice, MmapMut};

/// From this size on an array has huge pages of its own.
pub const PAGES_FROM_BYTES: usize = 2 * HUGE_PAGE_BYTES;

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
    /// An array of `count` zeros. Without memory for it the process ends, as with any allocation: a
    /// thread that ended alone would leave others waiting.
    pub fn zeros(count: usize) -> Self {
        Self::try_zeros(count)
            .unwrap_or_else(|| Self(Memory::Heap(vec![T::zeroed(); count].into())))
    }

    /// An array of `count` zeros, if there is memory for it; what is not written takes none.
    pub fn try_zeros(count: usize) -> Option<Self> {
        let bytes = count.checked_mul(size_of::<T>())?;
        if bytes < PAGES_FROM_BYTES {
            return Some(Self(Memory::Heap(vec![T::zeroed(); count].into())));
        }
        let map = MmapMut::map_anon(bytes.next_multiple_of(HUGE_PAGE_BYTES)).ok()?;
        // Without huge pages it is slower and just as right.
        let _advised: std::io::Result<()> = map.advise(Advice::HugePage);
        Some(Self(Memory::Pages { map, bytes, of: PhantomData }))
    }

    /// A copy of a slice.
    pub fn copied(from: &[T]) -> Self {
        let mut array = Self::zeros(from.len());
        array.copy_from_slice(from);
        array
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
}
