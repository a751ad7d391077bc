//! Pages: zeroed memory from the system that can be freed in parts.
//!
//! An allocator frees an array only as a whole. A merge that works its way through arrays of
//! gigabytes needs to free the part that it is done with, and its result has to be contiguous in
//! the end. So a *region* of memory is mapped once and covered by any number of *parts*; pages that
//! no part covers any more go back to the system. Parts that are only read may overlap.
//!
//! This is the only module with `unsafe` apart from the kernel, for three operations: a part lends
//! its bytes as a slice, the one owner of a part lends them mutably, and pages without a part are
//! freed. One rule makes all three sound, and [`PagePart`] keeps it: bytes that are written belong
//! to one part.
//!
//! Without pages of 2 MiB (decision 24): a look-up at rest among 10 million fingerprints takes
//! 2.3 us instead of 1.2.
#![expect(unsafe_code, reason = "parts of a mapping are lent; every block says why it is sound")]

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use memmap2::{Advice, MmapMut, MmapRaw, UncheckedAdvice};

/// Mappings are multiples of this size, since Linux aligns only those to huge pages; only whole
/// huge pages are freed.
pub(crate) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A part of a region of memory.
#[derive(Debug)]
pub(crate) struct PagePart {
    region: Arc<Region>,
    /// In bytes from the region's start.
    range: Range<usize>,
    /// Set once another part may overlap this one, which is read-only from then on.
    shared: AtomicBool,
}

#[derive(Debug)]
struct Region {
    map: MmapRaw,
    parts: Mutex<Vec<Range<usize>>>,
}

impl PagePart {
    /// A new region of this many zeros, covered by one writable part. Pages that are never written
    /// take no memory.
    ///
    /// # Errors
    /// Those of the system, which may lack the memory.
    pub(crate) fn zeros(bytes: usize) -> io::Result<Self> {
        let map = MmapMut::map_anon(bytes.next_multiple_of(HUGE_PAGE_BYTES))?;
        // Without huge pages the memory is slower but works the same.
        let _advised: io::Result<()> = map.advise(Advice::HugePage);
        let region = Region { map: map.into(), parts: Mutex::new(Vec::new()) };
        Ok(Self::of(Arc::new(region), 0..bytes, false))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        let start = self.region.map.as_ptr().wrapping_add(self.range.start);
        // SAFETY: the range lies in the mapping, which the region keeps, and which began as zeros.
        // Its pages are not given back while this part is among the region's. Nobody writes to them
        // meanwhile: a part that may overlap others is never written to, and the one owner of any
        // other has lent this slice.
        unsafe { std::slice::from_raw_parts(start, self.range.len()) }
    }

    /// Its bytes, writable.
    ///
    /// # Panics
    /// When it was shared.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(!*self.shared.get_mut(), "what others read is not written");
        let start = self.region.map.as_mut_ptr().wrapping_add(self.range.start);
        // SAFETY: as above; and it was never shared, so that no other part has a byte of it.
        unsafe { std::slice::from_raw_parts_mut(start, self.range.len()) }
    }

    /// Cuts a part that was not shared into two.
    ///
    /// # Panics
    /// When it was shared, or is shorter.
    #[must_use]
    pub(crate) fn split_off(&mut self, at: usize) -> Self {
        assert!(!*self.shared.get_mut() && at <= self.range.len(), "a part is cut by its owner");
        let middle = self.range.start + at;
        let rest = Self::of(Arc::clone(&self.region), middle..self.range.end, false);
        let whole = self.range.clone();
        self.range.end = middle;
        self.region.replace(&whole, self.range.clone());
        rest
    }

    /// A part of this part. From then on both are read-only.
    ///
    /// # Panics
    /// When it is shorter.
    #[must_use]
    pub(crate) fn share(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.range.len(), "a part lies within");
        self.shared.store(true, Ordering::Release);
        let range = self.range.start + range.start..self.range.start + range.end;
        Self::of(Arc::clone(&self.region), range, true)
    }

    /// Joins adjacent parts of one region; all are read-only from then on. `None` if they are not
    /// adjacent.
    pub(crate) fn joined(parts: &[&Self]) -> Option<Self> {
        let (first, last) = (parts.first()?, parts.last()?);
        let follows = |two: &[&Self]| {
            Arc::ptr_eq(&two[0].region, &two[1].region) && two[0].range.end == two[1].range.start
        };
        if !parts.windows(2).all(follows) {
            return None;
        }
        for part in parts {
            part.shared.store(true, Ordering::Release);
        }
        Some(Self::of(Arc::clone(&first.region), first.range.start..last.range.end, true))
    }

    fn of(region: Arc<Region>, range: Range<usize>, shared: bool) -> Self {
        region.parts().push(range.clone());
        Self { region, range, shared: AtomicBool::new(shared) }
    }
}

