//! Whether writes have paused: then nobody minds work that makes look-ups quicker.

use std::time::Duration;

use crate::document::Sequence;
use crate::engine::shared::Shared;

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

    /// How long ago the last one was seen. Those that wait, as for room in a delta, count.
    pub(crate) fn pause(&mut self, shared: &Shared) -> Duration {
        let view = &shared.published.load().view;
        let waiting = shared.options.queue_changes_max - shared.permits.available_permits();
        if view.sequence() != self.last || waiting > 0 {
            *self = Self::new(shared);
        }
        shared.clock.since(self.seen_at)
    }
}
