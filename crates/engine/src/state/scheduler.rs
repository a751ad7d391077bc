//! The batch scheduler: how the look-ups of batches share the cores.
//!
//! A batch is looked up in pieces of [`PIECE`] fingerprints, or fewer at distances at which they
//! would take long. The pieces run on the `engine.lookup_threads` threads of a
//! [fair queue](crate::state::fair_queue). The replies are joined in the order of the queries. A
//! request has no more pieces waiting or running than there are threads, so a small batch and a
//! batch of a million of the same client take turns, too. Single look-ups run on the async threads,
//! which they occupy only briefly. Those that take long, in a crowd or at a large distance, are
//! pieces of their own.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use nearprint_fingerprint::Fingerprint;
use tokio::sync::Semaphore;

use crate::api::client::Client;
use crate::api::error::{OpenError, Refused};
use crate::state::fair_queue::FairQueue;

/// The largest number of fingerprints looked up in one piece: about a millisecond at distance 3
/// in ten million.
const PIECE: usize = 2_048;

/// The largest number of cells that the look-ups of a piece visit, about: ten milliseconds.
const PIECE_CELLS: usize = 1 << 19;

/// The size of a piece whose look-ups visit this many cells each.
pub(crate) fn piece(cells: usize) -> usize {
    (PIECE_CELLS / cells.max(1)).clamp(1, PIECE)
}

/// The threads that all requests share.
#[derive(Debug)]
pub(crate) struct BatchScheduler {
    threads: usize,
    queue: Arc<FairQueue>,
}

/// One request's share of the threads. Clones are the same share.
#[derive(Debug, Clone)]
pub struct Share {
    threads: usize,
    /// A permit for each of its pieces that may wait or run. Without it a request with more pieces
    /// would get more of what its client has.
    own: Arc<Semaphore>,
    queue: Arc<FairQueue>,
    client: Option<Client>,
}

impl BatchScheduler {
    /// This many threads; 0 means one for each core.
    ///
    /// # Errors
    /// [`OpenError::System`] if the operating system refuses a thread.
    pub(crate) fn start(threads: usize) -> Result<Self, OpenError> {
        let (queue, threads) = FairQueue::start("look-ups", threads, |cores| cores)?;
        Ok(Self { threads, queue: Arc::new(queue) })
    }

    /// The share of a new request of a client.
    pub(crate) fn share(&self, client: Option<Client>) -> Share {
        let own = Arc::new(Semaphore::new(self.threads));
        Share { threads: self.threads, own, queue: Arc::clone(&self.queue), client }
    }
}

impl Share {
    /// Looks up all queries in pieces of `size`; one byte each, in their order.
    pub(crate) async fn look_up<F>(
        &self,
        queries: &Arc<[Fingerprint]>,
        size: usize,
        look_up: F,
    ) -> Result<Vec<u8>, Refused>
    where
        F: Fn(&[Fingerprint]) -> Vec<u8> + Clone + Send + 'static,
    {
        let pieces = (0..queries.len()).step_by(size).map(|first| {
            let (queries, look_up) = (Arc::clone(queries), look_up.clone());
            let end = queries.len().min(first + size);
            self.run(move || look_up(&queries[first..end]))
        });
        stream::iter(pieces).buffered(self.threads).try_concat().await
    }

    /// Runs a piece of work when it has its turn.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Refused> {
        let own = Arc::clone(&self.own).acquire_owned().await.expect("never closed");
        let work = move || {
            // The work keeps its permit, because it continues even if nobody waits for it.
            let _own = own;
            work()
        };
        self.queue.run(self.client.clone(), work).await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::{Mutex, mpsc};

    use futures_util::FutureExt as _;

    use super::*;

    /// Queries whose fingerprints show which batch a piece belongs to.
    fn queries(bits: u64, pieces: usize) -> Arc<[Fingerprint]> {
        vec![Fingerprint::new(bits); pieces * PIECE].into()
    }

    #[tokio::test]
    async fn a_small_batch_does_not_wait_for_the_end_of_a_huge_one() {
        const HUGE: u64 = 1;
        const SMALL: u64 = 2;
        let scheduler = BatchScheduler::start(1).unwrap();
        let ran = Arc::new(Mutex::new(Vec::new()));
        let (go, gate) = mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        let log = Arc::clone(&ran);
        // The first piece runs until the gate opens.
        let run = move |piece: &[Fingerprint]| {
            assert!(gate.lock().unwrap().recv().is_err(), "it opens by closing");
            log.lock().unwrap().push(piece[0].bits());
            vec![0; piece.len()]
        };
        let (huge, small) = (scheduler.share(None), scheduler.share(None));
        // Several chunks are under way, as with a packed body.
        let chunks = [queries(HUGE, 8), queries(HUGE, 8), queries(HUGE, 8)];
        let chunks = chunks.each_ref().map(|chunk| huge.look_up(chunk, PIECE, run.clone()));
        let mut huge = pin!(futures_util::future::join_all(chunks));
        let eight = queries(SMALL, 8);
        let mut small = pin!(small.look_up(&eight, PIECE, run));
        assert!(huge.as_mut().now_or_never().is_none(), "its first piece runs");
        assert!(small.as_mut().now_or_never().is_none(), "it comes later, and asks");
        drop(go);
        let (huge, small) = tokio::join!(huge, small);
        let answered: usize = huge.into_iter().map(|chunk| chunk.unwrap().len()).sum();
        assert_eq!((answered, small.unwrap().len()), (24 * PIECE, 8 * PIECE));
        let ran = ran.lock().unwrap();
        let last = ran.iter().rposition(|&batch| batch == SMALL).unwrap();
        let before = ran[..last].iter().filter(|&&batch| batch == HUGE).count();
        // One piece of each in turn, and one more of the huge batch whenever a piece ends before
        // the next of the small batch waits. Without shares it would be all 24.
        assert!(before <= 14, "they take turns: {ran:?}");
    }

    #[tokio::test]
    async fn answers_come_in_the_order_of_the_queries() {
        let queries: Arc<[Fingerprint]> = (0..20_000).map(Fingerprint::new).collect();
        let low_bytes = |piece: &[Fingerprint]| {
            piece.iter().map(|query| query.bits().to_le_bytes()[0]).collect::<Vec<_>>()
        };
        let expected = low_bytes(&queries);
        for threads in [0, 1, 2, 8] {
            let share = BatchScheduler::start(threads).unwrap().share(None);
            for size in [PIECE, 7] {
                let answers = share.look_up(&queries, size, low_bytes).await.unwrap();
                assert_eq!(answers, expected, "{threads}");
            }
        }
    }

    #[test]
    fn pieces_of_costly_look_ups_are_shorter_and_never_empty() {
        let sizes = [0, 33, 256, 512, 8_192, usize::MAX].map(piece);
        assert_eq!(sizes, [PIECE, PIECE, PIECE, 1_024, 64, 1]);
    }
}
