//! Work detached from the interpreter: other threads of Python run meanwhile, a panic becomes an
//! exception, and Ctrl-C ends a long batch.

use std::any::Any;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors;

/// Shorter documents are analysed attached to the interpreter: in some microseconds, less than
/// another thread takes to wake up.
pub(crate) const DETACHED_BYTES_MIN: usize = 2 << 10;

/// Fewer bytes than this are not worth a thread, which takes some ten microseconds to begin.
const THREAD_BYTES_MIN: usize = 64 << 10;

/// Rows that a thread takes at a time.
const BLOCK: usize = 32;

/// How often a long batch looks for Ctrl-C.
const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// Why a thread ended early.
type Panic = Box<dyn Any + Send>;

/// Does work on so many bytes, detached from the interpreter if that is worth it.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    bytes: usize,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let guarded = || catch_unwind(AssertUnwindSafe(work));
    let done = if bytes < DETACHED_BYTES_MIN { guarded() } else { py.detach(guarded) };
    done.map_err(|panic| errors::panicked(py, &*panic))
}

/// The number of threads of a batch: those that the caller allows, or one a core.
pub(crate) fn threads(py: Python<'_>, allowed: Option<usize>) -> PyResult<NonZero<usize>> {
    match allowed {
        Some(threads) => NonZero::new(threads)
            .ok_or_else(|| errors::invalid(py, &"threads", "a batch needs at least one")),
        None => Ok(thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN)),
    }
}

/// Maps rows, which have so many bytes together, on some threads.
///
/// # Errors
/// The exception of Ctrl-C, or of a panic.
pub(crate) fn map<R: Sync, T: Send + Default>(
    py: Python<'_>,
    (rows, bytes): (&[R], usize),
    threads: NonZero<usize>,
    work: impl Fn(&R) -> T + Sync,
) -> PyResult<Vec<T>> {
    let mut results = Vec::new();
    results.resize_with(rows.len(), T::default);
    let blocks = Mutex::new(rows.chunks(BLOCK).zip(results.chunks_mut(BLOCK)));
    let is_cancelled = AtomicBool::new(false);
    let next = || {
        let mut blocks = blocks.lock().expect("no thread panics while it holds the lock");
        if is_cancelled.load(Ordering::Relaxed) { None } else { blocks.next() }
    };
    let job = || {
        while let Some((rows, results)) = next() {
            for (row, result) in rows.iter().zip(results) {
                *result = work(row);
            }
        }
    };
    if bytes < THREAD_BYTES_MIN {
        detached(py, bytes, job)?;
        return Ok(results);
    }
    let threads = threads.get().min(rows.len().div_ceil(BLOCK)).min(bytes / THREAD_BYTES_MIN);
    watched(py, threads, &job, &is_cancelled)?;
    Ok(results)
}

/// Runs a job on some threads, and tells it when Ctrl-C came, so that it ends early.
///
/// # Errors
/// The exception of Ctrl-C, or of a panic.
pub(crate) fn watched(
    py: Python<'_>,
    threads: usize,
    job: &(impl Fn() + Sync),
    is_cancelled: &AtomicBool,
) -> PyResult<()> {
    let watch = || {
        Python::attach(|py| {
            let interrupted = py.check_signals();
            is_cancelled.fetch_or(interrupted.is_err(), Ordering::Relaxed);
            interrupted
        })
    };
    let done = py.detach(|| on_threads(threads, job, watch));
    done.map_err(|panic| errors::panicked(py, &*panic))?
}

/// Runs a job on so many threads, and calls `watch` now and then until it fails.
fn on_threads<E: Send>(
    threads: usize,
    job: &(impl Fn() + Sync),
    watch: impl Fn() -> Result<(), E>,
) -> Result<Result<(), E>, Panic> {
    thread::scope(|scope| {
        let (ends, ended) = channel::<()>();
        let spawn = |_| {
            let ends = ends.clone();
            thread::Builder::new().spawn_scoped(scope, move || {
                let _ends = ends;
                job();
            })
        };
        // Where the system gives no further thread, those that began do all.
        let threads: Vec<_> = (0..threads).map_while(|number| spawn(number).ok()).collect();
        if threads.is_empty() {
            job();
        }
        drop(ends);
        let mut watched = Ok(());
        while ended.recv_timeout(SIGNALS_EVERY) == Err(RecvTimeoutError::Timeout) {
            if watched.is_ok() {
                watched = watch();
            }
        }
        let ends: Result<Vec<()>, Panic> =
            threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        ends.map(|_| watched)
    })
}
