//! Finished replies that wait for their client: pages of bytes as they are sent, the older ones of
//! many compressed, to about a tenth.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem;

use bytes::Bytes;
use nearprint_service::budget::{self, ByteShare, OWN_BYTES, Replies};
use zstd::bulk::{Compressor, Decompressor};

use crate::http::batch::replies::Reply;

/// How much is sent at one time, and compressed at one time. The page that is being filled counts
/// for nothing in the budget.
const PAGE_BYTES: usize = 16 << 10;

/// Full pages that are not compressed, as long as there is room for them.
const PLAIN_PAGES_MAX: usize = 32;

/// Full pages that a batch may add when the budget is spent.
const OWN_PAGES_MAX: usize = OWN_BYTES / PAGE_BYTES;

/// The fastest that still finds what is the same in each line.
const ZSTD_LEVEL: i32 = 1;

thread_local! {
    // One for each thread: to make one takes as long as to compress a page.
    static COMPRESSOR: RefCell<Compressor<'static>> =
        Compressor::new(ZSTD_LEVEL).expect("the level exists").into();
    static DECOMPRESSOR: RefCell<Decompressor<'static>> =
        Decompressor::new().expect("it needs no dictionary").into();
}

/// Finished replies in their order.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Full pages, oldest first.
    full: VecDeque<Page>,
    /// How many of them, from the oldest, were compressed, or do not become smaller.
    compressed: usize,
    /// How many of them have no share.
    own: usize,
    /// The memory of all of them.
    bytes: usize,
    /// The page that is being filled.
    open: Vec<u8>,
}

#[derive(Debug)]
struct Page {
    bytes: Vec<u8>,
    is_compressed: bool,
    /// `None` if the budget was spent.
    share: Option<ByteShare>,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.full.is_empty() && self.open.is_empty()
    }

    /// Whether it has as much as is sent at one time.
    pub(super) fn fills_a_piece(&self) -> bool {
        !self.full.is_empty() || self.open.len() >= PAGE_BYTES
    }

    /// Adds a reply at the end, and gives back the rest that has no room. If nothing was held, some
    /// of it always has room.
    pub(super) fn push(&mut self, mut reply: Reply, budget: &Replies) -> Option<Reply> {
        loop {
            let room = PAGE_BYTES.saturating_sub(self.open.len());
            let taken = reply.bytes.split_to(room.min(reply.bytes.len()));
            self.open.extend_from_slice(&taken);
            if reply.bytes.is_empty() {
                return None;
            }
            if !self.close_page(budget) {
                return Some(reply);
            }
        }
    }

    /// Closes the page that is full; false if there is no room for another one.
    fn close_page(&mut self, budget: &Replies) -> bool {
        if self.full.len().saturating_sub(self.compressed) >= PLAIN_PAGES_MAX {
            self.compress_page();
        }
        let mut share = budget.held(PAGE_BYTES, self.bytes);
        while share.is_none() && self.compress_page() {
            share = budget.held(PAGE_BYTES, self.bytes);
        }
        let is_own = share.is_none();
        if is_own && self.own >= OWN_PAGES_MAX {
            return false;
        }
        let bytes = mem::take(&mut self.open);
        self.bytes = self.bytes.saturating_add(PAGE_BYTES);
        self.full.push_back(Page { bytes, is_compressed: false, share });
        if is_own {
            self.own = self.own.saturating_add(1);
            self.compress_page();
        }
        true
    }

    /// Compresses the oldest page that is not; false if there is none.
    fn compress_page(&mut self) -> bool {
        let Some(page) = self.full.get_mut(self.compressed) else { return false };
        self.compressed = self.compressed.saturating_add(1);
        let compressed = COMPRESSOR.with_borrow_mut(|zstd| zstd.compress(&page.bytes));
        if let Some(mut bytes) = compressed.ok().filter(|bytes| bytes.len() < PAGE_BYTES) {
            bytes.shrink_to_fit();
            if let Some(share) = &mut page.share {
                share.shrink_to(bytes.len());
            }
            (page.bytes, page.is_compressed) = (bytes, true);
            let freed = PAGE_BYTES.saturating_sub(page.memory());
            self.bytes = self.bytes.saturating_sub(freed);
        }
        true
    }

    /// Takes what is sent next: the oldest full page, or what there is of the only one.
    pub(super) fn take_piece(&mut self) -> Bytes {
        let Some(page) = self.full.pop_front() else { return mem::take(&mut self.open).into() };
        self.compressed = self.compressed.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(page.memory());
        self.own = self.own.saturating_sub(usize::from(page.share.is_none()));
        if page.is_compressed {
            let plain =
                DECOMPRESSOR.with_borrow_mut(|zstd| zstd.decompress(&page.bytes, PAGE_BYTES));
            return plain.expect("it was compressed here").into();
        }
        budget::counted(page.bytes, page.share)
    }
}

