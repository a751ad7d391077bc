//! `promote`: makes the data directory of a stopped follower that of a primary.

use std::io::Write;

use anyhow::{Context as _, Result};
use nearprint_engine::following::follower;

use crate::cli::error_report::ErrorReport;
use crate::cli::messages;
use crate::cli::offline;

const EXAMPLES: &str = "\
Examples:
  nearprint promote --data nearprint-data
  nearprint promote --config nearprint.toml --yes";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PromoteArgs {
    #[command(flatten)]
    data: offline::Data,
    /// Promote without confirmation
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &PromoteArgs, out: &mut dyn Write) -> Result<()> {
    let directory = args.data.directory()?;
    let Some(primary) = follower::primary_at(&directory)? else {
        let what = format!("{} does not follow a primary", directory.display());
        let next = "name the directory of a follower: --data DIR";
        return Err(ErrorReport::new(what, next).into());
    };
    // A running follower has its lock.
    drop(args.data.open()?);
    writeln!(
        out,
        "{directory} is a copy of {primary}. Writes that it acknowledged and this copy did not \
         receive will be lost, and the primary must never take writes again: the two histories \
         diverge. To bring it back, empty its directory and start it as a follower of this one",
        directory = directory.display()
    )?;
    if !args.yes && !messages::agreed("promote it?")? {
        let next = "stop the primary, and run it again with --yes";
        return Err(ErrorReport::new("nothing was changed", next).into());
    }
    follower::promote(&directory).context("it was not promoted")?;
    let directory = directory.display();
    writeln!(out, "promoted; start it: nearprint serve --data {directory}")?;
    Ok(())
}
