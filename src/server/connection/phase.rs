//! What a connection is doing. The accept loop, the stream and the service of a connection share
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::Waker;

use futures_util::task::AtomicWaker;

/// The connection waits for the rest of a request head.
pub(crate) const HEAD: u8 = 0;
/// A request is being answered.
pub(crate) const BUSY: u8 = 1;
/// The connection is between requests.
pub(crate) const IDLE: u8 = 2;
/// The last reply is written, and the client has not closed the connection yet.
pub(crate) const LINGERING: u8 = 3;
/// The connection is new and waits for its first request head.
pub(crate) const NEW: u8 = 4;
/// The connection was closed to make room for another one.
const EVICTED: u8 = 5;
/// The connection is gone.
const ENDED: u8 = 6;

/// The service runs.
const RUNNING: u8 = 0;
/// The service stops: the connection ends after the request in hand.
const STOPPING: u8 = 1;
/// The service reads no more of a body.
const REFUSING: u8 = 2;

/// What a connection is doing.
#[derive(Debug, Clone)]
pub(crate) struct Phase(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    phase: AtomicU8,
    stop: AtomicU8,
    /// Who reads the body of the request.
    reader: AtomicWaker,
}

impl Phase {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared {
            phase: AtomicU8::new(NEW),
            stop: AtomicU8::new(RUNNING),
            reader: AtomicWaker::new(),
        }))
    }

    /// A request has arrived; it is answered until the returned value is dropped. `None` if the
    /// connection was evicted or has ended.
    pub(crate) fn busy(&self) -> Option<Busy> {
        let before = self.0.phase.swap(BUSY, Ordering::Relaxed);
        let is_over = matches!(before, EVICTED | ENDED);
        (!is_over).then(|| Busy(self.clone()))
    }

    /// Whether a request is being answered.
    pub(crate) fn is_busy(&self) -> bool {
        self.get() == BUSY
    }

    /// Evicts a connection without a request so far; false if it has made one, or has ended.
    pub(crate) fn evict_new(&self) -> bool {
        self.evict(NEW)
    }

    /// Evicts a connection between two requests; false if it does anything else, or has ended.
    pub(crate) fn evict_idle(&self) -> bool {
        self.evict(IDLE)
    }

    fn evict(&self, from: u8) -> bool {
        let phase = &self.0.phase;
        phase.compare_exchange(from, EVICTED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether the connection was neither evicted nor has ended.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.get(), EVICTED | ENDED)
    }

    /// Whether no complete head of a request has arrived since the last reply, but perhaps a part.
    pub(crate) fn awaits_head(&self) -> bool {
        matches!(self.get(), NEW | HEAD)
    }

    /// The service stops.
    pub(crate) fn stop(&self) {
        self.0.stop.store(STOPPING, Ordering::Relaxed);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.0.stop.load(Ordering::Relaxed) != RUNNING
    }

    /// From now on the body of the request is read no further.
    pub(crate) fn refuse_body(&self) {
        // Release and acquire: a reader that is not woken has seen it.
        self.0.stop.store(REFUSING, Ordering::Release);
        self.0.reader.wake();
    }

    pub(crate) fn refuses_body(&self) -> bool {
        self.0.stop.load(Ordering::Acquire) == REFUSING
    }

    /// Wakes the reader of the body when it is refused.
    pub(crate) fn wakes_on_refusal(&self, reader: &Waker) {
        self.0.reader.register(reader);
    }

    pub(crate) fn end(&self) {
        self.set(ENDED);
    }

    // Relaxed: the number guards nothing else. Only an eviction comes from another task, and both
    // of its outcomes are right.
    pub(crate) fn get(&self) -> u8 {
        self.0.phase.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self, phase: u8) {
        self.0.phase.store(phase, Ordering::Relaxed);
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Busy(Phase);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set(IDLE);
    }
}
