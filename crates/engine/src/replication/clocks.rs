//! Which of three clocks is wrong: the own, the leader's or the log's.
//!
//! A leader's clock decides when documents expire, so a node whose clock is off does not lead. The
//! log's own clock is the third opinion: a leader that nobody hears any more has none, and one that
//! is off itself must not keep the others from leading.

use std::time::Instant;

use crate::api::clock;

/// A clock that differs by more than this from another is off.
const OFF_MS_MAX: u64 = 10_000;

/// What another clock said at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heard {
    /// Milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) heard_at: Instant,
}

/// The clocks with which the own one is compared.
#[derive(Debug, Default)]
pub(crate) struct ComparedClock {
    /// The log's, with the newest entry that was read when it was new.
    pub(crate) log: Option<Heard>,
    /// That of the newest leader that was not this node.
    pub(crate) leader: Option<Heard>,
}

impl Heard {
    pub(crate) fn now(at_ms: u64) -> Self {
        Self { at_ms, heard_at: clock::now() }
    }

    /// How far the own clock is ahead of it now, in milliseconds.
    pub(crate) fn own_ahead_ms(&self) -> i64 {
        let elapsed_ms = self.heard_at.elapsed().as_millis() as i64;
        clock::now_ms() as i64 - self.at_ms as i64 - elapsed_ms
    }
}

impl ComparedClock {
    /// Why this node must not lead: its clock is off. If it agrees with a leader's, the log's is.
    pub(crate) fn fault(&self) -> Option<String> {
        let is_off = |ahead_ms: i64| ahead_ms.unsigned_abs() > OFF_MS_MAX;
        let ahead_ms = self.log.map(|log| log.own_ahead_ms()).filter(|ahead| is_off(*ahead))?;
        if self.leader.is_some_and(|leader| !is_off(leader.own_ahead_ms())) {
            return None;
        }
        let side = if ahead_ms > 0 { "ahead of" } else { "behind" };
        let seconds = ahead_ms.unsigned_abs() / 1_000;
        Some(format!(
            "its clock is {seconds} s {side} that of the log, and a leader's time decides when \
             documents expire; next: set the clock"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_off_if_the_logs_says_so_and_no_leaders_agrees() {
        let ahead = |ms: i64| Heard::now(clock::now_ms().checked_add_signed(ms).unwrap());
        let compared = |log: i64, leader: Option<i64>| ComparedClock {
            log: Some(ahead(log)),
            leader: leader.map(ahead),
        };
        let is_off = |log, leader| compared(log, leader).fault().is_some();
        assert!(ComparedClock { log: None, leader: Some(ahead(60_000)) }.fault().is_none());
        assert!(!is_off(8_000, Some(60_000)), "the leader's is");
        assert!(!is_off(60_000, Some(8_000)), "the log's is");
        assert!(is_off(60_000, None) && is_off(-60_000, Some(60_000)));
        let fault = compared(-60_500, None).fault().unwrap();
        assert!(fault.contains("60 s ahead of that of the log"), "{fault}");
    }
}
