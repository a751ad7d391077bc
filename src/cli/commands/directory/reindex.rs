//! `reindex`: gives the data directory of a stopped service another maximum distance.

use std::io::Write;

use anyhow::Result;
use nearprint_engine::OpenError;
use nearprint_fingerprint::Distance;
use nearprint_index::cost::{Costs, Estimate};
use nearprint_index::plan::Plans;

use crate::cli::error_report::ErrorReport;
use crate::cli::measure::arguments::distance;
use crate::cli::measure::numbers::{count, time};
use crate::cli::offline::{self, bar};

const EXAMPLES: &str = "\
Examples:
  nearprint reindex --data nearprint-data --distance 6
  nearprint reindex --config nearprint.toml --distance 4";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReindexArgs {
    #[command(flatten)]
    data: offline::Data,
    /// The largest distance of a look-up from now on
    #[arg(long, value_name = "BITS", value_parser = distance)]
    distance: Distance,
}

pub(crate) fn run(args: &ReindexArgs, out: &mut dyn Write) -> Result<()> {
    let stopped = args.data.open()?;
    let (before, after) = (stopped.distance_max(), args.distance);
    let directory = args.data.directory()?;
    let directory = directory.display();
    if before == after {
        writeln!(out, "nothing to do: the maximum distance of {directory} is {after} already")?;
        return Ok(());
    }
    let progress = bar("rebuilding the index", stopped.record_bytes()?);
    let reindexed = stopped.reindex(after, &mut |bytes| progress.inc(bytes));
    let took = progress.elapsed();
    progress.finish_and_clear();
    let counts = reindexed.map_err(|error| {
        let is_full = matches!(&error, OpenError::Storage(error) if error.is_full());
        let next = if is_full {
            "free space on its file system, then run it again"
        } else {
            "look at the disk and run it again; for damage see what a repair would lose: nearprint \
             repair"
        };
        ErrorReport::new(format!("{directory} was not reindexed; nothing is lost"), next)
            .because(error)
    })?;
    let lookup = |distance| {
        let plans = Plans::of(distance);
        let documents = counts.documents.max(1);
        let plan = plans.for_count(documents);
        time(Estimate::of(plan, documents, distance, &Costs::default()).single_ns)
    };
    writeln!(
        out,
        "reindexed {} documents in {:.1} s\n\
         maximum distance  {before} -> {after}\n\
         a look-up at it   {} -> {} (an estimate; nearprint plan measures this machine)\n\
         start it: nearprint serve --data {directory}",
        count(counts.documents),
        took.as_secs_f64(),
        lookup(before),
        lookup(after),
    )?;
    Ok(())
}
