//! The flusher: the thread that turns full deltas into segments, as soon as they are full.
//!
//! It is a thread of its own because nothing else may delay it: with too many full deltas the
//! writer waits ([`crate::engine::write::writer`]). It also merges the newest segments among
//! themselves, and delays the next delta when writes must be throttled; the compaction policy
//! ([`policy`]) says when. The writer then waits for it. A snapshot needs a view without deltas,
//! and asks this thread for one, since no other turns deltas into segments.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::engine::background::pause::Writes;
use crate::engine::shared::{Message, Shared};
use crate::index::compaction::policy::{self, Load};
use crate::index::compaction::work::Work;
use crate::index::view::{Parts, View};
use crate::metrics;

/// How often it checks for a full delta without being woken.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A request for everything that is published, without deltas.
pub(crate) type SettleRequest = oneshot::Sender<Settled>;

/// A view whose deltas have become segments.
#[derive(Debug)]
pub(crate) struct Settled {
    frozen: View,
    /// A later one: its segments and tables have what was frozen, and nothing newer.
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
                let load = writes.load(shared);
                if waited < delay && load == Load::Writing {
                    continue;
                }
                if !waited.is_zero() {
                    metrics::writes_held_up(waited);
                }
                (delay, waited) = (Duration::ZERO, Duration::ZERO);
                match flush(shared, load) {
                    Ok(true) if load == Load::Writing => delay = write_delay(shared),
                    Ok(true) => {}
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

/// Builds a segment from the oldest full delta, if there is one, and keeps the newest segments few.
fn flush(shared: &Arc<Shared>, load: Load) -> Result<bool, Gone> {
    let work = shared.published.load().view.next_flush();
    let Some(work) = work else {
        if load != Load::Writing {
            merge_newest(shared, load)?;
        }
        return Ok(false);
    };
    complete(shared, work)?;
    merge_newest(shared, Load::Writing)?;
    Ok(true)
}

/// How long the next delta is delayed.
fn write_delay(shared: &Shared) -> Duration {
    let since = shared.merging().as_ref().map(|merging| merging.since);
    let view = &shared.published.load().view;
    let arrived = since.map_or(0, |since| view.sequence().get() - since.get());
    policy::write_delay(&view.sizes(), arrived)
}

/// Merges the newest segments among themselves, but none that is being merged.
fn merge_newest(shared: &Arc<Shared>, load: Load) -> Result<(), Gone> {
    let merging = shared.merging();
    let owned = merging.as_ref().map(|merging| &merging.segments[..]);
    while let Some(work) = shared.published.load().view.next_merge_of_newest(owned, load) {
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
    // Only this thread turns deltas into segments, so that after this the segments have what was
    // frozen and nothing newer; a merge in between changes none of it.
    loop {
        let state = shared.published.load_full();
        let view = &state.view;
        match view.next_flush() {
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
