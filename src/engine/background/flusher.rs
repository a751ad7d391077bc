//! The flusher: the thread that turns full deltas into segments, as soon as they are full.
//!
//! It is a thread of its own because nothing else may delay it up: with too many full deltas the
//! writer waits (see [`crate::engine::write::writer`]). While a long merge is under way, and as soon as writes pause, it also
//! merges the newest segments among themselves, since every look-up visits each of them. Levels are made more quickly
//! than they can be merged; where too many arrive during a merge, or small segments pile up over several, it takes
//! its time, which slows the writer down, so that what waits to be merged stays little. A snapshot needs a view without deltas; only this
//! thread makes segments of deltas, so it is asked for one.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::engine::background::pause::Writes;
use crate::engine::options::SMALL_SEGMENT_MAX;
use crate::engine::shared::{Message, Shared};
use crate::index::compaction::merge;
use crate::index::compaction::work::Work;
use crate::index::view::{Parts, View};
use crate::metrics;

/// How often it checks for a full delta without being woken.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// After this time without a write nothing is throttled, and the newest segments are merged.
const PAUSED_AFTER: Duration = Duration::from_millis(40);

/// Maximum number of entries merged while a larger merge is running: the writer may have to wait for a
/// fraction of a second, and the results of both merges are in memory next to their inputs.
const NEWEST_MAX: u64 = 1 << 20;

/// The maximum when writes have paused and no other merge is running: that of a small segment.
const NEWEST_MAX_PAUSED: u64 = SMALL_SEGMENT_MAX;

/// What may arrive during a merge before writes are throttled.
const ARRIVE: Limit = Limit { of_documents: 16, min: 1_000_000 };

/// What may be in small segments, which take half as much memory again as large ones. The minimum is
/// there even when nothing is left to merge.
const SMALL: Limit = Limit { of_documents: 8, min: 8_000_000 };

/// The delay of a delta at twice the limit; it grows linearly, up to the maximum.
const THROTTLE_MS: u64 = 100;
const THROTTLE_MS_MAX: u64 = 500;

/// A request for everything that is published, without deltas.
pub(crate) type SettleRequest = oneshot::Sender<Settled>;

/// A view without what its deltas waited.
#[derive(Debug)]
pub(crate) struct Settled {
    frozen: View,
    /// A later one: its segments and tables delay what was frozen, and nothing newer.
    later: View,
}

impl Settled {
    /// What the view that was frozen can be restored from. Counts its fingerprints.
    pub(crate) fn parts(&self) -> Parts {
        self.later.parts_of(&self.frozen)
    }
}

/// The engine is gone: no more work.
#[derive(Debug)]
pub(crate) struct Gone;

