//! Finished replies that wait for their client.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use nearprint_service::Service;
use nearprint_service::budget::{self, ByteShare};

use crate::http::batch::records;
use crate::http::batch::replies::Reply;

/// The memory of a page of records. Each batch may have one that does not count.
const PAGE_BYTES: usize = 16 << 10;

/// Replies are sent once they fill about this, or when the next one is not finished yet.
const PIECE_BYTES: usize = 16 << 10;

/// Finished replies in their order.
pub(super) struct Held {
    service: Arc<Service>,
    parts: VecDeque<Part>,
    /// The memory of all parts.
    bytes: usize,
    /// About how long they are when they are sent.
    expanded_bytes: usize,
}

enum Part {
    Page(Page),
    /// A long reply, with its share.
    Long(Vec<u8>, Option<ByteShare>),
}

struct Page {
    records: Vec<u8>,
    /// Where the records begin that were not sent.
    unsent: usize,
    _share: Option<ByteShare>,
}

impl Page {
    const fn has_room(&self, bytes: usize) -> bool {
        self.records.capacity().saturating_sub(self.records.len()) >= bytes
    }
}

impl Held {
    pub(super) fn new(service: Arc<Service>) -> Self {
        Self { service, parts: VecDeque::new(), bytes: 0, expanded_bytes: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether it has as much as is sent at one time.
    pub(super) const fn fills_a_piece(&self) -> bool {
        self.expanded_bytes >= PIECE_BYTES
    }

    /// Adds a reply at the end. Gives it back if it has no room, which the only one always has once
    /// replies may be sent.
    pub(super) fn push(&mut self, reply: Reply, may_send: bool) -> Option<Reply> {
        let expanded_bytes = reply.expanded_bytes();
        let is_next = may_send && self.is_empty();
        match reply {
            Reply::Short(records, own_share) => {
                let length = records.bytes.len();
                if let Some(Part::Page(page)) = self.parts.back_mut()
                    && page.has_room(length)
                {
                    page.records.extend_from_slice(&records.bytes);
                } else {
                    let capacity = length.max(PAGE_BYTES);
                    let share = if self.is_empty() && capacity == PAGE_BYTES {
                        None
                    } else {
                        match self.share(capacity) {
                            Some(share) => Some(share),
                            None if is_next => own_share,
                            None => return Some(Reply::Short(records, own_share)),
                        }
                    };
                    let mut page = Vec::with_capacity(capacity);
                    page.extend_from_slice(&records.bytes);
                    self.bytes = self.bytes.saturating_add(page.capacity());
                    self.parts.push_back(Part::Page(Page {
                        records: page,
                        unsent: 0,
                        _share: share,
                    }));
                }
            }
            Reply::Long(bytes, own_share) => {
                let share = match self.share(bytes.capacity()) {
                    Some(share) => Some(share),
                    None if is_next => own_share,
                    None => return Some(Reply::Long(bytes, own_share)),
                };
                self.bytes = self.bytes.saturating_add(bytes.capacity());
                self.parts.push_back(Part::Long(bytes, share));
            }
        }
        self.expanded_bytes = self.expanded_bytes.saturating_add(expanded_bytes);
        None
    }

    fn share(&self, bytes: usize) -> Option<ByteShare> {
        self.service.replies().held(bytes, self.bytes)
    }

    /// Takes the first long reply, or about [`PIECE_BYTES`] of short ones.
    pub(super) fn take_piece(&mut self) -> Bytes {
        if let Some(Part::Long(..)) = self.parts.front()
            && let Some(Part::Long(bytes, share)) = self.parts.pop_front()
        {
            self.took(bytes.capacity(), bytes.len());
            return budget::counted(bytes, share);
        }
        let recipe = self.service.recipe();
        let mut piece = BytesMut::with_capacity(self.expanded_bytes.min(PIECE_BYTES));
        let mut freed = 0_usize;
        while piece.len() < PIECE_BYTES
            && let Some(Part::Page(page)) = self.parts.front_mut()
        {
            let (_, unsent) = page.records.split_at(page.unsent);
            let rest = records::expand_first(unsent, recipe, &mut piece).len();
            page.unsent = page.records.len().saturating_sub(rest);
            if rest == 0 {
                freed = freed.saturating_add(page.records.capacity());
                self.parts.pop_front();
            }
        }
        self.took(freed, piece.len());
        piece.freeze()
    }

    fn took(&mut self, bytes: usize, expanded_bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.expanded_bytes =
            if self.is_empty() { 0 } else { self.expanded_bytes.saturating_sub(expanded_bytes) };
    }
}
