//! `insert`: stores a document even if a near-duplicate of it is stored.

use std::io::Write;

use anyhow::Result;
use nearprint_service::Operation;

use super::check::outcome;
use super::hits;
use super::options::{DocumentArgs, ReplyArgs, StoringArgs};

const AFTER_HELP: &str = "\
Examples:
  nearprint insert --id https://a.example/1 page-1.txt
  curl -s https://a.example/2 | nearprint insert --html --id https://a.example/2
  nearprint insert --id-from text-hash --metadata '{\"lang\": \"en\"}' page-2.txt
  nearprint insert --id 7 00000000000000ff";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct InsertArgs {
    #[command(flatten)]
    document: DocumentArgs,
    #[command(flatten)]
    storing: StoringArgs,
    #[command(flatten)]
    reply: ReplyArgs,
}

pub(crate) fn run(args: &InsertArgs, out: &mut dyn Write) -> Result<()> {
    let mut request = args.document.request()?;
    args.storing.add_to(&mut request);
    let reply = args.reply.send(Operation::Insert, &request, false, out)?.answer;
    if !args.reply.json {
        writeln!(out, "{}\n{}", outcome(&reply), hits::fingerprint(&reply))?;
        if let Some(previous) = reply.previous {
            hits::print_previous(&previous, out)?;
        }
    }
    Ok(())
}
