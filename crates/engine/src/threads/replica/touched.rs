//! What a leader's messages tell of the originals of duplicates: the counts of the last second.

use nearprint_machine::query::Touch;
use tokio::sync::broadcast;

use crate::state::touches::{Touches, heard, sum};

/// Counts go out no more often than this.
const EVERY_MS: u64 = 1_000;
/// No more wait. Those of further documents are lost, as in a crash.
const WAITING_MAX: usize = 1 << 17;

/// What was counted and not sent.
#[derive(Debug)]
pub(crate) struct Touched {
    named: broadcast::Receiver<Touch>,
    /// In the order in which they came; several may be of one document.
    waiting: Vec<Touch>,
    sent_ms: u64,
}

impl Touched {
    /// Hears of what is counted from now on.
    pub(crate) fn new(touches: &Touches, now_ms: u64) -> Self {
        Self { named: touches.subscribe(), waiting: Vec::new(), sent_ms: now_ms }
    }

    /// Hears what was counted since the last call.
    pub(crate) fn hear(&mut self) {
        self.waiting.extend(heard(&mut self.named));
        if self.waiting.len() > WAITING_MAX {
            self.add_up();
            // Half of it, so that this is not done with each message.
            self.waiting.truncate(WAITING_MAX / 2);
        }
    }

    /// Leaves one for each document.
    fn add_up(&mut self) {
        self.waiting = sum(std::mem::take(&mut self.waiting).into_iter());
    }

    /// At most so many of them, if a second has passed since the last time.
    pub(crate) fn due(&mut self, max: usize, now_ms: u64) -> Vec<Touch> {
        if self.waiting.is_empty() || now_ms.saturating_sub(self.sent_ms) < EVERY_MS {
            return Vec::new();
        }
        self.sent_ms = now_ms;
        self.add_up();
        self.waiting.drain(..self.waiting.len().min(max)).collect()
    }
}

#[cfg(test)]
mod tests {
    use nearprint_fingerprint::Fingerprint;
    use nearprint_machine::document::Sequence;

    use super::*;

    #[test]
    fn a_second_of_counts_is_one_for_each_document() {
        let touches = Touches::new(100, []);
        let touch = |sequence, now_s| {
            touches.touch(Sequence::new(sequence), Fingerprint::new(sequence), now_s);
        };
        touch(1, 1);
        let mut touched = Touched::new(&touches, 0);
        let mut due = |max, now_ms| {
            touched.hear();
            let due = touched.due(max, now_ms).into_iter();
            due.map(|t| (t.sequence.get(), t.duplicates, t.last_s)).collect::<Vec<_>>()
        };
        touch(2, 2);
        touch(3, 2);
        touch(2, 3);
        assert_eq!(due(9, 999), [], "the second has not passed");
        touch(2, 4);
        assert_eq!(due(1, 1_000), [(2, 3, 4)], "what came before it listened is not sent");
        assert_eq!(due(9, 1_999), []);
        assert_eq!(due(9, 2_000), [(3, 1, 2)]);
        assert_eq!(due(9, 9_000), []);
    }

    #[test]
    fn what_waits_is_bounded() {
        let touches = Touches::new(2 * WAITING_MAX, []);
        let mut touched = Touched::new(&touches, 0);
        for sequence in 0..2 * WAITING_MAX as u64 {
            touches.touch(Sequence::new(sequence), Fingerprint::new(sequence), 1);
            touched.hear();
            assert!(touched.waiting.len() <= WAITING_MAX);
        }
        assert!(touched.due(WAITING_MAX, 1_000).len() >= WAITING_MAX / 2);
    }
}
