//! Sealed files in pages, read at any place.
//!
//! A page is verified whenever it is read from the file, and each thread keeps the last few that it
//! has verified: neighbours are often read one after the other. Everything else is left to the page
//! cache of the operating system, which shares the memory that nobody needs among all files, within
//! the limits of a container. Whoever knows what it will read says so in advance
//! ([`SealedPages::will_need`]): then the disk reads many pages at once, and a look-up waits about
//! as long as for one.
//!
//! Memory: 128 KiB for each thread that reads.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::DiskFile;
use crate::error::{Damage, StorageError};
use crate::header::Seed;
use crate::sealed::damaged;
use crate::sealed::layout::{BodyLayout, PAGE_BODY_BYTES, PAGE_BYTES, verified};

/// The body of a sealed file in pages.
pub struct SealedPages {
    name: String,
    file: Box<dyn DiskFile>,
    /// Of the pages.
    seed: Seed,
    body_bytes: u64,
    /// Its number among all that this process has opened.
    number: u64,
}

impl SealedPages {
    pub(crate) fn of(name: String, file: Box<dyn DiskFile>, seed: Seed, body_bytes: u64) -> Self {
        static OPENED: AtomicU64 = AtomicU64::new(1);
        Self { name, file, seed, body_bytes, number: OPENED.fetch_add(1, Ordering::Relaxed) }
    }

    /// The length of the body.
    pub fn body_bytes(&self) -> u64 {
        self.body_bytes
    }

    /// Reads bytes of the body from `offset` on.
    ///
    /// # Errors
    /// [`StorageError::DamagedSealed`], also beyond the end of the body; [`StorageError::Io`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let (mut offset, mut left) = (offset, into);
        while !left.is_empty() {
            let (page, skipped) = place(offset);
            let read = LAST_READ.with_borrow_mut(|sets| {
                let body = self.page(page, sets)?.get(skipped..).unwrap_or_default();
                let read = body.len().min(left.len());
                let (to, from) = (left.get_mut(..read), body.get(..read));
                if let (Some(to), Some(from)) = (to, from) {
                    to.copy_from_slice(from);
                }
                Ok(read)
            });
            match read? {
                0 => return Err(damaged(&self.name, offset_of(page), Damage::Block)),
                read => {
                    offset += read as u64;
                    left = left.get_mut(read..).unwrap_or_default();
                }
            }
        }
        Ok(())
    }

    /// Says that these bytes of the body will be read soon.
    pub fn will_need(&self, bytes: Range<u64>) {
        if bytes.start >= bytes.end {
            return;
        }
        let ((first, _), (last, _)) = (place(bytes.start), place(bytes.end - 1));
        // Neighbours that are asked for one after the other share pages.
        if first != last || !LAST_READ.with_borrow(|sets| self.is_kept(first, sets)) {
            self.file.will_need(offset_of(first), (last + 1 - first) * PAGE_BYTES as u64);
        }
    }

    /// The set of a page.
    fn set_of(&self, page: u64) -> usize {
        (page ^ self.number.wrapping_mul(7)) as usize % SETS
    }

    /// Whether this thread has a page.
    fn is_kept(&self, page: u64, sets: &[KeptPages]) -> bool {
        let set = sets.get(self.set_of(page));
        set.is_some_and(|set| set.iter().any(|kept| kept.key == (self.number, page)))
    }

    /// The body of a page.
    fn page<'p>(&self, page: u64, sets: &'p mut [KeptPages]) -> Result<&'p [u8], StorageError> {
        let key = (self.number, page);
        let set = sets.get_mut(self.set_of(page)).expect("a set for each remainder");
        // The page that was asked for last comes first, and the last one of a set is replaced.
        let at = set.iter().position(|kept| kept.key == key).unwrap_or(WAYS - 1);
        if let Some(upto @ [_, .., _]) = set.get_mut(..=at) {
            upto.rotate_right(1);
        }
        let [kept, ..] = set;
        if kept.key != key {
            kept.key = (0, 0);
            kept.bytes.resize(PAGE_BYTES, 0);
            let read = self.file.read_at(offset_of(page), &mut kept.bytes)?;
            let begin = page.saturating_mul(PAGE_BODY_BYTES as u64);
            let body = self.body_bytes.saturating_sub(begin).min(PAGE_BODY_BYTES as u64) as usize;
            let whole = body + (PAGE_BYTES - PAGE_BODY_BYTES);
            let raw = kept.bytes.get(..whole.min(read)).unwrap_or_default();
            if body == 0 || verified(raw, page, self.seed).is_none_or(|found| found.len() < body) {
                return Err(damaged(&self.name, offset_of(page), Damage::Block));
            }
            kept.bytes.truncate(body);
            kept.key = key;
        }
        Ok(&kept.bytes)
    }
}

/// The page of a byte of the body, and the bytes before it there.
fn place(offset: u64) -> (u64, usize) {
    (offset / PAGE_BODY_BYTES as u64, (offset % PAGE_BODY_BYTES as u64) as usize)
}

/// Where a page begins in its file.
fn offset_of(page: u64) -> u64 {
    BodyLayout::Pages.header_bytes() as u64 + page * PAGE_BYTES as u64
}

impl fmt::Debug for SealedPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedPages")
            .field("name", &self.name)
            .field("body_bytes", &self.body_bytes)
            .finish_non_exhaustive()
    }
}

/// The sets of pages that a thread keeps; each page has its set.
const SETS: usize = 8;

/// The pages of a set. A merge reads that many arrays in turn, some of which meet in a set.
const WAYS: usize = 4;

/// A set of pages, the most recently used first.
type KeptPages = [KeptPage; WAYS];

/// A page that was read and verified.
#[derive(Default)]
struct KeptPage {
    /// The numbers of the file and of the page.
    key: (u64, u64),
    /// Its part of the body.
    bytes: Vec<u8>,
}

thread_local! {
    static LAST_READ: RefCell<[KeptPages; SETS]> = RefCell::default();
}
