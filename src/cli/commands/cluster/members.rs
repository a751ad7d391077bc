//! `cluster members`: every node that is found from those that are asked, by the seeds that they
//! name.

use std::io::Write;

use anyhow::Result;

use super::nodes::{self, NodesArgs};
use crate::cli::columns::{Column, json_lines, table};
use crate::replicas::nodes::NodeRow;

/// No cluster has more nodes.
const MEMBERS_MAX: usize = 100;

#[derive(Debug, clap::Args)]
pub(super) struct MembersArgs {
    #[command(flatten)]
    nodes: NodesArgs,
    /// Print a JSON object for each node
    #[arg(long)]
    json: bool,
}

/// A node, and who names it.
#[derive(Debug, serde::Serialize)]
struct Member {
    address: String,
    state: String,
    /// The nodes that have it in `cluster.seeds`.
    named_by: Vec<String>,
}

const COLUMNS: &[Column<Member>] = &[
    ("node", |member| member.address.clone()),
    ("state", |member| member.state.replace('_', " ")),
    ("is a seed of", |member| member.named_by.join(", ")),
];

pub(super) fn run(args: &MembersArgs, out: &mut dyn Write) -> Result<()> {
    let mut found = nodes::ask(&args.nodes.services()?);
    loop {
        let unknown = unknown(&found);
        if unknown.is_empty() || found.len() >= MEMBERS_MAX {
            break;
        }
        let services = unknown.iter().map(|address| args.nodes.service(address));
        found.extend(nodes::ask(&services.collect::<Result<Vec<_>>>()?));
    }
    let members = members(&found);
    if args.json {
        json_lines(&members, out)?;
    } else {
        write!(out, "{}", table(COLUMNS, &members))?;
    }
    Ok(())
}

/// Addresses that nodes name, and that were not asked.
fn unknown(found: &[NodeRow]) -> Vec<String> {
    let named = found.iter().flat_map(|node| node.report.seeds.iter().chain(&node.report.leader));
    let mut unknown: Vec<String> =
        named.filter(|seed| !found.iter().any(|node| node.is_at(seed))).cloned().collect();
    unknown.sort_unstable();
    unknown.dedup();
    unknown
}

fn members(found: &[NodeRow]) -> Vec<Member> {
    let member = |node: &NodeRow| {
        let address = node.report.address.clone().unwrap_or_else(|| node.server.clone());
        let names = |other: &&NodeRow| {
            !other.is_at(&address) && other.report.seeds.iter().any(|seed| node.is_at(seed))
        };
        let named_by = found.iter().filter(names).map(|other| other.server.clone()).collect();
        Member { address, state: node.state.clone(), named_by }
    };
    let mut members: Vec<Member> = found.iter().map(member).collect();
    members.sort_by(|one, other| one.address.cmp(&other.address));
    // One that was asked by two addresses.
    members.dedup_by(|one, other| one.address == other.address);
    members
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(server: &str, address: &str, seeds: &[&str]) -> NodeRow {
        let cluster = json!({"state": "following", "address": address, "seeds": seeds});
        NodeRow::new(server.to_owned(), Ok(json!({"cluster": cluster})))
    }

    #[test]
    fn nodes_are_found_by_the_seeds_of_others() {
        let found = [
            node("http://a", "http://a", &["http://b", "http://a", "http://c"]),
            node("http://localhost", "http://b", &["http://a"]),
        ];
        assert_eq!(unknown(&found), ["http://c"]);
        let shown = table(COLUMNS, &members(&found));
        let lines: Vec<Vec<&str>> =
            shown.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["http://a", "following", "http://localhost"]);
        assert_eq!(lines[2], ["http://b", "following", "http://a"]);
    }
}
