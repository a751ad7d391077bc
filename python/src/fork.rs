//! Lets a process fork while other threads use an index, as `multiprocessing` and `gunicorn
//! --preload` do.
//!
//! A forked child has one thread, and a copy of each lock as it was: a lock that another thread
//! held stays locked for ever, and its index may be half changed. So a fork waits until no index is
//! in use, and nobody uses one until it is done.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Read by whoever uses an index, and written by a fork. It protects no value, so a thread that
/// panics breaks nothing.
static FORKS: RwLock<()> = RwLock::new(());

thread_local! {
    /// What the thread that forks holds until the fork is done, in the parent and in the child.
    static FORKING: Cell<Option<RwLockWriteGuard<'static, ()>>> = const { Cell::new(None) };
}

/// Keeps the process from forking until it is dropped. Take it detached from the interpreter, once
/// in a thread, and wait for nothing but the lock of an index meanwhile: a fork that waits for it
/// keeps the interpreter.
pub(crate) fn hold_off() -> RwLockReadGuard<'static, ()> {
    FORKS.read().unwrap_or_else(PoisonError::into_inner)
}

/// How many forks lie between this process and the first.
static GENERATION: AtomicU64 = AtomicU64::new(0);

/// How many forks lie between this process and the first. What another generation made is a copy.
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Waits until no index is in use.
#[pyfunction]
fn before() {
    FORKING.set(Some(FORKS.write().unwrap_or_else(PoisonError::into_inner)));
}

/// Lets indexes be used again.
#[pyfunction]
fn after() {
    FORKING.set(None);
}

/// Lets indexes be used again, in the child.
#[pyfunction]
fn after_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    after();
}

/// Lets the interpreter call these two around each fork, where a process can fork.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let os = py.import("os")?;
    if !os.hasattr("register_at_fork")? {
        return Ok(());
    }
    let hooks = PyDict::new(py);
    hooks.set_item("before", wrap_pyfunction!(before, py)?)?;
    hooks.set_item("after_in_parent", wrap_pyfunction!(after, py)?)?;
    hooks.set_item("after_in_child", wrap_pyfunction!(after_in_child, py)?)?;
    os.call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}
