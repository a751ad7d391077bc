//! `cluster transfer`: lets a node lead that an operator has chosen.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};

use super::nodes::{self, NodesArgs};
use crate::cli::collection::{RemoteService, wait};
use crate::cli::error_report::ErrorReport;
use crate::replicas::nodes::NodeRow;

/// The others leave the lead for so long.
const STAND_BACK_MS: u64 = 10_000;
const LEADS_WITHIN: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_millis(100);

#[derive(Debug, clap::Args)]
pub(super) struct TransferArgs {
    /// The node that is to lead, such as <http://10.0.0.2:7878>; one of those that are asked
    node: String,
    #[command(flatten)]
    nodes: NodesArgs,
}

pub(super) fn run(args: &TransferArgs, out: &mut dyn Write) -> Result<()> {
    let services = args.nodes.services()?;
    let nodes = nodes::ask(&services);
    let chosen = nodes.iter().position(|node| node.is_at(&args.node)).ok_or_else(|| {
        let next = "name it as --server too, or in cluster.seeds";
        ErrorReport::usage(format!("{} is none of the nodes that are asked", args.node), next)
    })?;
    let node = &nodes[chosen];
    if node.state == "leading" {
        writeln!(out, "{} leads already", node.server)?;
        return Ok(());
    }
    // It may have been told to stand back a moment ago.
    stand_back(&services[chosen], 0)?;
    let node = &wait_for(&services[chosen], |node| node.report.lead_fault.is_none());
    if node.state != "following" || node.report.lead_fault.is_some() {
        let why = node.faults().join("; ");
        let what = format!("{} cannot lead, as it is {}: {why}", node.server, node.state);
        return Err(ErrorReport::new(what, "set that right, or choose another node").into());
    }
    for (at, service) in services.iter().enumerate() {
        if at != chosen {
            stand_back(service, STAND_BACK_MS)?;
        }
    }
    if wait_for(&services[chosen], |node| node.state == "leading").state == "leading" {
        writeln!(out, "{} leads", node.server)?;
        return Ok(());
    }
    let what = format!("{} does not lead after {} s", node.server, LEADS_WITHIN.as_secs());
    let next = "look at it with nearprint cluster status; the others lead again in a moment";
    Err(ErrorReport::new(what, next).into())
}

/// Asks a node until it is so, or for as long as a transfer may take.
fn wait_for(service: &RemoteService, is_so: impl Fn(&NodeRow) -> bool) -> NodeRow {
    let mut left = LEADS_WITHIN.as_millis() / ASK_EVERY.as_millis();
    loop {
        let node = nodes::ask_one(service);
        if is_so(&node) || left == 0 {
            return node;
        }
        left -= 1;
        wait(ASK_EVERY);
    }
}

/// A node that does not answer cannot lead either, so it is passed over.
fn stand_back(service: &RemoteService, for_ms: u64) -> Result<()> {
    if service.get_once("/healthz").is_err() {
        return Ok(());
    }
    let path = format!("/v1/cluster/stand-back?for_ms={for_ms}");
    service.post_json::<Value>(&path, &json!({})).map(drop)
}
