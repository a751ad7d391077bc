//! How a service takes part in a cluster.

use std::path::PathBuf;
use std::sync::Arc;

use nearprint_engine::cluster::member::NodeOptions;
use nearprint_engine::log::required::Required;
use tokio::runtime::Handle;

use super::nats::NatsOptions;
use super::opening::NatsOpening;

/// How a service takes part in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterOptions {
    /// Where other nodes and their clients reach this one, such as `http://10.0.0.1:7878`, without
    /// a `/` at its end.
    pub address: String,
    /// The addresses of nodes from which an empty one is filled.
    pub seeds: Vec<String>,
    /// A file with the token to send to other nodes, and nothing else.
    pub token_file: Option<PathBuf>,
    /// The certificates by which other nodes are trusted, instead of those of public authorities.
    pub ca_file: Option<PathBuf>,
    /// The log.
    pub log: NatsOptions,
    /// What is asked of the log.
    pub required: Required,
    /// After this time without a leader a node tries to lead.
    pub takeover_ms: u64,
    /// How long a caller waits for a write.
    pub write_timeout_ms: u64,
}

impl ClusterOptions {
    /// The same for the engine. The runtime is that of the connections to the log.
    pub(crate) fn of_node(&self, runtime: &Handle) -> NodeOptions {
        NodeOptions {
            address: self.address.as_str().into(),
            log: Arc::new(NatsOpening::new(self.log.clone(), runtime.clone())),
            required: self.required,
            takeover_ms: self.takeover_ms,
            write_timeout_ms: self.write_timeout_ms,
        }
    }

    /// The nodes from which this one can be filled. All nodes may have the same list.
    pub(crate) fn other_nodes(&self) -> impl Iterator<Item = &str> {
        self.seeds.iter().map(String::as_str).filter(|seed| *seed != self.address)
    }
}
