//! `cluster create`: makes the log of a new cluster, and the first node.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use nearprint_engine::OpenError;
use nearprint_engine::cluster::{offline, seeding};
use nearprint_engine::following::follower;
use nearprint_engine::open::offline::OfflineDirectory;

use super::NodeArgs;
use super::log::{EmptyLog, LogArgs};
use crate::cli::collection::RemoteService;
use crate::cli::error_report::ErrorReport;
use crate::cli::measure::numbers::count;

/// How long another node may be silent.
const ANSWERS: Duration = Duration::from_secs(3);

#[derive(Debug, clap::Args)]
pub(super) struct CreateArgs {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    log: LogArgs,
    /// Do nothing where nothing is needed: at a node that is not the first of cluster.seeds, that
    /// has its directory already, or while another one answers; take a log that is there and empty
    #[arg(long)]
    once: bool,
}

pub(super) fn run(args: &CreateArgs, out: &mut dyn Write) -> Result<()> {
    let (options, peers, engine) = args.node.options()?;
    let directory = engine.data.display();
    // Before a log is made for it.
    let before = check(&engine.data)?;
    if args.once
        && let Some(why) = not_needed(&options.address, &peers.urls, before)
    {
        writeln!(out, "nothing was made: {why}")?;
        return Ok(());
    }
    let log = EmptyLog::open(&options, &args.log, args.once)?;
    if before == Before::Node {
        offline::leave(&engine.data).map_err(|error| unusable(&engine.data).because(error))?;
    }
    let found = offline::found(&engine, log.identity()).map_err(|error| {
        let what = format!("{directory} was not made a node; {} is empty", log.description());
        let next = "set that right, then run it again with --existing";
        ErrorReport::new(what, next).because(error)
    })?;
    writeln!(
        out,
        "log   {}\n\
         node  {directory} is the first node, with {} documents\n\
         next  start it: {}\n      \
         start the others, each with an empty data directory and {} in cluster.seeds",
        log.description(),
        count(found.documents),
        args.node.serve(),
        options.address,
    )?;
    Ok(())
}

/// Why the node at an address need not make the log of its cluster; `None` if it must.
fn not_needed(own: &str, seeds: &[String], before: Before) -> Option<String> {
    if seeds.first().is_none_or(|first| first != own) {
        return Some(format!("{own} is not the first of cluster.seeds"));
    }
    if before == Before::Node {
        return Some(format!("{own} has its directory"));
    }
    let answers = |seed: &str| RemoteService::for_probe(seed, ANSWERS)?.probe("/healthz");
    let other = seeds.iter().find(|seed| *seed != own && answers(seed).is_ok())?;
    Some(format!("{other} answers, and this node can copy it"))
}

/// What a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Empty, or that of a service alone.
    Alone,
    /// That of a node of another log: a backup of a cluster, or one that has lost its log.
    Node,
}

/// Refuses a directory that cannot become the first node.
fn check(data: &Path) -> Result<Before, ErrorReport> {
    let directory = data.display();
    let cannot = |what: String, next: &str| Err(ErrorReport::new(what, next));
    match seeding::needs_seed(data) {
        Ok(true) => Ok(Before::Alone),
        Ok(false) => Ok(Before::Node),
        Err(OpenError::NotANode) => {
            match (follower::primary_at(data), OfflineDirectory::open(data)) {
                (Ok(Some(primary)), _) => cannot(
                    format!("{directory} is a copy that follows {primary}; nothing was changed"),
                    "name the directory of the primary, or promote it first: nearprint promote",
                ),
                (Ok(None), Ok(_)) => Ok(Before::Alone),
                (Err(error), _) => Err(unusable(data).because(error)),
                (Ok(None), Err(error)) => Err(unusable(data).because(error)),
            }
        }
        Err(error) => Err(unusable(data).because(error)),
    }
}

fn unusable(data: &Path) -> ErrorReport {
    let what = format!("{} cannot become a node; nothing was changed", data.display());
    ErrorReport::new(what, "stop the service that uses it, or name another directory: --data DIR")
}
