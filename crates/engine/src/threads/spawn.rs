//! Starts the threads of the engine; a panic in any of them stops the engine.
//!
//! No other thread does the work of one that has panicked: commands would never be answered, deltas
//! never become segments, snapshots never be taken. So the engine treats a panic like a failed
//! write: writes stop for good, every caller gets a reply, and the process exits with an error, so
//! that its supervisor restarts it.
//!
//! Tested by a panic in each thread while callers wait.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use nearprint_index::memory::file::catch_unreadable;

use crate::api::error::{OpenError, storage_error};
use crate::shared::Shared;

/// Starts a thread whose panic fails the engine, as does a file of the index that it cannot read
/// and cannot do without.
///
/// # Errors
/// [`OpenError::System`] if the operating system refuses another thread.
pub(crate) fn spawn(
    shared: &Arc<Shared>,
    name: &'static str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, OpenError> {
    let fails_on_panic = FailsOnPanic { shared: Arc::clone(shared), name };
    let shared = Arc::clone(shared);
    #[cfg(test)]
    let run = tests::or_panic(name, run);
    thread::Builder::new()
        .name(name.into())
        .spawn(move || {
            // The guard is dropped after `run` and its channels, so nobody waits for a dead thread.
            let _fails_on_panic = fails_on_panic;
            if let Err(error) = catch_unreadable(run) {
                shared.fail_by(&storage_error(error));
                shared.fail();
            }
        })
        .map_err(|error| OpenError::System { what: format!("no {name} thread: {error}") })
}

/// A thread that runs until it is stopped.
#[derive(Debug)]
pub(crate) struct Stoppable {
    thread: JoinHandle<()>,
    stop: Sender<()>,
}

impl Stoppable {
    /// Starts a thread. `run` receives the channel that closes when it must stop, and returns its
    /// work.
    ///
    /// # Errors
    /// As [`spawn`].
    pub(crate) fn spawn<F: FnOnce() + Send + 'static>(
        shared: &Arc<Shared>,
        name: &'static str,
        run: impl FnOnce(Receiver<()>) -> F,
    ) -> Result<Self, OpenError> {
        let (stop, stopped) = channel();
        Ok(Self { thread: spawn(shared, name, run(stopped))?, stop })
    }

    /// Stops the thread and waits for its end.
    pub(crate) fn stop(self) {
        drop(self.stop);
        join(self.thread);
    }
}

/// Waits for the end of a thread. If it panicked, the engine has failed already.
pub(crate) fn join(thread: JoinHandle<()>) {
    drop(thread.join());
}

struct FailsOnPanic {
    shared: Arc<Shared>,
    name: &'static str,
}

impl Drop for FailsOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.shared.fail();
            tracing::error!(thread = self.name, "an engine thread panicked; writes have stopped");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use nearprint_fingerprint::Fingerprint;
    use nearprint_fingerprint::recipe::Recipe;
    use nearprint_storage::{DirectoryLock, Disk, SimulatedDisk};

    use super::*;
    use crate::api::error::Refused;
    use crate::api::options::{Durability, Options};
    use crate::api::replies::Readiness;
    use crate::directories::recovery::recover;
    use crate::handle::Engine;
    use crate::write::outbox::Admission;

    const THREADS: [&str; 9] = [
        "writer",
        "snapshots",
        "flusher",
        "merges",
        "syncs",
        "reclaim",
        "removals",
        "groups",
        "disk",
    ];
    /// A hang is a failure; nothing here takes a second.
    const DEADLINE: Duration = Duration::from_mins(1);
    const DELTA_EVENTS: usize = 16;

    thread_local! {
        /// The engine thread that panics as soon as the other end of the channel is dropped.
        static DOOMED: Cell<Option<(&'static str, Receiver<()>)>> = const { Cell::new(None) };
    }

    /// The chosen thread does nothing until the test makes it panic.
    pub(crate) fn or_panic(
        name: &'static str,
        run: impl FnOnce() + Send + 'static,
    ) -> impl FnOnce() + Send + 'static {
        let doomed = match DOOMED.take() {
            Some((doomed, signal)) if doomed == name => Some(signal),
            other => {
                DOOMED.set(other);
                None
            }
        };
        move || {
            if let Some(signal) = doomed {
                assert!(signal.recv().is_ok(), "the test lets this thread panic");
            }
            run();
        }
    }

    /// An engine with a thread that panics when the sender is dropped.
    fn engine(doomed: &'static str) -> (Engine, Sender<()>, tempfile::TempDir) {
        let (panic_now, signal) = channel();
        DOOMED.set(Some((doomed, signal)));
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            lookup_threads: 1,
            durability: Durability::Interval { ms: 20 },
            delta_events: DELTA_EVENTS,
            queue_changes_max: 1_024,
            group_changes_max: 1_024,
            journal_file_bytes: 1 << 20,
            snapshot_interval_ms: 60_000,
            snapshot_changes: 1 << 30,
            disk_free_bytes_min: 0,
            clock_behind_ms_max: None,
            expired_kept_ms: 0,
            ..Options::new(folder.path(), Recipe::Np2)
        };
        let disk: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
        let recovered = recover(&disk, &options, &[0x5e; 40]).unwrap();
        let lock = DirectoryLock::acquire(folder.path()).unwrap();
        let engine =
            Engine::start((options, Arc::new(())), &disk, (recovered, None), lock).unwrap();
        assert!(DOOMED.take().is_none(), "there is a thread named {doomed}");
        (engine, panic_now, folder)
    }

    async fn in_time<T>(what: &str, work: impl Future<Output = T>) -> T {
        let done = tokio::time::timeout(DEADLINE, work).await;
        done.unwrap_or_else(|_| panic!("{what} takes for ever"))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_in_any_thread_fails_the_engine_and_every_caller_is_answered() {
        for name in THREADS {
            let (engine, panic_now, _folder) = engine(name);
            // More than fits into the deltas that may wait for the flusher.
            let mut writes = Vec::new();
            for delta in 0..8 {
                let bits =
                    (0..DELTA_EVENTS as u64).map(|bits| Fingerprint::new(delta << 32 | bits));
                let begun =
                    engine.begin_insert_packed(bits.collect::<Vec<_>>(), Admission::Wait).await;
                writes.push(begun.unwrap());
            }
            let (snapshots, exports) = (engine.clone(), engine.clone());
            let snapshot = tokio::spawn(async move { snapshots.snapshot().await });
            let export = tokio::spawn(async move { exports.export().await });
            assert_eq!(engine.readiness(), Readiness::Ready, "{name}");

            drop(panic_now);
            in_time(name, engine.failed()).await;
            assert_eq!(engine.readiness(), Readiness::Failed, "{name}");
            for write in writes {
                let answered = in_time(name, write.wait()).await;
                assert!(matches!(answered, Ok(_) | Err(Refused::Failed)), "{name}: {answered:?}");
            }
            drop(in_time(name, snapshot).await.unwrap());
            drop(in_time(name, export).await.unwrap());
            let late = vec![Fingerprint::new(1)];
            let late = engine.begin_insert_packed(late, Admission::Wait).await.map(drop);
            assert_eq!(late, Err(Refused::Failed), "{name}");
            in_time(name, tokio::task::spawn_blocking(move || engine.close())).await.unwrap();
        }
    }
}
