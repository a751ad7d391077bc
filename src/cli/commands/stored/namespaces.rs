//! `namespaces`: the namespaces of a running service, and how many documents each has.

use std::io::Write;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::cli::collection::{RemoteService, ServiceArgs};
use crate::cli::columns::{Column, json_lines, table};
use crate::cli::measure::numbers::count;

const EXAMPLES: &str = "\
Examples:
  nearprint namespaces
  nearprint namespaces --json | jq -r .namespace";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NamespacesArgs {
    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

pub(crate) fn run(args: &NamespacesArgs, out: &mut dyn Write) -> Result<()> {
    let rows = rows(&args.service.open()?)?;
    if args.json {
        return Ok(json_lines(&rows, out)?);
    }
    if rows.is_empty() {
        writeln!(out, "the token reaches no namespace that has documents")?;
        return Ok(());
    }
    write!(out, "{}", table(COLUMNS, &rows))?;
    Ok(())
}

const COLUMNS: &[Column<Row>] = &[
    ("namespace", |row| row.namespace.as_deref().unwrap_or("(default)").to_owned()),
    ("documents", |row| count(row.documents)),
];

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    namespace: Option<String>,
    documents: u64,
}

/// The default namespace, unless the token does not reach it, and then the others.
fn rows(service: &RemoteService) -> Result<Vec<Row>> {
    let (named, page) = service.listing("/v1/namespaces", "namespaces", u64::MAX)?;
    let default = page["default_documents"].as_u64();
    let default = default.map(|documents| Row { namespace: None, documents });
    Ok(default.into_iter().chain(named).collect())
}
