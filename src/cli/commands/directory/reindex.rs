//! `reindex`: gives the data directory of a stopped service another maximum distance, or labels.

use std::io::Write;

use anyhow::Result;
use nearprint_engine::OpenError;
use nearprint_fingerprint::Distance;

use crate::cli::commands::files::SearchRule;
use crate::cli::error_report::ErrorReport;
use crate::cli::measure::arguments::distance;
use crate::cli::measure::numbers::count;
use crate::cli::offline::{self, bar};

const EXAMPLES: &str = "\
Examples:
  nearprint reindex --data nearprint-data --distance 6
  nearprint reindex --config nearprint.toml --distance 4
  nearprint reindex --data nearprint-data --search exact";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[group(id = "change", required = true, multiple = true, args = ["distance", "search"])]
pub(crate) struct ReindexArgs {
    #[command(flatten)]
    data: offline::Data,
    /// The largest distance of a look-up from now on
    #[arg(long, value_name = "BITS", value_parser = distance)]
    distance: Option<Distance>,
    /// Whether texts have labels from now on, by which similar ones beyond the distance are found:
    /// likely or exact
    #[arg(long, value_enum, value_name = "HOW")]
    search: Option<SearchRule>,
}

pub(crate) fn run(args: &ReindexArgs, out: &mut dyn Write) -> Result<()> {
    let stopped = args.data.open()?;
    let before = stopped.distance_max();
    let after = args.distance.unwrap_or(before);
    let had_labels = stopped.has_labels();
    let has_labels = args.search.map_or(had_labels, |search| search == SearchRule::Likely);
    let directory = args.data.directory()?;
    let directory = directory.display();
    if (before, had_labels) == (after, has_labels) {
        let search = SearchRule::of(has_labels).name();
        writeln!(
            out,
            "nothing to do: the maximum distance of {directory} is {after}, and its search is \
             {search} already"
        )?;
        return Ok(());
    }
    let progress = bar("rebuilding the index", stopped.record_bytes()?);
    let reindexed = stopped.reindex((after, has_labels), &mut |bytes| progress.inc(bytes));
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
    writeln!(
        out,
        "reindexed {} documents in {:.1} s\n\
         maximum distance  {before} -> {after}\n\
         search of texts   {} -> {}\n\
         start it: nearprint serve --data {directory}",
        count(counts.documents),
        took.as_secs_f64(),
        SearchRule::of(had_labels).name(),
        SearchRule::of(has_labels).name(),
    )?;
    Ok(())
}
