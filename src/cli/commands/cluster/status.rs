//! `cluster status`: what each node of a cluster does.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;

use super::nodes::{self, NodesArgs};
use crate::cli::collection::wait;
use crate::cli::columns::{Column, json_lines, table};
use crate::cli::error_report::ErrorReport;
use crate::cli::exit_code;
use crate::cli::measure::numbers;
use crate::replicas::nodes::NodeRow;

/// How often the nodes are asked with `--watch`.
const WATCH_EVERY: Duration = Duration::from_secs(2);
/// Moves the cursor to the beginning of a terminal, and removes what was there.
const CLEAR: &str = "\x1b[H\x1b[2J";

#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    nodes: NodesArgs,
    /// Print a JSON object for each node
    #[arg(long)]
    json: bool,
    /// Ask again every two seconds, until it is interrupted
    #[arg(long, conflicts_with = "json")]
    watch: bool,
}

const COLUMNS: &[Column<NodeRow>] = &[
    ("node", |node| node.server.clone()),
    ("state", |node| node.state.replace('_', " ")),
    ("leader", |node| node.report.leader.clone().unwrap_or_default()),
    ("sequence", |node| shown(node.sequence)),
    ("documents", |node| shown(node.documents)),
    ("version", |node| node.version.clone().unwrap_or_default()),
    ("lag (ms)", |node| shown(node.report.lag_ms)),
    ("read to", |node| shown(node.report.read)),
    ("log left", |node| sized(node.report.log.as_ref().map(|log| log.bytes_left))),
    ("disk left", |node| sized(node.disk_left_bytes)),
    ("memory left", |node| sized(node.memory_left_bytes)),
    ("log leader", |node| {
        node.report.log.as_ref().and_then(|log| log.leader.clone()).unwrap_or_default()
    }),
    ("fault", |node| node.faults().join("; ")),
];

fn shown(number: Option<u64>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

fn sized(bytes: Option<u64>) -> String {
    bytes.map_or_else(String::new, numbers::bytes)
}

pub(super) fn run(args: &StatusArgs, out: &mut dyn Write) -> Result<()> {
    let services = args.nodes.services()?;
    if args.watch {
        loop {
            let nodes = nodes::ask(&services);
            write!(out, "{CLEAR}{}", table(COLUMNS, &nodes))?;
            out.flush()?;
            wait(WATCH_EVERY);
        }
    }
    let nodes = nodes::ask(&services);
    if args.json {
        json_lines(&nodes, out)?;
    } else {
        write!(out, "{}", table(COLUMNS, &nodes))?;
    }
    finding(&nodes).map_or(Ok(()), |finding| Err(finding.into()))
}

/// The worst that there is to tell, with an exit code of its own.
fn finding(nodes: &[NodeRow]) -> Option<ErrorReport> {
    let count = |is: &dyn Fn(&NodeRow) -> bool| nodes.iter().filter(|node| is(node)).count();
    if !nodes.iter().any(NodeRow::knows_a_leader) {
        let next =
            "look at the column fault, at the logs of the nodes, and at the servers of the log";
        return Some(ErrorReport::new("no node leads, so the cluster takes no writes", next));
    }
    let next = |is: &dyn Fn(&NodeRow) -> bool| nodes.iter().find(|node| is(node))?.next();
    let has_halted = |node: &NodeRow| node.state == "halted";
    let halted = count(&has_halted);
    if halted > 0 {
        let what = format!("{halted} of {} nodes have halted, and need a person", nodes.len());
        let next = next(&has_halted).unwrap_or("look at the column fault");
        return Some(ErrorReport::new(what, next).with_code(exit_code::NODE_HALTED));
    }
    let silent = count(&|node| node.role != Some("node"));
    if silent > 0 {
        let what = format!("{silent} of {} services do not answer as nodes", nodes.len());
        let next = "start them, or look whether their addresses are right";
        return Some(ErrorReport::new(what, next).with_code(exit_code::NODE_SILENT));
    }
    let is_faulty = |node: &NodeRow| !node.faults().is_empty();
    let faulty = count(&is_faulty);
    (faulty > 0).then(|| {
        let what = format!("{faulty} of {} nodes have something to tell", nodes.len());
        let next = next(&is_faulty).unwrap_or("look at the column fault");
        ErrorReport::new(what, next).with_code(exit_code::NODE_FAULTY)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(server: &str, cluster: &Value) -> NodeRow {
        let stats = json!({"documents": 1, "sequence": 4, "version": "0.1.0", "cluster": cluster});
        NodeRow::new(server.to_owned(), Ok(stats))
    }

    fn following() -> NodeRow {
        node(
            "http://a",
            &json!({"state": "following", "leader": "http://b", "lag_ms": 3, "read": 9,
            "address": "http://a", "ignored": 0, "halted": null, "log_fault": null}),
        )
    }

    fn halted() -> NodeRow {
        node(
            "http://a",
            &json!({"state": "halted", "leader": "http://b", "lag_ms": 8, "read": 7,
            "halted": "another log", "log_fault": "unreachable"}),
        )
    }

    fn gone() -> NodeRow {
        NodeRow::new("http://c".to_owned(), Err("no answer".to_owned()))
    }

    #[test]
    fn a_node_is_shown_with_its_faults() {
        let alone = NodeRow::new("http://d".to_owned(), Ok(json!({"documents": 1})));
        let shown = table(COLUMNS, &[following(), halted(), gone(), alone]);
        let lines: Vec<Vec<&str>> =
            shown.lines().map(|line| line.split_whitespace().collect()).collect();
        let head = "node state leader sequence documents version lag (ms) read to fault";
        assert_eq!(lines[0].join(" "), head);
        assert_eq!(lines[1], ["http://a", "following", "http://b", "4", "1", "0.1.0", "3", "9"]);
        assert!(lines[2].join(" ").ends_with("8 7 another log; unreachable"), "{shown}");
        assert_eq!(lines[3].join(" "), "http://c no answer no answer");
        assert_eq!(lines[4].join(" "), "http://d alone 1");
    }

    #[test]
    fn each_finding_has_a_code() {
        let code = |nodes: &[NodeRow]| {
            finding(nodes).map(|report| crate::cli::error_report::exit_code_of(&report.into()))
        };
        assert_eq!(code(&[following()]), None);
        assert_eq!(code(&[gone(), halted()]), Some(exit_code::FAILED), "nobody leads");
        assert_eq!(code(&[following(), halted(), gone()]), Some(exit_code::NODE_HALTED));
        assert_eq!(code(&[following(), gone()]), Some(exit_code::NODE_SILENT));
        let faulty = json!({"state": "leading", "lead_fault": "the disk is full"});
        assert_eq!(code(&[following(), node("http://b", &faulty)]), Some(exit_code::NODE_FAULTY));
    }
}
