//! `repair`: makes a damaged data directory usable again. First it reports what will be lost.

use std::io::Write;

use anyhow::Result;

use crate::cli::commands::inspect;
use crate::cli::error_report::ErrorReport;
use crate::cli::messages;
use crate::cli::offline::{self, bar};

const EXAMPLES: &str = "\
Examples:
  nearprint repair --data nearprint-data
  nearprint repair --config nearprint.toml --yes";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    data: offline::Data,
    /// Repair without confirmation
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: &RepairArgs, out: &mut dyn Write) -> Result<()> {
    let stopped = args.data.open()?;
    let progress = bar("reading records", stopped.bytes()?);
    let plan = stopped.plan_repair(&mut |bytes| progress.inc(bytes))?;
    progress.finish_and_clear();
    if plan.is_empty() {
        writeln!(out, "nothing to repair: every snapshot and every record is whole")?;
        return Ok(());
    }
    write!(out, "{}", inspect::table(&plan.files))?;
    for error in plan.files.iter().filter_map(|file| file.damage.as_ref()) {
        writeln!(out, "{error}")?;
    }
    for name in &plan.snapshots {
        writeln!(out, "{name}: will not be used; the index is built anew from the records")?;
    }
    if plan.is_resumed {
        writeln!(out, "a repair was begun and not finished; this one ends it")?;
    }
    match plan.lost() {
        0 => writeln!(out, "no record that is known of is lost")?,
        lost => writeln!(
            out,
            "lost: at most {lost} changes. Documents that they stored are gone; documents that they \
             removed or replaced may be back"
        )?,
    }
    if plan.end_is_unknown() {
        writeln!(
            out,
            "the newest file is damaged: records at its very end that left no trace are lost as well"
        )?;
    }
    writeln!(out, "copies of damaged files stay in the directory as <name>.damaged")?;
    if !args.yes && !messages::agreed("repair it?")? {
        let next = "restore an export instead, or run it again with --yes";
        return Err(ErrorReport::new("nothing was changed", next).into());
    }
    stopped.repair(&plan)?;
    let directory = args.data.directory()?;
    let directory = directory.display();
    writeln!(out, "repaired; start it: nearprint serve --data {directory}")?;
    Ok(())
}
