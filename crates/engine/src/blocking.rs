//! Work that may block, on threads that may block.

use crate::api::error::Refused;

/// Runs `work` on a thread of the runtime that may block.
///
/// # Errors
/// Those of the work, and [`Refused::Failed`] if it panicked.
pub(crate) async fn off_async<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refused> + Send + 'static,
) -> Result<T, Refused> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Refused::Failed))
}
