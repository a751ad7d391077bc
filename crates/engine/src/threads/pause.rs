//! Whether writes have paused: then the background threads do more to make look-ups faster.

use std::time::Instant;

use nearprint_index::compaction::policy::Load;
use nearprint_machine::document::Sequence;

use crate::api::clock;
use crate::shared::Shared;

/// The last write, as seen by a thread that checks from time to time.
#[derive(Debug)]
pub(crate) struct Writes {
    last: Sequence,
    seen_at: Instant,
}

impl Writes {
    /// Begins to watch the writes.
    pub(crate) fn new(shared: &Shared) -> Self {
        let last = shared.published.load().view.sequence();
        Self { last, seen_at: clock::now() }
    }

    /// The load, by the time since the last write was seen. Waiting writes count as well.
    pub(crate) fn load(&mut self, shared: &Shared) -> Load {
        let view = &shared.published.load().view;
        if view.sequence() != self.last || shared.queue.is_used() {
            *self = Self::new(shared);
        }
        Load::after(self.seen_at.elapsed())
    }
}