/// Runs until the request channel closes.
pub(crate) fn run(shared: &Arc<Shared>, requests: &Receiver<SettleRequest>) {
    shared.flusher.get_or_init(thread::current);
    let mut writes = Writes::new(shared);
    // The delay of the next delta, and how long it has waited.
    let (mut delay, mut waited) = (Duration::ZERO, Duration::ZERO);
    loop {
        let look = delay.saturating_sub(waited).min(LOOK_EVERY);
        match requests.recv_timeout(look) {
            Ok(request) => {
                if let Ok(settled) = settle(shared) {
                    // A snapshot that was given up needs none.
                    drop(request.send(settled));
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                waited += look;
                let paused = writes.pause(shared) >= PAUSED_AFTER;
                if waited < delay && !paused {
                    continue;
                }
                if !waited.is_zero() {
                    metrics::writes_held_up(waited);
                }
                (delay, waited) = (Duration::ZERO, Duration::ZERO);
                match flush(shared, paused) {
                    Ok(true) => delay = if paused { Duration::ZERO } else { throttle(shared) },
                    Ok(false) => thread::park_timeout(LOOK_EVERY),
                    // With the engine gone, what is left in deltas is in the journal.
                    Err(Gone) => {
                        debug_assert!(shared.writer.is_closed(), "only a writer ends it");
                        thread::park_timeout(LOOK_EVERY);
                    }
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Builds a level of the oldest full delta, if there is one; keeps the newest segments few while others are
/// merged, and fewer when writes have paused.
fn flush(shared: &Arc<Shared>, paused: bool) -> Result<bool, Gone> {
    let Some(work) = Work::flush(&shared.published.load().view) else {
        if paused {
            let is_merging = shared.merging().is_some();
            let max = if is_merging { NEWEST_MAX } else { NEWEST_MAX_PAUSED };
            merge_newest(shared, max, merge::RATIO_IDLE)?;
        }
        return Ok(false);
    };
    complete(shared, work)?;
    let is_merging = shared.merging().is_some();
    if is_merging {
        merge_newest(shared, NEWEST_MAX, merge::RATIO)?;
    }
    Ok(true)
}

/// The delay of the next delta, so that merges keep up with writes: in the end the writer waits for the
/// flusher.
fn throttle(shared: &Shared) -> Duration {
    let since = shared.merging().as_ref().map(|merging| merging.since);
    let view = &shared.published.load().view;
    let arrived = since.map_or(0, |since| view.sequence().get() - since.get());
    let small = view.segments().iter().filter(|segment| segment.sorted().is_small());
    let small = small.map(|segment| segment.documents() as u64).sum();
    ARRIVE.throttle(arrived, view.documents()).max(SMALL.throttle(small, view.documents()))
}

/// How many documents may wait to be merged before writes are throttled: one in `of_documents` of all,
/// but at least `min`.
struct Limit {
    of_documents: u64,
    min: u64,
}

impl Limit {
    /// The delay of a delta while this many documents wait. It grows gradually, so no single write waits
    /// long.
    fn throttle(&self, waiting: u64, documents: u64) -> Duration {
        let free = (documents / self.of_documents).max(self.min);
        let throttle_ms = waiting.saturating_sub(free).saturating_mul(THROTTLE_MS) / free;
        Duration::from_millis(throttle_ms.min(THROTTLE_MS_MAX))
    }
}

/// Merges the newest segments among themselves, but none that is being merged.
fn merge_newest(shared: &Arc<Shared>, max: u64, ratio: u64) -> Result<(), Gone> {
    let merging = shared.merging();
    let apart = merging.as_ref().map_or(&[][..], |merging| &merging.segments);
    let newest = || Work::merge_newest(&shared.published.load().view, apart, max, ratio);
    while let Some(work) = newest() {
        complete(shared, work)?;
    }
    Ok(())
}

/// Does some work, and has the writer put in what comes of it.
fn complete(shared: &Arc<Shared>, work: Work) -> Result<(), Gone> {
    for built in work.steps() {
        send_and_wait(shared, |done| Message::Built { built, done })?;
    }
    Ok(())
}

/// Everything published so far, in segments and tables alone.
fn settle(shared: &Arc<Shared>) -> Result<Settled, Gone> {
    let (frozen, view) = oneshot::channel();
    shared.writer.send(Message::Freeze { frozen }).map_err(|_| Gone)?;
    let frozen = view.blocking_recv().map_err(|_| Gone)?;
    // Only this thread turns deltas into segments, so that after this the segments delay what was
    // frozen and nothing newer; a merge in between changes none of it.
    loop {
        let state = shared.published.load_full();
        let view = &state.view;
        match Work::flush(view) {
            Some(work) if view.full_deltas()[0].after() < frozen.sequence() => {
                complete(shared, work)?;
            }
            _ => return Ok(Settled { frozen, later: view.clone() }),
        }
    }
}

/// Sends a message to the writer and waits until it is handled.
pub(crate) fn send_and_wait(
    shared: &Arc<Shared>,
    message: impl FnOnce(oneshot::Sender<()>) -> Message,
) -> Result<(), Gone> {
    let (done, finished) = oneshot::channel();
    shared.writer.send(message(done)).map_err(|_| Gone)?;
    // The writer drops its end when it is done.
    let _dropped = finished.blocking_recv();
    if shared.writer.is_closed() { Err(Gone) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_held_up_gradually_by_what_waits() {
        let arrive_ms = |waiting, documents| ARRIVE.throttle(waiting, documents).as_millis();
        // A million is free, and a sixteenth of many.
        assert_eq!((arrive_ms(0, 0), arrive_ms(1_000_000, 5_000_000)), (0, 0));
        assert_eq!((arrive_ms(6_250_000, 100_000_000), arrive_ms(6_250_000, 50_000_000)), (0, 100));
        assert_eq!((arrive_ms(1_500_000, 10), arrive_ms(3_000_000, 10)), (50, 200));
        assert_eq!((arrive_ms(6_100_000, 10), arrive_ms(u64::MAX, 10)), (500, 500));
        let small_ms = |waiting, documents| SMALL.throttle(waiting, documents).as_millis();
        assert_eq!((small_ms(8_000_000, 20_000_000), small_ms(12_000_000, 20_000_000)), (0, 50));
        assert_eq!(
            (small_ms(12_500_000, 100_000_000), small_ms(25_000_000, 100_000_000)),
            (0, 100)
        );
    }
}
