//! Work that blocks or takes long: on which threads it runs, and how much they give way.

use nearprint_index::memory::file::catch_unreadable;
use nearprint_storage::Records;

use crate::api::error::{Refused, storage_error};

/// Runs `work`, which may read files of the index.
///
/// # Errors
/// Those of the work, and [`Refused::UnreadableIndex`] if a file could not be read, which is
/// logged.
pub(crate) fn reading<T>(work: impl FnOnce() -> Result<T, Refused>) -> Result<T, Refused> {
    catch_unreadable(work).unwrap_or_else(|error| {
        let error = storage_error(error);
        tracing::error!(%error, "a file of the index could not be read");
        Err(Refused::UnreadableIndex)
    })
}

/// Runs `work` on a thread of the runtime that may block.
///
/// # Errors
/// Those of the work, [`Refused::UnreadableIndex`] if a file of the index could not be read, and
/// [`Refused::Failed`] if it panicked.
pub(crate) async fn off_async<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    tokio::task::spawn_blocking(|| reading(work)).await.unwrap_or(Err(Refused::Failed))
}

/// Runs `work` on this thread, with the records that the operating system has in memory. If that
/// fails, runs it again, with all records, on a thread that may block. Most records that are asked
/// for are in memory, and handing the work over costs more than reading them.
///
/// # Errors
/// Those of the work, and [`Refused::Failed`] if it panicked.
pub(crate) async fn with_records<T: Send + 'static>(
    records: &Records,
    work: impl Fn(&Records) -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    if let Ok(done) = work(&records.in_memory()) {
        return Ok(done);
    }
    // Whatever else is wrong will be found again.
    let records = records.clone();
    off_async(move || work(&records)).await
}

/// Lowers the priority of the calling thread by this niceness, so that it gives way to threads that
/// serve. If that is not permitted, it runs at normal priority.
pub(crate) fn lower_priority(niceness: i32) {
    // On Linux each thread has a priority of its own, and `None` is the calling thread.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::setpriority_process(None, niceness) {
        tracing::debug!(%error, "a background thread runs at the priority of look-ups");
    }
    #[cfg(not(target_os = "linux"))]
    let _ = niceness;
}