impl Drop for PagePart {
    fn drop(&mut self) {
        let mut parts = self.region.parts();
        let at = parts.iter().position(|range| *range == self.range);
        parts.swap_remove(at.expect("a part is among its region's"));
        if parts.is_empty() {
            // The whole mapping is about to be unmapped.
            return;
        }
        for gap in gaps(self.range.clone(), &parts) {
            let start = gap.start.next_multiple_of(HUGE_PAGE_BYTES);
            let end = gap.end / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
            if start < end {
                // SAFETY: no part has a byte of these pages, and none will: parts are made of
                // parts, and the list of them is locked. So nobody reads what becomes zeros.
                // Where the system refuses, they stay until the whole goes.
                let _given_back: io::Result<()> = unsafe {
                    self.region.map.unchecked_advise_range(
                        UncheckedAdvice::DontNeed,
                        start,
                        end - start,
                    )
                };
            }
        }
    }
}

impl Region {
    fn parts(&self) -> MutexGuard<'_, Vec<Range<usize>>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replace(&self, part: &Range<usize>, by: Range<usize>) {
        let mut parts = self.parts();
        let at = parts.iter().position(|range| range == part);
        parts[at.expect("a part is among its region's")] = by;
    }
}

/// The parts of one range that are in none of the others.
fn gaps(of: Range<usize>, ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    ranges.iter().fold(vec![of], |gaps, range| {
        let around = |gap: Range<usize>| {
            let before = gap.start..gap.end.min(range.start);
            let behind = gap.start.max(range.end)..gap.end;
            [before, behind].into_iter().filter(|gap| gap.start < gap.end)
        };
        gaps.into_iter().flat_map(around).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BYTES: usize = 4 * HUGE_PAGE_BYTES;

    fn filled() -> PagePart {
        let mut part = PagePart::zeros(BYTES).unwrap();
        part.bytes_mut().fill(7);
        part
    }

    /// Reads the region's memory without a part.
    fn of_region(region: &Region, at: usize) -> u8 {
        let byte = region.map.as_ptr().wrapping_add(at);
        // SAFETY: it lies in the mapping, and nothing writes to it.
        unsafe { byte.read_volatile() }
    }

    #[test]
    fn pages_go_back_when_no_part_has_them() {
        let whole = filled();
        let region = Arc::clone(&whole.region);
        let front = whole.share(0..BYTES / 2 + 5);
        let back = whole.share(BYTES / 2..BYTES);
        drop(whole);
        assert!(front.bytes().iter().chain(back.bytes()).all(|&byte| byte == 7));
        drop(front);
        assert!(back.bytes().iter().all(|&byte| byte == 7));
        assert_eq!((of_region(&region, 0), of_region(&region, BYTES / 2 - 1)), (0, 0));
        let last = back.share(BYTES / 2 - 9..BYTES / 2);
        drop(back);
        assert_eq!((last.bytes(), of_region(&region, BYTES / 2)), (&[7; 9][..], 0));
    }

    #[test]
    fn parts_that_follow_each_other_are_joined_and_others_are_not() {
        let mut first = PagePart::zeros(BYTES).unwrap();
        let mut second = first.split_off(100);
        first.bytes_mut().fill(1);
        second.bytes_mut()[..100].fill(2);
        let both = PagePart::joined(&[&first, &second]).unwrap();
        assert!(PagePart::joined(&[&second, &first]).is_none());
        assert!(PagePart::joined(&[&first, &filled()]).is_none());
        drop((first, second));
        assert_eq!(both.bytes()[99..101], [1, 2]);
        assert_eq!(both.bytes().len(), BYTES);
    }

    #[test]
    #[should_panic(expected = "what others read is not written")]
    fn what_was_shared_is_not_written() {
        let mut part = PagePart::zeros(10).unwrap();
        let _other = part.share(0..0);
        part.bytes_mut();
    }

    #[test]
    #[should_panic(expected = "what others read is not written")]
    fn what_was_joined_is_not_written() {
        let mut first = PagePart::zeros(10).unwrap();
        let second = first.split_off(5);
        let _both = PagePart::joined(&[&first, &second]).unwrap();
        first.bytes_mut();
    }

    #[test]
    #[should_panic(expected = "a part is cut by its owner")]
    fn what_was_shared_is_not_cut() {
        let mut part = PagePart::zeros(10).unwrap();
        let _other = part.share(0..1);
        let _rest = part.split_off(5);
    }

    proptest! {
        #[test]
        fn gaps_are_what_is_in_none_of_the_ranges(
            of in (0..30_usize, 0..30_usize),
            ranges in prop::collection::vec((0..30_usize, 0..30_usize), 0..5),
        ) {
            let range = |(start, length)| start..start + length;
            let ranges: Vec<_> = ranges.into_iter().map(range).collect();
            let left: Vec<usize> = range(of).filter(|at| !ranges.iter().any(|r| r.contains(at))).collect();
            let mut found: Vec<usize> = gaps(range(of), &ranges).into_iter().flatten().collect();
            found.sort_unstable();
            prop_assert_eq!(found, left);
        }
    }
}
