//! `cluster`: begins a cluster, shows and compares its nodes, lets another lead, and takes a node
//! out of it.

mod create;
mod leave;
mod log;
mod members;
mod nodes;
mod refound;
mod status;
mod transfer;
mod verify;

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;

use crate::cli::configuration;
use crate::cli::error_report::ErrorReport;
use crate::config::Sources;
use crate::replicas::{ClusterOptions, Peers, Replica, ReplicaKind};

/// Of all actions, which are most often used one after the other.
const EXAMPLES: &str = "\
Examples:
  nearprint cluster create --config nearprint.toml
  nearprint cluster status --config nearprint.toml
  nearprint cluster status --server http://10.0.0.1:7878 --server http://10.0.0.2:7878
  nearprint cluster status --config nearprint.toml --watch
  nearprint cluster members --server http://10.0.0.1:7878
  nearprint cluster transfer http://10.0.0.2:7878 --config nearprint.toml
  nearprint cluster verify --config nearprint.toml
  nearprint cluster leave --data nearprint-data
  nearprint cluster refound --config nearprint.toml";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make the log of a new cluster, and the first node
    #[command(after_help = EXAMPLES)]
    Create(create::CreateArgs),
    /// Show what each node does; exit with 1 if none leads, 3 if one has halted, 4 if one is
    /// silent, 5 if one has a fault
    #[command(after_help = EXAMPLES)]
    Status(status::StatusArgs),
    /// Show all nodes that are found from one, by the seeds that they name
    #[command(after_help = EXAMPLES)]
    Members(members::MembersArgs),
    /// Let another node lead
    #[command(after_help = EXAMPLES)]
    Transfer(transfer::TransferArgs),
    /// Compare the content of all nodes; exit with 3 if it differs
    #[command(after_help = EXAMPLES)]
    Verify(verify::VerifyArgs),
    /// Make a stopped node's data directory that of a service alone
    #[command(after_help = EXAMPLES)]
    Leave(leave::LeaveArgs),
    /// Make a new log for a cluster that has lost its log, and go on at a stopped node
    #[command(after_help = EXAMPLES)]
    Refound(refound::RefoundArgs),
}

pub(crate) fn run(args: &ClusterArgs, out: &mut dyn Write) -> Result<()> {
    match &args.action {
        Action::Create(args) => create::run(args, out),
        Action::Status(args) => status::run(args, out),
        Action::Members(args) => members::run(args, out),
        Action::Transfer(args) => transfer::run(args, out),
        Action::Verify(args) => verify::run(args, out),
        Action::Leave(args) => leave::run(args, out),
        Action::Refound(args) => refound::run(args, out),
    }
}

/// The configuration of a node.
#[derive(Debug, clap::Args)]
struct NodeArgs {
    /// The configuration file of the node, which has a section for the cluster
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The data directory [default: that of the configuration, or ./nearprint-data]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl NodeArgs {
    /// What `nearprint serve` would use: of the cluster, of its nodes, and of the engine.
    fn options(&self) -> Result<(ClusterOptions, Peers, nearprint_engine::Options), ErrorReport> {
        let sources =
            Sources { data: self.data.clone(), ..Sources::of_process(self.config.clone()) };
        let (_, settings) = configuration::load(&sources)?;
        match settings.replica {
            Some(Replica { peers, kind: ReplicaKind::Node(cluster) }) => {
                Ok((*cluster, peers, settings.engine))
            }
            Some(Replica { kind: ReplicaKind::Follower { .. }, .. }) | None => Err(no_cluster()),
        }
    }

    /// The command that starts the node.
    fn serve(&self) -> String {
        let mut command = "nearprint serve".to_owned();
        for (flag, value) in [("--config", &self.config), ("--data", &self.data)] {
            if let Some(value) = value {
                command = format!("{command} {flag} {}", value.display());
            }
        }
        command
    }
}

fn no_cluster() -> ErrorReport {
    let next = "set cluster.name, cluster.address and cluster.servers in the configuration of the \
                node, and name it: --config FILE (docs/cluster.md)";
    ErrorReport::new("the configuration names no cluster", next)
}
