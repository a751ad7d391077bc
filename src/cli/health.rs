//! `health`: exit code 0 when a service answers, 1 when it does not.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;

use super::client::{Client, DEFAULT_SERVER};
use super::trouble::Trouble;

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The arguments of `health`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where the service listens
    #[arg(long, visible_alias = "server", value_name = "URL", default_value = DEFAULT_SERVER)]
    url: String,
    /// Ask whether it accepts writes, not only whether it is alive
    #[arg(long)]
    ready: bool,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let client = Client::new(&args.url);
    let path = if args.ready { "/readyz" } else { "/healthz" };
    match client.probe(path, TIMEOUT)? {
        200 => Ok(writeln!(out, "ok")?),
        status => {
            let what = format!("{}{path} answers with status {status}", client.server());
            Err(Trouble::new(what, "look at the log of the service").into())
        }
    }
}
