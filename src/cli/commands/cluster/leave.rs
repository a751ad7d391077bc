//! `cluster leave`: makes a stopped node's directory that of a service alone.

use std::io::Write;

use anyhow::Result;
use nearprint_engine::OpenError;
use nearprint_engine::cluster::offline;

use crate::cli::error_report::ErrorReport;
use crate::cli::offline::Data;

#[derive(Debug, clap::Args)]
pub(super) struct LeaveArgs {
    #[command(flatten)]
    data: Data,
}

pub(super) fn run(args: &LeaveArgs, out: &mut dyn Write) -> Result<()> {
    let directory = args.data.directory()?;
    // A running node has its lock; and a name that is mistyped must not become a new directory.
    drop(args.data.open()?);
    offline::leave(&directory).map_err(|error| {
        let (what, next) = if matches!(error, OpenError::NotANode) {
            ("is not that of a node", "name another directory: --data DIR")
        } else {
            ("is still that of a node", "look at the disk, and at the rights")
        };
        ErrorReport::new(format!("{} {what}", directory.display()), next).because(error)
    })?;
    let directory = directory.display();
    writeln!(
        out,
        "{directory} has left its cluster. It keeps its documents, and takes writes of its own, which \
         no node will have\n\
         next  start it without the section [cluster]: nearprint serve --data {directory}\n      \
         to bring it back as a node, empty it first"
    )?;
    Ok(())
}
