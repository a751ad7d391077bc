//! `query`: looks a document up in a running service.

use std::io::Write;

use anyhow::Result;
use nearprint_service::Operation;

use super::hits;
use super::options::{DocumentArgs, ReplyArgs, SearchArgs, add};

const AFTER_HELP: &str = "\
Exit codes:
  0  a near-duplicate is stored
  1  no near-duplicate is stored
  2  the look-up failed, or the arguments are invalid

Examples:
  sed 's/harbour/port/' page-1.txt | nearprint query
  nearprint query --namespace crawl-7 --max-age 86400 page-1.txt
  nearprint query --distance 2 --json 00000000000000ff
  nearprint query --quiet page-1.txt && echo 'seen before'";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    document: DocumentArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// Leave out the stored document with this id
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Show the metadata of the documents that are found
    #[arg(long)]
    metadata: bool,
    #[command(flatten)]
    reply: ReplyArgs,
    /// Print nothing but errors; the exit code tells
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

/// Returns whether a near-duplicate is stored.
pub(crate) fn run(args: &QueryArgs, out: &mut dyn Write) -> Result<bool> {
    let mut request = args.document.request()?;
    args.search.add_to(&mut request);
    add(&mut request, "id", args.id.as_ref());
    add(&mut request, "include", args.metadata.then_some(["metadata"]));
    let reply = args.reply.send(Operation::Query, &request, args.quiet, out)?.answer;
    if !args.reply.json && !args.quiet {
        hits::print(&reply, out)?;
    }
    Ok(reply.duplicate)
}
