//! Fills the directory of a copy: that of a follower from its primary, that of a node from another
//! node.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use axum::http::StatusCode;
use nearprint_client::{EXPORT_BEGINS, PeerError};
use nearprint_engine::OpenError;
use nearprint_engine::cluster::seeding;
use nearprint_engine::following::follower;

use super::options::{Replica, ReplicaKind};

/// A node that has not answered in this time is passed over.
const ANSWERS: Duration = Duration::from_secs(10);

/// Why a directory cannot be filled.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// There is no node to copy.
    #[error("it is empty, and cluster.seeds names no other node")]
    NoSeeds,
    /// None of the seeds can be copied now.
    #[error("{}", Listed(.0))]
    Refused(Vec<SeedRefusal>),
    /// The copy cannot be stored.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Why one seed cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum SeedRefusal {
    /// It does not answer, or refuses.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// It is a service alone.
    #[error("{url} is not a node of a cluster")]
    Alone {
        /// The address.
        url: String,
    },
}

struct Listed<'a>(&'a [SeedRefusal]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, refusal) in self.0.iter().enumerate() {
            let separator = if number == 0 { "" } else { "; " };
            write!(f, "{separator}{refusal}")?;
        }
        Ok(())
    }
}

impl SeedError {
    /// Whether it may go away by itself: nodes that start together wait for each other.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::NoSeeds | Self::Open(_) => false,
            Self::Refused(refusals) => refusals.iter().any(SeedRefusal::may_pass),
        }
    }
}

impl SeedRefusal {
    fn may_pass(&self) -> bool {
        match self {
            Self::Peer(PeerError::Unreachable { .. }) => true,
            Self::Peer(PeerError::Refused { status, .. }) => {
                StatusCode::from_u16(*status).is_ok_and(|status| status.is_server_error())
            }
            Self::Peer(PeerError::Credentials(_)) | Self::Alone { .. } => false,
        }
    }
}

/// Whether the directory of a copy has nothing yet.
///
/// # Errors
/// [`OpenError`]: it has something else.
pub(crate) fn needs_seed(replica: &Replica, data: &Path) -> Result<bool, OpenError> {
    match replica.kind {
        ReplicaKind::Follower { .. } => follower::needs_seed(data),
        ReplicaKind::Node(_) => seeding::needs_seed(data),
    }
}

/// Fills the directory of a copy from the first seed that can be copied. Blocks for as long as that
/// takes.
///
/// # Errors
/// [`SeedError`].
pub(crate) fn seed(replica: &Replica, data: &Path) -> Result<(), SeedError> {
    let mut refusals = Vec::new();
    for url in replica.seeds() {
        match export(replica, url) {
            Ok(mut export) => {
                tracing::info!(from = url, directory = %data.display(), "copying another service");
                let copied = match replica.kind {
                    ReplicaKind::Follower { .. } => follower::seed(&mut export, data, url)?,
                    ReplicaKind::Node(_) => seeding::seed(&mut export, data)?,
                };
                tracing::info!(
                    files = copied.files,
                    bytes = copied.bytes,
                    "copied another service"
                );
                return Ok(());
            }
            Err(refusal) => refusals.push(refusal),
        }
    }
    Err(if refusals.is_empty() { SeedError::NoSeeds } else { SeedError::Refused(refusals) })
}

/// The export of a seed. For a node, a service alone is refused before anything is emptied for it.
fn export(replica: &Replica, url: &str) -> Result<impl std::io::Read + use<>, SeedRefusal> {
    let is_node = matches!(replica.kind, ReplicaKind::Node(_));
    if is_node && !replica.peers.open(url, ANSWERS)?.stats()?["cluster"].is_object() {
        return Err(SeedRefusal::Alone { url: url.to_owned() });
    }
    Ok(replica.peers.open(url, EXPORT_BEGINS)?.export()?)
}
