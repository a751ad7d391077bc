//! Writes that reach the writer together.
//!
//! The writer wakes at the first write that it gets, and syncs the disk for what has arrived by
//! then. Who has several collects them in an [`Outbox`] and sends them in one message, so that they
//! share a sync.

use std::fmt;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt as _;

use crate::write::queued::QueuedWrite;

/// What a write does if the queue is full.
#[derive(Debug, Clone, Copy)]
pub enum Admission<'a> {
    /// It is refused with [`Refused::Overloaded`](crate::Refused::Overloaded): single
    /// requests.
    Shed,
    /// It waits, which slows its client down: batches.
    Wait,
    /// It waits, and is then collected in an outbox ([`Outbox::wait_for`]).
    Collect(&'a Outbox),
}

/// Takes the writes that were collected, in their order.
type SendAll = dyn Fn(Vec<Box<dyn QueuedWrite>>) + Send + Sync;

/// Collects writes until they are sent, at the latest when it is dropped.
pub struct Outbox {
    send: Box<SendAll>,
    writes: Mutex<Vec<Box<dyn QueuedWrite>>>,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("writes", &self.writes).finish_non_exhaustive()
    }
}

impl Outbox {
    pub(crate) fn new(send: Box<SendAll>) -> Self {
        Self { send, writes: Mutex::default() }
    }

    pub(crate) fn put(&self, write: Box<dyn QueuedWrite>) {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner).push(write);
    }

    /// Waits for something, such as room in the queue or a reply. Unless that is ready at once,
    /// what was collected is sent first: until then it is not done, and keeps its room.
    pub async fn wait_for<T>(&self, awaited: impl Future<Output = T>) -> T {
        let mut awaited = pin!(awaited);
        if let Some(ready) = awaited.as_mut().now_or_never() {
            return ready;
        }
        self.send();
        awaited.await
    }

    fn send(&self) {
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        if !writes.is_empty() {
            (self.send)(std::mem::take(&mut *writes));
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.send();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use nearprint_fingerprint::Fingerprint;
    use nearprint_fingerprint::recipe::Recipe;
    use nearprint_machine::commands::Insert;
    use nearprint_machine::document::Document;

    use super::*;
    use crate::api::options::Options;
    use crate::handle::Engine;

    #[tokio::test]
    async fn what_is_collected_is_done_in_its_order_once_something_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::open(Options::new(directory.path(), Recipe::Features)).unwrap();
        let insert = |bits| Insert::from(Document::bare(Fingerprint::new(bits)));
        let outbox = engine.outbox();
        let mut pending = Vec::new();
        for bits in 0..5 {
            let begun = engine.begin_insert(insert(bits), Admission::Collect(&outbox));
            pending.push(outbox.wait_for(begun).await.unwrap());
        }
        // Nothing had to be waited for, so nothing was sent.
        assert_eq!(outbox.writes.lock().unwrap().len(), 5);
        let mut sequences = Vec::new();
        for pending in pending {
            let written = outbox.wait_for(pending.wait()).await.unwrap().written;
            sequences.push(written.sequence.get());
        }
        assert_eq!(sequences, [1, 2, 3, 4, 5]);
        let last = engine.begin_insert(insert(9), Admission::Collect(&outbox)).await.unwrap();
        drop(outbox);
        assert!(last.wait().await.is_ok());
        tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
    }

    #[tokio::test]
    async fn room_that_collected_writes_take_is_given_back() {
        let directory = tempfile::tempdir().unwrap();
        let options = Options::new(directory.path(), Recipe::Features);
        let engine = Engine::open(Options { queue_changes_max: 4, ..options }).unwrap();
        let outbox = engine.outbox();
        for bits in 0..20 {
            let insert = Insert::from(Document::bare(Fingerprint::new(bits)));
            let begun = engine.begin_insert(insert, Admission::Collect(&outbox));
            drop(outbox.wait_for(begun).await.unwrap());
        }
        drop(outbox);
        tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
    }

    #[tokio::test]
    async fn after_the_end_what_was_collected_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::open(Options::new(directory.path(), Recipe::Features)).unwrap();
        let outbox = engine.outbox();
        let insert = Insert::from(Document::bare(Fingerprint::new(1)));
        let pending = engine.begin_insert(insert, Admission::Collect(&outbox)).await.unwrap();
        tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
        let mut waiting = pin!(pending.wait());
        let polled = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
        drop(outbox);
        waiting.await.unwrap_err();
    }
}
