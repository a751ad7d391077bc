//! The nodes of a cluster, as a command asks them: those of the command line, or of a
//! configuration.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::no_cluster;
use crate::cli::collection::{ClientArgs, RemoteService};
use crate::cli::configuration;
use crate::config::Sources;
use crate::replicas::Peers;

/// How long a node may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A clock that is further off than this from the log's is a fault.
const CLOCK_OFF_MS: u64 = 1_000;

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

/// A node, as it sees itself.
#[derive(Debug, Serialize)]
pub(super) struct NodeRow {
    pub(super) server: String,
    /// `catching_up`, `following`, `leading`, `halted`, `alone` or `no_answer`.
    pub(super) state: String,
    #[serde(flatten)]
    pub(super) report: NodeReport,
    pub(super) sequence: Option<u64>,
    pub(super) documents: Option<u64>,
    pub(super) version: Option<String>,
    /// How much the disk has left before additions are refused, and the memory.
    pub(super) disk_left_bytes: Option<u64>,
    pub(super) memory_left_bytes: Option<u64>,
    /// Why it takes no writes, although it knows a leader.
    pub(super) writes_fault: Option<String>,
}

/// What a node tells of its part in the cluster.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct NodeReport {
    pub(super) address: Option<String>,
    pub(super) leader: Option<String>,
    pub(super) lag_ms: Option<u64>,
    pub(super) read: Option<u64>,
    pub(super) halted: Option<String>,
    pub(super) log_fault: Option<String>,
    pub(super) lead_fault: Option<String>,
    pub(super) last_refused: Option<RefusedReport>,
    pub(super) clock_ahead_ms: Option<i64>,
    pub(super) seeds: Vec<String>,
    pub(super) log: Option<LogReport>,
    /// Why the node tells nothing.
    pub(super) error: Option<String>,
}

/// The last entry of a node that the log has refused.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RefusedReport {
    pub(super) why: String,
    pub(super) ago_ms: u64,
}

/// What a node tells of the log.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LogReport {
    pub(super) leader: Option<String>,
    pub(super) behind: Vec<String>,
    pub(super) bytes: u64,
    pub(super) bytes_max: u64,
    pub(super) bytes_left: u64,
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
    thread::scope(|scope| {
        let asked: Vec<_> =
            services.iter().map(|service| scope.spawn(|| NodeRow::of(service))).collect();
        asked.into_iter().map(|node| node.join().expect("it does not panic")).collect()
    })
}

impl NodeRow {
    pub(super) fn of(service: &RemoteService) -> Self {
        let server = service.address().to_owned();
        let told = service.get_once("/v1/stats");
        let node = Self::new(server, told.map_err(|error| format!("{error:#}")));
        let may_pass_on = node.report.leader.is_some() && node.report.halted.is_none();
        let writes = may_pass_on.then(|| service.get_once("/readyz/writes"));
        let writes_fault = writes.and_then(Result::err).map(|error| format!("{error:#}"));
        Self { writes_fault, ..node }
    }

    pub(super) fn new(server: String, told: Result<Value, String>) -> Self {
        let (mut stats, error) = match told {
            Ok(stats) => (stats, None),
            Err(error) => (Value::Null, Some(error)),
        };
        let cluster = stats.get_mut("cluster").map(Value::take);
        let state = match &cluster {
            _ if error.is_some() => "no_answer",
            None => "alone",
            Some(cluster) => cluster["state"].as_str().unwrap_or("unknown"),
        };
        let state = state.to_owned();
        let report = cluster.and_then(|cluster| serde_json::from_value(cluster).ok());
        let left = |part: &Value, has: &str, of: &str| {
            Some(part[of].as_u64().filter(|max| *max > 0)?.saturating_sub(part[has].as_u64()?))
        };
        let disk = &stats["disk"];
        Self {
            server,
            state,
            report: NodeReport { error, ..report.unwrap_or_default() },
            sequence: stats["sequence"].as_u64(),
            documents: stats["documents"].as_u64(),
            version: stats["version"].as_str().map(str::to_owned),
            disk_left_bytes: left(disk, "needed_bytes", "free_bytes"),
            writes_fault: None,
            memory_left_bytes: left(&stats["memory"], "total_bytes", "max_bytes"),
        }
    }

    /// What is wrong with it, for people.
    pub(super) fn faults(&self) -> Vec<String> {
        let NodeReport { halted, log_fault, lead_fault, error, clock_ahead_ms, log, .. } =
            &self.report;
        let told = [halted, log_fault, error].into_iter().flatten().cloned();
        let what = if self.state == "leading" { "leads all the same" } else { "does not lead" };
        let lead = lead_fault.iter().map(|why| format!("{what}: {why}"));
        let writes = self.writes_fault.iter().map(|why| format!("takes no writes: {why}"));
        let is_off = |ms: &&i64| ms.unsigned_abs() >= CLOCK_OFF_MS;
        let clock = clock_ahead_ms.iter().filter(is_off).map(|ms| format!("clock {ms} ms ahead"));
        let behind = log.iter().flat_map(|log| &log.behind);
        let behind = behind.map(|server| format!("{server} of the log is behind"));
        told.chain(lead).chain(writes).chain(clock).chain(behind).collect()
    }

    /// A node that has halted or catches up may know of one that is gone.
    pub(super) fn knows_a_leader(&self) -> bool {
        // Its own address is left from the time when it led.
        let is_led = self.report.leader.as_ref().is_some_and(|leader| *leader != self.server);
        self.state == "leading" || (self.state == "following" && is_led)
    }

    /// Whether it is this one, by either of its addresses.
    pub(super) fn is_at(&self, address: &str) -> bool {
        let address = address.trim_end_matches('/');
        self.server == address || self.report.address.as_deref() == Some(address)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(cluster: &Value) -> NodeRow {
        NodeRow::new("http://a".to_owned(), Ok(json!({"documents": 1, "cluster": cluster})))
    }

    #[test]
    fn only_who_leads_or_is_led_knows_a_leader() {
        let knows = |state: &str, leader: Option<&str>| {
            node(&json!({"state": state, "leader": leader})).knows_a_leader()
        };
        assert!(knows("leading", None) && knows("following", Some("http://b")));
        assert!(!knows("following", None) && !knows("halted", Some("http://b")));
        assert!(!knows("catching_up", Some("http://b")));
        assert!(!knows("following", Some("http://a")), "itself");
        assert!(!NodeRow::new(String::new(), Err(String::new())).knows_a_leader());
    }

    #[test]
    fn each_fault_is_told() {
        let faults = |cluster: &Value| node(cluster).faults();
        assert!(faults(&json!({"state": "leading", "clock_ahead_ms": -900})).is_empty());
        assert_eq!(faults(&json!({"clock_ahead_ms": -2_000})), ["clock -2000 ms ahead"]);
        assert_eq!(faults(&json!({"lead_fault": "full"})), ["does not lead: full"]);
        let leads = json!({"state": "leading", "lead_fault": "full"});
        assert_eq!(faults(&leads), ["leads all the same: full"]);
        let log = json!({"leader": "log-1", "behind": ["log-2"], "bytes_left": 7});
        assert_eq!(faults(&json!({"log": log})), ["log-2 of the log is behind"]);
        assert_eq!(NodeRow::new(String::new(), Err("gone".to_owned())).faults(), ["gone"]);
    }
}
