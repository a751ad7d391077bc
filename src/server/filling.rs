//! A service that is a copy of others fills its data directory before it starts
//! ([`replicas`](crate::replicas) says from whom, and how).

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::replicas::{self, Replica, SeedError};

/// How long it waits before it tries once more.
const AGAIN: Duration = Duration::from_secs(5);

/// Fills the directory of a copy. A service that has served before tries until it succeeds; a new
/// one says at once what is wrong, unless it is that nobody has started yet whom it could copy.
///
/// # Errors
/// [`SeedError`].
pub(crate) async fn fill(
    replica: Replica,
    data: PathBuf,
    has_served: bool,
) -> Result<(), SeedError> {
    loop {
        let (replica, data) = (replica.clone(), data.clone());
        let copying = spawn_blocking(move || replicas::seed(&replica, &data)).await;
        match copying.unwrap_or_else(|fault| resume_unwind(fault.into_panic())) {
            Err(error)
                if has_served && !matches!(error, SeedError::NoSeeds) || error.may_pass() =>
            {
                tracing::warn!(%error, "the data directory is not filled; retrying");
                sleep(AGAIN).await;
            }
            filled => return filled,
        }
    }
}
