//! Fills the directory of a copy: that of a follower from its primary, that of a node from another
//! node.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use axum::http::StatusCode;
use nearprint_client::{EXPORT_BEGINS, PeerError};
use nearprint_engine::OpenError;
use nearprint_engine::cluster::{offline, seeding};
use nearprint_engine::following::follower;
use serde_json::Value;

use super::options::{Replica, ReplicaKind};

/// A node that has not answered in this time is passed over.
const ANSWERS: Duration = Duration::from_secs(10);

/// Why a directory cannot be filled.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    /// There is no node to copy.
    #[error("cluster.seeds names no other node that it could copy")]
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
    /// It has less than the node that would copy it.
    #[error(
        "{url} has change {sequence} and has read the log to entry {read}; this node has change \
         {own_sequence} and entry {own_read}"
    )]
    Behind {
        /// The address.
        url: String,
        /// Its last change.
        sequence: u64,
        /// The last entry of the log that it has read.
        read: u64,
        /// The last change of the node that asks.
        own_sequence: u64,
        /// The last entry that it has read.
        own_read: u64,
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

    /// Whether every seed has answered, and has less: time alone does not mend it.
    pub(crate) fn is_for_good(&self) -> bool {
        let Self::Refused(refusals) = self else { return matches!(self, Self::NoSeeds) };
        refusals.iter().all(|refusal| matches!(refusal, SeedRefusal::Behind { .. }))
    }
}

impl SeedRefusal {
    fn may_pass(&self) -> bool {
        match self {
            Self::Peer(PeerError::Unreachable { .. }) => true,
            Self::Peer(PeerError::Refused { status, .. }) => {
                StatusCode::from_u16(*status).is_ok_and(|status| status.is_server_error())
            }
            Self::Peer(PeerError::Credentials(_)) | Self::Alone { .. } | Self::Behind { .. } => {
                false
            }
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
    let own = match replica.kind {
        ReplicaKind::Follower { .. } => None,
        ReplicaKind::Node(_) => has_now(data)?,
    };
    let (url, mut export) = first_of(replica, |url| export(replica, url, own))?;
    tracing::info!(from = url, directory = %data.display(), "copying another service");
    let copied = match replica.kind {
        ReplicaKind::Follower { .. } => follower::seed(&mut export, data, url)?,
        ReplicaKind::Node(_) => seeding::seed(&mut export, data)?,
    };
    tracing::info!(files = copied.files, bytes = copied.bytes, "copied another service");
    Ok(())
}

/// Whether there is a seed that has the changes of this copy up to a sequence, and has read the log
/// beyond an entry. The primary of a follower has compared that already.
///
/// # Errors
/// [`SeedError`].
pub(crate) fn find_seed(replica: &Replica, sequence: u64, read: u64) -> Result<(), SeedError> {
    match replica.kind {
        ReplicaKind::Follower { .. } => Ok(()),
        ReplicaKind::Node(_) => {
            let own = Some((sequence, read));
            first_of(replica, |url| has_more(replica, url, own)).map(drop)
        }
    }
}

/// The first seed that can be used, and what it gives.
fn first_of<T>(
    replica: &Replica,
    ask: impl Fn(&str) -> Result<T, SeedRefusal>,
) -> Result<(&str, T), SeedError> {
    let mut refusals = Vec::new();
    for url in replica.seeds() {
        match ask(url) {
            Ok(given) => return Ok((url, given)),
            Err(refusal) => refusals.push(refusal),
        }
    }
    Err(if refusals.is_empty() { SeedError::NoSeeds } else { SeedError::Refused(refusals) })
}

/// Whether a service is a node, and has what a node has that would copy it.
fn has_more(replica: &Replica, url: &str, own: Option<(u64, u64)>) -> Result<(), SeedRefusal> {
    compare(url, &replica.peers.open(url, ANSWERS)?.stats()?, own)
}

/// The same by the statistics of the service.
fn compare(url: &str, stats: &Value, own: Option<(u64, u64)>) -> Result<(), SeedRefusal> {
    let url = url.to_owned();
    if !stats["cluster"].is_object() {
        return Err(SeedRefusal::Alone { url });
    }
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let (sequence, read) = (number(&stats["sequence"]), number(&stats["cluster"]["read"]));
    match own {
        Some((own_sequence, own_read)) if sequence < own_sequence || read <= own_read => {
            Err(SeedRefusal::Behind { url, sequence, read, own_sequence, own_read })
        }
        Some(_) | None => Ok(()),
    }
}

/// The last change of the node in a directory, and the last entry that it has read; `None` if it is
/// not there, or not whole.
fn has_now(data: &Path) -> Result<Option<(u64, u64)>, OpenError> {
    if seeding::needs_seed(data)? {
        return Ok(None);
    }
    let file = offline::read(data)?;
    Ok(file.map(|file| (file.position.next - 1, file.position.at)))
}

/// The export of a seed. A node refuses a service that is not a node or has less, before its own
/// directory is emptied.
fn export(
    replica: &Replica,
    url: &str,
    own: Option<(u64, u64)>,
) -> Result<impl std::io::Read + use<>, SeedRefusal> {
    if matches!(replica.kind, ReplicaKind::Node(_)) {
        has_more(replica, url, own)?;
    }
    Ok(replica.peers.open(url, EXPORT_BEGINS)?.export()?)
}

#[cfg(test)]
mod tests {
    use nearprint_client::ClientError;
    use serde_json::json;

    use super::*;

    const OTHER: &str = "http://10.0.0.2:7878";

    #[test]
    fn a_node_copies_nobody_who_has_less_or_cannot_read_on_either() {
        let node = |sequence, read| json!({"sequence": sequence, "cluster": {"read": read}});
        let refuses = |stats: &Value, own| compare(OTHER, stats, own).is_err();
        // 40 changes, and entry 45 of the log.
        let own = Some((40, 45));
        assert!(!refuses(&node(40, 79), own) && !refuses(&node(60, 79), own));
        assert!(refuses(&node(20, 79), own), "its own last changes would be lost");
        assert!(refuses(&node(40, 45), own), "it lacks the same entries");
        assert!(!refuses(&node(0, 0), None), "an empty directory has nothing to lose");
        assert!(refuses(&json!({"sequence": 90}), None), "a service alone");
    }

    #[test]
    fn a_node_waits_for_a_seed_that_does_not_answer_and_for_no_other() {
        let behind = || compare(OTHER, &json!({"sequence": 1, "cluster": {}}), Some((2, 3)));
        let behind = || behind().expect_err("it has less");
        let away = || {
            let (url, why) = (OTHER.to_owned(), ClientError::NoAnswer("refused".to_owned()));
            SeedRefusal::Peer(PeerError::Unreachable { url, source: why })
        };
        assert!(SeedError::Refused(vec![behind(), behind()]).is_for_good());
        assert!(!SeedError::Refused(vec![behind(), away()]).is_for_good());
        assert!(SeedError::NoSeeds.is_for_good());
        let why = behind().to_string();
        let expected = "http://10.0.0.2:7878 has change 1 and has read the log to entry 0; this node \
                        has change 2 and entry 3";
        assert_eq!(why, expected);
    }
}
