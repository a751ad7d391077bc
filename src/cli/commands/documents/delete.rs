//! `delete`: removes the document with an id.

use std::io::Write;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use super::get;
use super::options::NamespaceArgs;
use crate::cli::collection::ServiceArgs;

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
    service: ServiceArgs,
    /// Print the reply of the service as it is
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Deserialize)]
struct Removed {
    removed: u64,
}

pub(crate) fn run(args: &DeleteArgs, out: &mut dyn Write) -> Result<()> {
    let service = args.service.open()?;
    let reply: Value = service.delete_json(&get::path(&args.id, &args.namespace))?;
    if args.json {
        writeln!(out, "{reply}")?;
        return Ok(());
    }
    let removed: Removed = serde_json::from_value(reply).context("the reply is no removal")?;
    match removed.removed {
        0 => writeln!(out, "nothing to remove: no document with this id is stored")?,
        _ => writeln!(out, "removed")?,
    }
    Ok(())
}
