//! `cluster status`: what each node of a cluster does.

use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::no_cluster;
use crate::cli::collection::{ClientCredentials, RemoteService};
use crate::cli::columns::{Column, json_lines, table};
use crate::cli::configuration;
use crate::cli::error_report::ErrorReport;
use crate::config::Sources;
use crate::replicas::Peers;

/// How long a node may take to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// A node to ask; repeat it for each [default: cluster.address and cluster.seeds of the
    /// configuration]
    #[arg(long, visible_alias = "url", value_name = "URL")]
    server: Vec<String>,
    /// The configuration file of a node
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    credentials: ClientCredentials,
    /// Print a JSON object for each node
    #[arg(long)]
    json: bool,
}

/// A node, as it sees itself.
#[derive(Debug, Serialize)]
struct Node {
    server: String,
    /// `catching_up`, `following`, `leading`, `halted`, `alone` or `no_answer`.
    state: String,
    #[serde(flatten)]
    report: Report,
}

/// What a node tells in its statistics.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Report {
    leader: Option<String>,
    lag_ms: Option<u64>,
    read: Option<u64>,
    halted: Option<String>,
    log_fault: Option<String>,
    /// Why the node tells nothing.
    error: Option<String>,
}

const COLUMNS: &[Column<Node>] = &[
    ("node", |node| node.server.clone()),
    ("state", |node| node.state.replace('_', " ")),
    ("leader", |node| node.report.leader.clone().unwrap_or_default()),
    ("lag (ms)", |node| shown(node.report.lag_ms)),
    ("read to", |node| shown(node.report.read)),
    ("fault", |node| {
        let Report { halted, log_fault, error, .. } = &node.report;
        let faults: Vec<&str> =
            [halted, log_fault, error].into_iter().filter_map(Option::as_deref).collect();
        faults.join("; ")
    }),
];

fn shown(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

pub(super) fn run(args: &StatusArgs, out: &mut dyn Write) -> Result<()> {
    let (servers, credentials) = if args.server.is_empty() {
        configured(args)?
    } else {
        (args.server.clone(), args.credentials.clone())
    };
    let services =
        servers.iter().map(|server| RemoteService::with_timeout(server, &credentials, TIMEOUT));
    let services = services.collect::<Result<Vec<_>>>()?;
    let nodes: Vec<Node> = thread::scope(|scope| {
        let asked: Vec<_> =
            services.iter().map(|service| scope.spawn(|| Node::of(service))).collect();
        asked.into_iter().map(|node| node.join().expect("it does not panic")).collect()
    });
    if args.json {
        json_lines(&nodes, out)?;
    } else {
        write!(out, "{}", table(COLUMNS, &nodes))?;
    }
    if nodes.iter().any(Node::knows_a_leader) {
        return Ok(());
    }
    let next = "look at the logs of the nodes, and at the servers of the log";
    Err(ErrorReport::new("no node leads, so the cluster takes no writes", next).into())
}

/// The nodes of a configuration, and what it signs in with unless the command line has something.
fn configured(args: &StatusArgs) -> Result<(Vec<String>, ClientCredentials)> {
    let (_, settings) = configuration::load(&Sources::of_process(args.config.clone()))?;
    let replica = settings.replica.ok_or_else(no_cluster)?;
    let own = replica.cluster().ok_or_else(no_cluster)?.address.clone();
    let servers = std::iter::once(own).chain(replica.seeds().map(str::to_owned)).collect();
    let Peers { token_file, ca_file, .. } = replica.peers;
    Ok((servers, args.credentials.clone().or(token_file, ca_file)))
}

impl Node {
    fn of(service: &RemoteService) -> Self {
        let server = service.address().to_owned();
        let told = service.get_once("/v1/stats");
        Self::new(server, told.map_err(|error| format!("{error:#}")))
    }

    fn new(server: String, told: Result<Value, String>) -> Self {
        let told = told.map(|mut stats| stats.get_mut("cluster").map(Value::take));
        let report = |error: Option<String>| Report { error, ..Report::default() };
        let (state, report) = match told {
            Err(error) => ("no_answer".to_owned(), report(Some(error))),
            Ok(None) => ("alone".to_owned(), report(None)),
            Ok(Some(cluster)) => (
                cluster["state"].as_str().unwrap_or("unknown").to_owned(),
                serde_json::from_value(cluster).unwrap_or_default(),
            ),
        };
        Self { server, state, report }
    }

    /// A node that has halted or catches up may know of one that is gone.
    fn knows_a_leader(&self) -> bool {
        // Its own address is left from the time when it led.
        let is_led = self.report.leader.as_ref().is_some_and(|leader| *leader != self.server);
        self.state == "leading" || (self.state == "following" && is_led)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(cluster: &Value) -> Node {
        Node::new("http://a".to_owned(), Ok(json!({"documents": 1, "cluster": cluster})))
    }

    #[test]
    fn a_node_is_shown_with_its_faults() {
        let led = node(&json!({"state": "following", "leader": "http://b", "lag_ms": 3, "read": 9,
            "address": "http://a", "ignored": 0, "halted": null, "log_fault": null}));
        let halted = node(&json!({"state": "halted", "leader": "http://b", "lag_ms": 8, "read": 7,
            "halted": "another log", "log_fault": "unreachable"}));
        let gone = Node::new("http://c".to_owned(), Err("no answer".to_owned()));
        let alone = Node::new("http://d".to_owned(), Ok(json!({"documents": 1})));
        assert_eq!(
            table(COLUMNS, &[led, halted, gone, alone]),
            "node          state    leader  lag (ms)  read to                     fault\n\
             http://a  following  http://b         3        9\n\
             http://a     halted  http://b         8        7  another log; unreachable\n\
             http://c  no answer                                              no answer\n\
             http://d      alone\n"
        );
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
        assert!(!Node::new(String::new(), Err(String::new())).knows_a_leader());
    }
}
