//! `cluster refound`: a new log for a cluster that has lost its own, which goes on at a stopped
//! node.

use std::io::Write;

use anyhow::{Error, Result};
use nearprint_engine::OpenError;
use nearprint_engine::cluster::offline;

use super::NodeArgs;
use super::log::{EmptyLog, LogArgs};
use crate::cli::configuration::NOT_A_NODE_NEXT;
use crate::cli::error_report::ErrorReport;
use crate::cli::measure::numbers::count;

#[derive(Debug, clap::Args)]
pub(super) struct RefoundArgs {
    #[command(flatten)]
    node: NodeArgs,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) fn run(args: &RefoundArgs, out: &mut dyn Write) -> Result<()> {
    let (options, _, engine) = args.node.options()?;
    let directory = engine.data.display();
    let is_node = engine.data.is_dir() && offline::read(&engine.data)?.is_some();
    if !is_node {
        let what = format!("{directory} is not that of a node; nothing was changed");
        return Err(ErrorReport::new(what, NOT_A_NODE_NEXT).into());
    }
    let log = EmptyLog::open(&options, &args.log, false)?;
    let append = |entry| log.append(&entry).map_err(Error::from);
    let found = offline::refound(&engine, log.identity(), append).map_err(|error: Error| {
        let what = format!("{directory} does not go on with {}", log.description());
        let next = if error.downcast_ref::<OpenError>().is_some() {
            "stop the node that uses it, or look at the disk, then run it again with --existing"
        } else {
            "look at the servers of the log; then delete that stream, and run it again"
        };
        ErrorReport::new(what, next).because(error)
    })?;
    writeln!(
        out,
        "log   {}\n\
         node  {directory} goes on with it at change {}, with {} documents\n\
         next  start it: {}\n      \
         start the others with the same cluster.name: those with the same changes go on, too; empty \
         the directories of those that halt, and they are filled from cluster.seeds",
        log.description(),
        found.sequence,
        count(found.documents),
        args.node.serve(),
    )?;
    Ok(())
}
