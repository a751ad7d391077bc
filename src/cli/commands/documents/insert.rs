//! `insert`: stores a document, whatever is near it.

use std::io::Write;

use anyhow::{Context, Result};
use serde_json::Value;

use super::check::outcome;
use super::options::{DocumentArgs, StoringArgs};
use crate::cli::collection::ServiceArgs;
use crate::cli::reply::Reply;

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
    service: ServiceArgs,
    /// Print the reply of the service as it is
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &InsertArgs, out: &mut dyn Write) -> Result<()> {
    let mut request = args.document.request()?;
    args.storing.add_to(&mut request);
    let reply: Value = args.service.open()?.post_json("/v1/insert", &Value::Object(request))?;
    if args.json {
        writeln!(out, "{reply}")?;
        return Ok(());
    }
    let reply: Reply = serde_json::from_value(reply).context("the reply is none to an insert")?;
    writeln!(out, "{}\nfingerprint {}", outcome(&reply), reply.fingerprint)?;
    Ok(())
}
