//! The nodes of a cluster, as a command asks them: those of the command line, or of a
//! configuration.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::no_cluster;
use crate::cli::collection::{ClientArgs, RemoteService};
use crate::cli::configuration;
use crate::config::Sources;
use crate::replicas::Peers;
use crate::replicas::nodes::{self, NodeRow};

/// How long a node may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Which nodes are asked.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct NodesArgs {
    /// A node to ask; repeat it for each [default: cluster.address and cluster.seeds of the
    /// configuration]
    #[arg(long, visible_alias = "url", value_name = "URL")]
    server: Vec<String>,
    /// The configuration file of a node
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    client: ClientArgs,
}

impl NodesArgs {
    /// The services to ask, each with what it signs in with.
    pub(super) fn services(&self) -> Result<Vec<RemoteService>> {
        let (servers, client) = if self.server.is_empty() {
            self.configured()?
        } else {
            (self.server.clone(), self.client.clone())
        };
        let service = |server: &String| RemoteService::with_timeout(server, &client, TIMEOUT);
        servers.iter().map(service).collect()
    }

    /// Another node, with the same credentials.
    pub(super) fn service(&self, address: &str) -> Result<RemoteService> {
        let client =
            if self.server.is_empty() { self.configured()?.1 } else { self.client.clone() };
        RemoteService::with_timeout(address, &client, TIMEOUT)
    }

    /// The nodes of a configuration, and what it signs in with unless the command line has
    /// something. A node that is only asked needs no address of its own.
    fn configured(&self) -> Result<(Vec<String>, ClientArgs)> {
        let mut config = configuration::merged(&Sources::of_process(self.config.clone()))?;
        let cluster = &mut config.cluster;
        if let Some(seed) = cluster.seeds.first().filter(|_| cluster.address.is_empty()) {
            cluster.address.clone_from(seed);
        }
        let settings = configuration::validated(&config)?;
        let replica = settings.replica.ok_or_else(no_cluster)?;
        let own = replica.cluster().ok_or_else(no_cluster)?.address.clone();
        let mut servers = vec![own];
        for seed in replica.seeds() {
            if !servers.iter().any(|known| known == seed) {
                servers.push(seed.to_owned());
            }
        }
        let Peers { token_file, ca_file, .. } = replica.peers;
        Ok((servers, self.client.clone().or(token_file, ca_file)))
    }
}

/// Asks all nodes at one time.
pub(super) fn ask(services: &[RemoteService]) -> Vec<NodeRow> {
    nodes::ask(services, ask_one)
}

/// Asks a node.
pub(super) fn ask_one(service: &RemoteService) -> NodeRow {
    let get = |path: &str| service.get_once(path).map_err(|error| format!("{error:#}"));
    NodeRow::ask(service.address().to_owned(), get)
}
