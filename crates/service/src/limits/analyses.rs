//! The queue of long texts, which are analysed off the async threads, so that no client's pages
//! delay another's.
//!
//! There are two permits a core: one analysis runs while the next is handed over; more would evict
//! each other's data from the caches. Half of the permits are for bodies of up to [`LONG_BYTES`],
//! which therefore never wait for a long one. Within each half, waiting bodies are served in the
//! order of their **deadlines**: the time of arrival plus a second for each [`BYTES_A_SECOND`],
//! times the number of bodies of the same client that wait, this one included. So a body overtakes
//! those that take much longer and those of clients that send many, and none waits for ever,
//! because later ones have later deadlines.
//!
//! The analyses of long bodies also share a budget of memory: each reserves what it takes at most
//! ([`nearprint_text::memory_of_analysis`]) before it begins, and waits until that is free; one
//! that needs more than all of it runs alone.
//!
//! An analysis that has begun runs to its end, which takes time linear in its bytes
//! ([`nearprint_text`]). One that still waits is dropped with its request, and its body with it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nearprint_engine::Client;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::limits::budget::{ByteBudget, ByteShare};

/// Bodies of more bytes are long: analysing one takes tens of milliseconds.
const LONG_BYTES: usize = 256 << 10;

/// The speed of an analysis, at worst.
const BYTES_A_SECOND: u64 = 4 << 20;

#[derive(Debug)]
pub(crate) struct Analyses {
    short: Lane,
    long: Lane,
    /// The memory of analyses of long bodies.
    memory: ByteBudget,
    memory_max: usize,
}

/// The permit of one analysis; the next one begins when it is dropped.
#[derive(Debug)]
pub(crate) struct AnalysisPermit(Option<Lane>);

/// The permits of short or of long bodies.
#[derive(Debug, Clone)]
struct Lane(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    free: usize,
    /// Orders bodies with the same deadline.
    arrivals: u64,
    by_deadline: BTreeMap<(Instant, u64), Waiting>,
    /// How many bodies of each client wait.
    waiting: HashMap<Client, u64>,
}

#[derive(Debug)]
struct Waiting {
    client: Client,
    permit: oneshot::Sender<AnalysisPermit>,
}

impl Analyses {
    /// With `permits` permits in each lane, and this many bytes for those of long bodies.
    pub(crate) fn new(permits: usize, memory_max: usize) -> Self {
        let memory = ByteBudget::new(memory_max);
        Self { short: Lane::new(permits), long: Lane::new(permits), memory, memory_max }
    }

    /// Waits for the permit of a body of `bytes` that arrives now, and for the memory that its
    /// analysis takes. Dropping the future leaves the queue.
    pub(crate) async fn permit(
        &self,
        client: Client,
        bytes: usize,
        memory: usize,
    ) -> (AnalysisPermit, ByteShare) {
        let permit = self.permit_at(client, bytes, Instant::now()).await;
        let memory = if bytes > LONG_BYTES { memory.min(self.memory_max) } else { 0 };
        (permit, self.memory.take(memory).await)
    }

    #[expect(clippy::arithmetic_side_effects, reason = "a body is at most a GiB: minutes")]
    async fn permit_at(&self, client: Client, bytes: usize, arrival: Instant) -> AnalysisPermit {
        let lane = if bytes > LONG_BYTES { &self.long } else { &self.short };
        let cost = Duration::from_millis(bytes as u64 * 1_000 / BYTES_A_SECOND);
        let (sender, permit) = oneshot::channel();
        {
            let mut queue = lane.queue();
            if let Some(rest) = queue.free.checked_sub(1) {
                queue.free = rest;
                return AnalysisPermit(Some(lane.clone()));
            }
            queue.arrivals = queue.arrivals.wrapping_add(1);
            let arrivals = queue.arrivals;
            let waiting = queue.waiting.entry(client.clone()).or_default();
            *waiting += 1;
            let deadline = arrival + cost * u32::try_from(*waiting).unwrap_or(u32::MAX);
            let waiting = Waiting { client, permit: sender };
            queue.by_deadline.insert((deadline, arrivals), waiting);
        }
        permit.await.expect("a waiting body stays in the queue until it gets its permit")
    }
}

