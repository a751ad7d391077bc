//! Who analyses a long text next: turns off the async threads, so that no client's pages hold up
//! another's.
//!
//! Two turns a core: one at work while the next is handed over; more would take each other's caches.
//! Half of the turns are for bodies of up to [`LONG_BYTES`], which therefore never wait for a
//! long one. Within each half, bodies that wait are served in the order of their **deadlines**: the time of
//! arrival and a second for each [`BYTES_A_SECOND`]. So a body overtakes those that take much longer, and none
//! waits for ever, because those that come later have later deadlines.
//!
//! An analysis that begins goes on to its end, which takes time linear in its bytes ([`crate::text`]). One
//! that still waits is given up as soon as its request is: then its body goes as well.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

/// Bodies of more bytes are long: analysing one takes tens of milliseconds.
const LONG_BYTES: usize = 256 << 10;

/// What an analysis is expected to manage, at worst.
const BYTES_A_SECOND: u64 = 4 << 20;

/// The queue of analyses.
#[derive(Debug, Clone)]
pub(crate) struct Analyses(Arc<Mutex<Lanes>>);

/// The turn of one analysis; the next one begins when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<(Analyses, Lane)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Short,
    Long,
}

#[derive(Debug)]
struct Lanes {
    short: Waiting,
    long: Waiting,
    /// How many have asked; tells those with the same deadline apart.
    asked: u64,
}

/// The turns of one lane, and who waits for them.
#[derive(Debug)]
struct Waiting {
    free: usize,
    by_deadline: BTreeMap<(Instant, u64), oneshot::Sender<Turn>>,
}

impl Analyses {
    /// With `turns` turns of each lane.
    pub(crate) fn new(turns: usize) -> Self {
        let lane = || Waiting { free: turns.max(1), by_deadline: BTreeMap::new() };
        Self(Arc::new(Mutex::new(Lanes { short: lane(), long: lane(), asked: 0 })))
    }

    /// Waits for the turn of a body of `bytes` that arrives now. Dropping the future gives the place in
    /// the queue up.
    pub(crate) async fn turn(&self, bytes: usize) -> Turn {
        self.turn_of(bytes, Instant::now()).await
    }

    async fn turn_of(&self, bytes: usize, arrival: Instant) -> Turn {
        let lane = if bytes > LONG_BYTES { Lane::Long } else { Lane::Short };
        let (called, turn) = oneshot::channel();
        {
            let mut lanes = self.lanes();
            let waiting = lanes.of(lane);
            if let Some(rest) = waiting.free.checked_sub(1) {
                waiting.free = rest;
                return Turn(Some((self.clone(), lane)));
            }
            let number = lanes.asked;
            lanes.asked = number.wrapping_add(1);
            lanes.of(lane).by_deadline.insert((deadline(bytes, arrival), number), called);
        }
        turn.await.expect("whoever waits is called")
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        // Nothing in here panics half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands a turn on to whoever waits and is still there.
    fn pass_on(&self, lane: Lane) {
        loop {
            let next = {
                let mut lanes = self.lanes();
                let waiting = lanes.of(lane);
                let Some((_, next)) = waiting.by_deadline.pop_first() else {
                    waiting.free = waiting.free.saturating_add(1);
                    return;
                };
                next
            };
            match next.send(Turn(Some((self.clone(), lane)))) {
                Ok(()) => return,
                // That request was given up, so the turn is the next one's.
                Err(mut unused) => unused.0 = None,
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some((queue, lane)) = self.0.take() {
            queue.pass_on(lane);
        }
    }
}

impl Lanes {
    fn of(&mut self, lane: Lane) -> &mut Waiting {
        match lane {
            Lane::Short => &mut self.short,
            Lane::Long => &mut self.long,
        }
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "a body is at most a GiB: minutes")]
fn deadline(bytes: usize, arrival: Instant) -> Instant {
    arrival + Duration::from_millis(bytes as u64 * 1_000 / BYTES_A_SECOND)
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};

    use futures_util::FutureExt as _;

    use super::*;

    const MIB: usize = 1 << 20;

    fn is_served<F: Future<Output = Turn>>(turn: &mut Pin<&mut F>) -> Option<Turn> {
        turn.as_mut().now_or_never()
    }

    #[tokio::test]
    async fn a_short_body_never_waits_for_a_long_one() {
        let queue = Analyses::new(1);
        let running = queue.turn(16 * MIB).await;
        assert!(is_served(&mut pin!(queue.turn(LONG_BYTES + 1))).is_none());
        assert!(is_served(&mut pin!(queue.turn(LONG_BYTES))).is_some());
        drop(running);
    }

    #[tokio::test]
    async fn a_body_overtakes_those_that_take_much_longer_and_none_waits_for_ever() {
        let queue = Analyses::new(1);
        let running = queue.turn(MIB).await;
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut huge = pin!(queue.turn_of(16 * MIB, begin));
        let mut late = pin!(queue.turn_of(MIB, begin + 6 * second));
        let mut soon = pin!(queue.turn_of(MIB, begin + 3 * second));
        for waiting in [&mut huge, &mut late, &mut soon] {
            assert!(is_served(waiting).is_none());
        }
        drop(running);
        let first = is_served(&mut soon).expect("its deadline is the first");
        assert!(is_served(&mut huge).is_none() && is_served(&mut late).is_none());
        drop(first);
        let second = is_served(&mut huge).expect("it has waited its time");
        assert!(is_served(&mut late).is_none());
        drop(second);
        assert!(is_served(&mut late).is_some());
    }

    #[tokio::test]
    async fn whoever_has_left_takes_no_turn() {
        let queue = Analyses::new(1);
        let running = queue.turn(0).await;
        let mut left: Vec<_> = (0..1_000).map(|_| Box::pin(queue.turn(0))).collect();
        assert!(left.iter_mut().all(|turn| turn.as_mut().now_or_never().is_none()));
        let mut called = left.pop().expect("there are many");
        let mut stays = pin!(queue.turn(1));
        assert!(is_served(&mut stays).is_none());
        drop(left);
        drop(running);
        // Called, and leaves without having heard of it.
        assert!(is_served(&mut stays).is_none());
        assert!(called.as_mut().now_or_never().is_some());
        assert!(is_served(&mut stays).is_some());
        let again = queue.turn(0).await;
        let mut leaves = Box::pin(queue.turn(0));
        let mut last = pin!(queue.turn(1));
        assert!(leaves.as_mut().now_or_never().is_none() && is_served(&mut last).is_none());
        drop(again);
        drop(leaves);
        assert!(is_served(&mut last).is_some());
    }
}
