//! The flusher: the thread that turns full deltas into segments, as soon as they are full.
//!
//! It is a thread of its own because nothing else may hold it up: with too many full deltas the
//! writer waits (see [`crate::engine::writer`]). While a long merge is under way it also merges the
//! newest segments among themselves, since every look-up visits each of them; that makes it slower, and
//! in the end the writer, so that they stay few. A snapshot needs a view without deltas; only this
//! thread makes segments of deltas, so it is asked for one.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::engine::shared::{Message, Shared};
use crate::index::view::Parts;
use crate::index::work::Work;

/// How often it looks for a delta that nobody woke it for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// It merges at most so many entries at a time: a fraction of a second.
const NEWEST_MAX: u64 = 1 << 20;

/// Somebody wants everything that is published, in segments and tables alone.
pub(crate) type PartsRequest = oneshot::Sender<Parts>;

/// The engine is gone: no more work.
#[derive(Debug)]
pub(crate) struct Gone;

/// Runs until nobody can ask it any more.
pub(crate) fn run(shared: &Arc<Shared>, requests: &Receiver<PartsRequest>) {
    shared.flusher.get_or_init(thread::current);
    loop {
        match requests.try_recv() {
            Ok(request) => {
                if let Ok(parts) = parts(shared) {
                    // A snapshot that was given up needs none.
                    drop(request.send(parts));
                }
            }
            Err(TryRecvError::Empty) => {
                // With the engine gone, what is left in deltas is in the journal.
                let flushed = flush(shared);
                debug_assert!(
                    flushed.is_ok() || shared.writer.is_closed(),
                    "only a writer ends it"
                );
                thread::park_timeout(LOOK_EVERY);
            }
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

/// Builds a level of each full delta, oldest first.
fn flush(shared: &Arc<Shared>) -> Result<(), Gone> {
    while let Some(work) = Work::flush(&shared.published.load().view) {
        let built = work.run();
        tell(shared, |done| Message::Built { built, done })?;
        merge_newest(shared)?;
    }
    Ok(())
}

/// Keeps the newest segments few while others are merged.
fn merge_newest(shared: &Arc<Shared>) -> Result<(), Gone> {
    let merging = shared.merging();
    let Some(apart) = &*merging else { return Ok(()) };
    while let Some(work) = Work::merge_newest(&shared.published.load().view, apart, NEWEST_MAX) {
        let built = work.run();
        tell(shared, |done| Message::Built { built, done })?;
    }
    Ok(())
}

/// Everything published so far, in segments and tables alone.
fn parts(shared: &Arc<Shared>) -> Result<Parts, Gone> {
    let (frozen, view) = oneshot::channel();
    shared.writer.send(Message::Freeze { frozen }).map_err(|_| Gone)?;
    let frozen = view.blocking_recv().map_err(|_| Gone)?;
    // Only this thread turns deltas into segments, so that after this the segments hold what was
    // frozen and nothing newer; a merge in between changes none of it.
    loop {
        let state = shared.published.load_full();
        let view = &state.view;
        match Work::flush(view) {
            Some(work) if view.full_deltas()[0].after() < frozen.sequence() => {
                let built = work.run();
                tell(shared, |done| Message::Built { built, done })?;
            }
            _ => return Ok(view.parts_of(&frozen)),
        }
    }
}

/// Tells the writer, and waits until it has done what it was told.
pub(crate) fn tell(
    shared: &Arc<Shared>,
    message: impl FnOnce(oneshot::Sender<()>) -> Message,
) -> Result<(), Gone> {
    let (done, finished) = oneshot::channel();
    shared.writer.send(message(done)).map_err(|_| Gone)?;
    // The writer drops its end when it is done.
    let _dropped = finished.blocking_recv();
    if shared.writer.is_closed() { Err(Gone) } else { Ok(()) }
}