impl Page {
    /// How many bytes it counts.
    const fn memory(&self) -> usize {
        if self.is_compressed { self.bytes.len() } else { PAGE_BYTES }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BUDGET: usize = 4 << 20;

    /// Lines that differ as those of an insert do.
    fn lines(from: u64, count: u64) -> Vec<u8> {
        let line = |at: u64| {
            let bits = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            format!(
                "{{\"fingerprint\":\"{bits:016x}\",\"short\":false,\"outcome\":\"inserted\",\
                 \"stored\":true,\"sequence\":{at}}}\n"
            )
        };
        (from..).take(usize::try_from(count).unwrap()).map(line).collect::<String>().into_bytes()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// The oracle is what was pushed, one after the other.
        #[test]
        fn what_is_taken_is_what_was_pushed_and_a_budget_is_never_exceeded(
            steps in proptest::collection::vec((0..2_000_u64, 0..3_usize), 1..200),
            noise in proptest::collection::vec(any::<u8>(), 0..60_000),
        ) {
            let budget = Replies::new(BUDGET / 8, BUDGET);
            let (mut held, mut pushed, mut taken) = (Held::default(), Vec::new(), Vec::new());
            let mut at = 0;
            for (count, pieces) in steps {
                let bytes = if count % 16 == 7 { noise.clone() } else { lines(at, count) };
                at = at.saturating_add(count);
                pushed.extend_from_slice(&bytes);
                let mut rest = held.push(Reply::new(bytes, None), &budget);
                for _ in 0..pieces {
                    taken.extend_from_slice(&held.take_piece());
                }
                while let Some(blocked) = rest {
                    taken.extend_from_slice(&held.take_piece());
                    let (left, was_empty) = (blocked.bytes.len(), held.is_empty());
                    rest = held.push(blocked, &budget);
                    let is_less = rest.as_ref().is_none_or(|rest| rest.bytes.len() < left);
                    prop_assert!(is_less || !was_empty);
                }
                prop_assert!(budget.bytes_in_memory() <= BUDGET / 2);
                let own = held.full.iter().filter(|page| page.share.is_none());
                let own: usize = own.map(Page::memory).sum();
                prop_assert!(own <= OWN_BYTES);
                prop_assert!(held.full.len().saturating_sub(held.compressed) <= PLAIN_PAGES_MAX);
                prop_assert_eq!(budget.bytes_in_memory(), held.bytes.saturating_sub(own));
            }
            while !held.is_empty() {
                let piece = held.take_piece();
                prop_assert!(!piece.is_empty() && piece.len() <= PAGE_BYTES);
                taken.extend_from_slice(&piece);
            }
            prop_assert!(taken == pushed);
            prop_assert_eq!(budget.bytes_in_memory(), 0);
        }
    }

    #[test]
    fn a_line_of_an_insert_takes_at_most_thirteen_bytes_while_it_waits() {
        let budget = Replies::new(BUDGET / 8, BUDGET);
        let mut held = Held::default();
        let mut count = 0;
        while held.push(Reply::new(lines(count, 64), None), &budget).is_none() {
            count += 64;
        }
        assert!(held.bytes as u64 <= 13 * count, "{} bytes for {count} lines", held.bytes);
        assert!(count > BUDGET as u64 / 2 * 3 / 5 / 13, "{count} lines");
    }
}