impl Lane {
    fn new(permits: usize) -> Self {
        let free = permits.max(1);
        let (by_deadline, waiting) = (BTreeMap::new(), HashMap::new());
        Self(Arc::new(Mutex::new(Queue { free, arrivals: 0, by_deadline, waiting })))
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No code that holds the lock panics half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes a permit on to the next request that still waits.
    fn pass_on(&self) {
        loop {
            let next = {
                let mut queue = self.queue();
                let Some(next) = queue.next() else {
                    queue.free = queue.free.saturating_add(1);
                    return;
                };
                next
            };
            match next.send(AnalysisPermit(Some(self.clone()))) {
                Ok(()) => return,
                // That request was dropped, so the permit is the next one's.
                Err(mut unused) => unused.0 = None,
            }
        }
    }
}

impl Queue {
    /// Takes out the request whose deadline is the earliest.
    fn next(&mut self) -> Option<oneshot::Sender<AnalysisPermit>> {
        let (_, Waiting { client, permit }) = self.by_deadline.pop_first()?;
        if let Entry::Occupied(mut waiting) = self.waiting.entry(client) {
            match waiting.get().saturating_sub(1) {
                0 => drop(waiting.remove()),
                fewer => *waiting.get_mut() = fewer,
            }
        }
        Some(permit)
    }
}

impl Drop for AnalysisPermit {
    fn drop(&mut self) {
        if let Some(lane) = self.0.take() {
            lane.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};

    use futures_util::FutureExt as _;

    use super::*;

    const MIB: usize = 1 << 20;

    fn one() -> Client {
        Client::Token("one".into())
    }

    fn is_served<F: Future<Output = AnalysisPermit>>(
        waiting: &mut Pin<&mut F>,
    ) -> Option<AnalysisPermit> {
        waiting.as_mut().now_or_never()
    }

    #[tokio::test]
    async fn a_short_body_never_waits_for_a_long_one() {
        let queue = Analyses::new(1, MIB);
        let running = queue.permit_at(one(), 16 * MIB, Instant::now()).await;
        assert!(
            is_served(&mut pin!(queue.permit_at(one(), LONG_BYTES + 1, Instant::now()))).is_none()
        );
        assert!(is_served(&mut pin!(queue.permit_at(one(), LONG_BYTES, Instant::now()))).is_some());
        drop(running);
    }

    #[tokio::test]
    async fn a_body_overtakes_those_that_take_much_longer_and_none_waits_for_ever() {
        let queue = Analyses::new(1, MIB);
        let running = queue.permit_at(one(), MIB, Instant::now()).await;
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let mut huge = pin!(queue.permit_at(one(), 16 * MIB, begin));
        let mut late = pin!(queue.permit_at(one(), MIB, begin + 6 * second));
        let mut soon = pin!(queue.permit_at(one(), MIB, begin + 3 * second));
        for waiting in [&mut huge, &mut late, &mut soon] {
            assert!(is_served(waiting).is_none());
        }
        drop(running);
        let first = is_served(&mut soon).expect("its deadline is the earliest");
        assert!(is_served(&mut huge).is_none() && is_served(&mut late).is_none());
        drop(first);
        let second = is_served(&mut huge).expect("its deadline is the next");
        assert!(is_served(&mut late).is_none());
        drop(second);
        assert!(is_served(&mut late).is_some());
    }

    #[tokio::test]
    async fn a_dropped_request_takes_no_permit() {
        let queue = Analyses::new(1, MIB);
        let running = queue.permit_at(one(), 0, Instant::now()).await;
        let mut leavers: Vec<_> =
            (0..1_000).map(|_| Box::pin(queue.permit_at(one(), 0, Instant::now()))).collect();
        assert!(leavers.iter_mut().all(|left| left.as_mut().now_or_never().is_none()));
        let mut called = leavers.pop().expect("there are many");
        let mut stays = pin!(queue.permit_at(one(), 1, Instant::now()));
        assert!(is_served(&mut stays).is_none());
        drop(leavers);
        drop(running);
        // It has the permit, and is dropped before it is polled.
        assert!(is_served(&mut stays).is_none());
        assert!(called.as_mut().now_or_never().is_some());
        assert!(is_served(&mut stays).is_some());
        let again = queue.permit_at(one(), 0, Instant::now()).await;
        let mut leaves = Box::pin(queue.permit_at(one(), 0, Instant::now()));
        let mut last = pin!(queue.permit_at(one(), 1, Instant::now()));
        assert!(leaves.as_mut().now_or_never().is_none() && is_served(&mut last).is_none());
        drop(again);
        drop(leaves);
        assert!(is_served(&mut last).is_some());
    }

    #[tokio::test]
    async fn analyses_wait_for_memory_and_one_that_needs_more_than_all_runs_alone() {
        let queue = Analyses::new(9, 100 * MIB);
        let first = queue.permit(one(), 16 * MIB, 60 * MIB).await;
        let mut second = pin!(queue.permit(one(), 16 * MIB, 41 * MIB));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(queue.permit(one(), LONG_BYTES, 60 * MIB).now_or_never().is_some(), "short bodies");
        drop(first);
        let second = second.as_mut().now_or_never().expect("there is room");
        let mut huge = pin!(queue.permit(one(), 64 * MIB, 200 * MIB));
        assert!(huge.as_mut().now_or_never().is_none());
        drop(second);
        let huge = huge.as_mut().now_or_never().expect("it is alone");
        assert!(queue.permit(one(), 16 * MIB, 1).now_or_never().is_none());
        drop(huge);
        assert!(queue.permit(one(), 16 * MIB, 1).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_client_with_many_bodies_does_not_hold_up_another() {
        let queue = Analyses::new(1, MIB);
        let running = queue.permit_at(one(), MIB, Instant::now()).await;
        let begin = Instant::now();
        let mut many: Vec<_> =
            (0..9).map(|_| Box::pin(queue.permit_at(one(), MIB, begin))).collect();
        assert!(many.iter_mut().all(|body| body.as_mut().now_or_never().is_none()));
        let other = Client::Token("other".into());
        let later = begin + Duration::from_millis(100);
        let mut late = pin!(queue.permit_at(other, MIB, later));
        assert!(is_served(&mut late).is_none());
        drop(running);
        let first = many[0].as_mut().now_or_never().expect("its deadline is the earliest");
        drop(first);
        assert!(is_served(&mut late).is_some(), "before the second one of the other client");
    }
}
