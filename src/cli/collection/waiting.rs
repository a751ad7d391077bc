//! Prints what a command is waiting for.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// A service that is silent for so long is waited for, which the command says.
const SILENCE: Duration = Duration::from_secs(3);

/// Watches how long the work on one reply takes.
pub(super) struct WaitNotice {
    /// Odd while the command waits; each wait has a number of its own.
    waits: Arc<AtomicU64>,
    /// Dropped, it ends the thread.
    _end: Sender<()>,
}

impl WaitNotice {
    /// Says on standard error for what the command waits, once for each wait that is long.
    pub(super) fn new(message: String) -> Self {
        let waits = Arc::new(AtomicU64::new(0));
        let (end, ended) = mpsc::channel();
        let watched = Arc::clone(&waits);
        let watch = move || {
            // The first wait begins at once.
            let mut last = 1;
            let mut said = 0;
            while ended.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout) {
                let wait = watched.load(Ordering::Relaxed);
                if wait == last && wait % 2 == 1 && wait != said {
                    said = wait;
                    say!("{message}");
                }
                last = wait;
            }
        };
        // Without the thread, the command waits in silence.
        drop(thread::Builder::new().name("notice".to_owned()).spawn(watch));
        Self { waits, _end: end }
    }

    /// Waits.
    pub(super) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.waits.fetch_add(1, Ordering::Relaxed);
        let result = work();
        self.waits.fetch_add(1, Ordering::Relaxed);
        result
    }
}

/// A body whose pauses are watched, and whose errors have the address that it is from.
pub(super) struct NoticedBody<R> {
    pub(super) body: R,
    pub(super) notice: Option<WaitNotice>,
    pub(super) address: String,
}

impl<R: Read> Read for NoticedBody<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Self { body, notice, address } = self;
        let read = match notice {
            Some(notice) => notice.during(|| body.read(buffer)),
            None => body.read(buffer),
        };
        read.map_err(|error| io::Error::new(error.kind(), format!("from {address}: {error}")))
    }
}
