//! A service that is a copy of others fills its data directory before it starts
//! ([`replicas`](crate::replicas) says from whom, and how).

use std::panic::resume_unwind;
use std::path::PathBuf;
use std::time::Duration;

use nearprint_engine::Engine;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::replicas::{self, Replica, SeedError};

/// What to do where the furthest of all nodes cannot read on.
const NO_SEED_NEXT: &str = "find the node with the highest sequence in /v1/stats, stop all nodes, \
                            and begin a new log at that one: nearprint cluster refound \
                            (docs/cluster.md, Losing the log)";

/// How long it waits before it tries once more.
const AGAIN: Duration = Duration::from_secs(5);

/// Waits until a copy has to begin with the content of another, and there is one that has what it
/// has. It answers look-ups meanwhile; a node halts if all others have less.
pub(crate) async fn wait_for_seed(replica: &Replica, engine: &Engine) {
    engine.outdated().await;
    let mut told = String::new();
    loop {
        let read = engine.node().map_or(0, |status| status.read);
        let (replica, sequence) = (replica.clone(), engine.sequence().get());
        let looking = spawn_blocking(move || replicas::find_seed(&replica, sequence, read)).await;
        match looking.unwrap_or_else(|fault| resume_unwind(fault.into_panic())) {
            Ok(()) => return,
            Err(error) => {
                let why = error.to_string();
                if told != why {
                    tracing::warn!(why, "no other node has all that this one has; waiting");
                }
                if error.is_for_good() {
                    let what = "the log has discarded what this node has not read, and no seed has \
                                what this node has";
                    engine.halt(format!("{what}: {why}; next: {NO_SEED_NEXT}"));
                }
                told = why;
            }
        }
        sleep(AGAIN).await;
    }
}

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
