//! Whether writes have paused: then nobody minds work that makes look-ups quicker.

use std::time::Duration;

use crate::document::Sequence;
use crate::engine::shared::Shared;
use crate::index::compaction::policy::Load;

/// The last write, as a thread knows it that looks from time to time.
#[derive(Debug)]
pub(crate) struct Writes {
    last: Sequence,
    seen_at: Duration,
}

impl Writes {
    /// The writes from now on.
    pub(crate) fn new(shared: &Shared) -> Self {
        let last = shared.published.load().view.sequence();
        Self { last, seen_at: shared.clock.monotonic() }
    }

    /// The load, by the time since the last write was seen. Writes that wait count as well.
    pub(crate) fn load(&mut self, shared: &Shared) -> Load {
        let view = &shared.published.load().view;
        let waiting = shared.options.queue_changes_max - shared.permits.available_permits();
        if view.sequence() != self.last || waiting > 0 {
            *self = Self::new(shared);
        }
        Load::after(shared.clock.since(self.seen_at))
    }
}
