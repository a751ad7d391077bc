//! How long writes wait for others to be sent with them.
//!
//! An entry of the log costs the servers the same whatever it carries, so a leader with many
//! clients sends few large ones. With nothing under way it sends at once. With something under way
//! it waits until about as many writes have come as were sent together before: those who were
//! answered write again. A client that is alone never waits.

use std::time::{Duration, Instant};

use crate::api::clock;

/// Writes wait no longer than this.
const WAIT_MAX: Duration = Duration::from_millis(2);

/// What waits, and what was sent before.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// About how many writes the newest groups had, in tenths.
    usual: usize,
    /// When the oldest write that waits came.
    since: Option<Instant>,
}

impl Gathering {
    /// Whether so many writes are worth an entry of the log, with so many groups under way.
    pub(crate) fn is_over(&mut self, waiting: usize, under_way: usize, is_stopping: bool) -> bool {
        let since = *self.since.get_or_insert_with(clock::now);
        let are_enough = 10 * waiting >= self.usual * 8 / 10;
        under_way == 0 || are_enough || is_stopping || since.elapsed() >= WAIT_MAX
    }

    /// Notes that so many were sent. A smaller group may be an exception.
    pub(crate) fn sent(&mut self, writes: usize) {
        self.since = None;
        self.usual = (10 * writes).max((9 * self.usual + 10 * writes) / 10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_wait_for_as_many_as_before_and_one_client_never() {
        let mut gathering = Gathering::default();
        for _ in 0..3 {
            assert!(gathering.is_over(1, 0, false) && gathering.is_over(1, 1, false));
            gathering.sent(1);
        }
        gathering.sent(30);
        assert!(gathering.is_over(1, 0, false), "with nothing under way");
        gathering.sent(30);
        assert!(!gathering.is_over(1, 1, false) && !gathering.is_over(23, 4, false));
        assert!(gathering.is_over(24, 4, false) && gathering.is_over(1, 4, true));
        gathering.since = clock::now().checked_sub(WAIT_MAX);
        assert!(gathering.is_over(1, 1, false), "not longer than that");
        (0..60).for_each(|_| gathering.sent(1));
        assert!(gathering.is_over(1, 1, false), "others are gone for good");
    }
}
