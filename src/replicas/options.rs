//! How a service is a copy of others.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nearprint_client::{Peer, PeerError};
use nearprint_engine::log::required::Required;
use nearprint_engine::replica::{FollowerOptions, NodeOptions, ReplicaOptions};
use tokio::runtime::Handle;

use super::nats::NatsOptions;
use super::sources::{NatsOpening, PrimaryChanges};

/// How long a node waits for itself under its own address.
const OWN_ADDRESS_SILENCE_MAX: Duration = Duration::from_secs(5);

/// A service that is a copy of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// Whom it copies.
    pub peers: Peers,
    /// What it does with what they store.
    pub kind: ReplicaKind,
}

/// The services that this one copies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peers {
    /// Their addresses, such as `http://10.0.0.1:7878`, without a `/` at their ends. A follower has
    /// one, its primary.
    pub urls: Vec<String>,
    /// A file with the token to send to them, and nothing else.
    pub token_file: Option<PathBuf>,
    /// The certificates by which they are trusted, instead of those of public authorities.
    pub ca_file: Option<PathBuf>,
}

/// What a copy does with what others store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaKind {
    /// It follows its primary.
    Follower {
        /// Whether requests that write are passed on to the primary; otherwise they are refused.
        forward: bool,
    },
    /// It is a node of a cluster.
    Node(Box<ClusterOptions>),
}

/// How a service takes part in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterOptions {
    /// Where other nodes and their clients reach this one, such as `http://10.0.0.1:7878`, without
    /// a `/` at its end.
    pub address: String,
    /// The log.
    pub log: NatsOptions,
    /// What is asked of the log.
    pub required: Required,
    /// After this time without a leader a node tries to lead.
    pub takeover_ms: u64,
    /// How long a caller waits for a write.
    pub write_timeout_ms: u64,
}

impl Peers {
    /// The service at one of the addresses, which may be silent for so long.
    ///
    /// # Errors
    /// [`PeerError::Credentials`].
    pub(super) fn open(&self, url: &str, silence_max: Duration) -> Result<Peer, PeerError> {
        Peer::new(url, (self.token_file.as_deref(), self.ca_file.as_deref()), silence_max)
    }
}

impl Replica {
    /// The same for the engine. The runtime is that of the connections to the log.
    pub(crate) fn of_engine(&self, runtime: &Handle) -> ReplicaOptions {
        match &self.kind {
            ReplicaKind::Follower { .. } => {
                let (url, peers) = (self.primary().to_owned(), self.peers.clone());
                ReplicaOptions::Follower(FollowerOptions {
                    primary: url.as_str().into(),
                    changes: Arc::new(PrimaryChanges { url, peers }),
                })
            }
            ReplicaKind::Node(node) => ReplicaOptions::Node(NodeOptions {
                address: node.address.as_str().into(),
                log: Arc::new(NatsOpening::new(node.log.clone(), runtime.clone())),
                required: node.required,
                takeover_ms: node.takeover_ms,
                write_timeout_ms: node.write_timeout_ms,
            }),
        }
    }

    /// How it takes part in a cluster; `None` for a follower.
    pub fn cluster(&self) -> Option<&ClusterOptions> {
        match &self.kind {
            ReplicaKind::Follower { .. } => None,
            ReplicaKind::Node(node) => Some(node),
        }
    }

    /// Asks a node under its own address, and warns if something else answers, or nothing: others
    /// would notice only once it leads, and they pass requests on to it. Blocks.
    pub(crate) fn check_own_address(&self) {
        let Some(node) = self.cluster() else { return };
        if let Err(why) = self.ask_own_address(&node.address) {
            let (address, next) = (&node.address, "set cluster.address to where others reach it");
            tracing::warn!(%address, why, next, "this node does not find itself at its address");
        }
    }

    fn ask_own_address(&self, own: &str) -> Result<(), String> {
        let asked = self.peers.open(own, OWN_ADDRESS_SILENCE_MAX).and_then(|peer| peer.stats());
        let stats = asked.map_err(|error| error.to_string())?;
        match stats["cluster"]["address"].as_str() {
            Some(found) if found == own => Ok(()),
            Some(found) => Err(format!("the node {found} answers there")),
            None => Err("what answers there is not a node of a cluster".to_owned()),
        }
    }

    /// The address of the primary of a follower.
    pub(super) fn primary(&self) -> &str {
        self.peers.urls.first().map_or("", String::as_str)
    }

    /// The services from which this one can be filled. All nodes may have the same list.
    pub(crate) fn seeds(&self) -> impl Iterator<Item = &str> {
        let own = self.cluster().map(|node| node.address.as_str());
        self.peers.urls.iter().map(String::as_str).filter(move |seed| Some(*seed) != own)
    }
}
