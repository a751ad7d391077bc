//! `delete`: removes the document with an id.

use std::io::Write;

use anyhow::Result;
use nearprint_wire::answer::RemovedReply;
use serde_json::value::RawValue;

use super::get;
use super::options::{NamespaceArgs, ReplyArgs};

const AFTER_HELP: &str = "\
It succeeds, too, if no document has the id, so that it may be repeated.

Examples:
  nearprint delete https://a.example/1
  nearprint delete --namespace crawl-7 https://a.example/1";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct DeleteArgs {
    /// The id of the document
    id: String,
    #[command(flatten)]
    namespace: NamespaceArgs,
    #[command(flatten)]
    reply: ReplyArgs,
}

pub(crate) fn run(args: &DeleteArgs, out: &mut dyn Write) -> Result<()> {
    let service = args.reply.service.open()?;
    let reply: Box<RawValue> = service.delete_json(&get::path(&args.id, &args.namespace))?;
    let RemovedReply { removed, .. } = args.reply.read(&reply, out)?;
    match removed {
        _ if args.reply.json => {}
        0 => writeln!(out, "nothing to remove: no document with this id is stored")?,
        _ => writeln!(out, "removed")?,
    }
    Ok(())
}
