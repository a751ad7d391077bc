//! How long writes wait for others to be sent with them.
//!
//! An entry of the log costs its servers the same whatever it carries, so a leader with many
//! clients sends few large ones. While something is under way it waits for that, unless about as
//! many writes have come as were sent together before. With nothing under way it waits for about as
//! many, too, because those who were answered write again, but not for long. A client that is alone
//! never waits.

use std::time::{Duration, Instant};

use crate::api::clock;

/// With nothing under way, writes wait no longer than this for others.
const WAIT_MAX: Duration = Duration::from_millis(2);

/// What was sent together before.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    /// About how many writes the newest groups had, in tenths.
    usual: usize,
    /// When it was first found that something waits, and nothing is under way.
    since: Option<Instant>,
}

impl Gathering {
    /// Whether so many writes are worth an entry of the log, with so many groups under way.
    pub(crate) fn is_over(&mut self, waiting: usize, under_way: usize) -> bool {
        let are_enough = 10 * waiting >= self.usual * 8 / 10 * under_way.max(1);
        if under_way > 0 {
            self.since = None;
            return are_enough;
        }
        are_enough || self.since.get_or_insert_with(clock::now).elapsed() >= WAIT_MAX
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
            assert!(gathering.is_over(1, 0) && gathering.is_over(1, 1));
            gathering.sent(1);
        }
        gathering.sent(30);
        assert!(!gathering.is_over(23, 1) && gathering.is_over(24, 1));
        assert!(!gathering.is_over(47, 2) && gathering.is_over(48, 2));
        assert!(!gathering.is_over(23, 0) && gathering.is_over(24, 0));
        gathering.since = clock::now().checked_sub(WAIT_MAX);
        assert!(gathering.is_over(1, 0), "not longer than that");
        (0..60).for_each(|_| gathering.sent(1));
        assert!(gathering.is_over(1, 1), "others are gone for good");
    }
}
