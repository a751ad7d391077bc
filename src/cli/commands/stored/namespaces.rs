//! `namespaces`: the namespaces of a running service, and how many documents each has.

use std::io::Write;

use anyhow::Result;
use serde::Deserialize;

use crate::cli::client::{self, Client, ServiceArgs};
use crate::cli::columns::{Column, table};
use crate::cli::measure::numbers::count;
use crate::cli::printable::printable;

/// The namespaces that are asked for at one time.
const PAGE: u64 = 1_000;

/// The arguments of `namespaces`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    service: ServiceArgs,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let rows = rows(&args.service.client()?)?;
    if rows.is_empty() {
        writeln!(out, "the token reaches no namespace that has documents")?;
        return Ok(());
    }
    write!(out, "{}", table(COLUMNS, &rows))?;
    Ok(())
}

const COLUMNS: &[Column<Row>] = &[
    ("namespace", |row| match &row.namespace {
        Some(name) => printable(name).into_owned(),
        None => "(default)".to_owned(),
    }),
    ("documents", |row| count(row.documents)),
];

#[derive(Debug, Deserialize)]
struct Row {
    namespace: Option<String>,
    documents: u64,
}

#[derive(Debug, Deserialize)]
struct Page {
    namespaces: Vec<Row>,
    /// `None` if the token does not reach them.
    default_documents: Option<u64>,
    next: Option<String>,
}

/// The default namespace, and then the others.
fn rows(client: &Client) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let is_first = after.is_none();
        let parameters = [("limit", Some(PAGE.to_string())), ("after", after)];
        let page: Page = client.get_json(&client::path("/v1/namespaces", &parameters))?;
        let default = page.default_documents.filter(|_| is_first);
        rows.extend(default.map(|documents| Row { namespace: None, documents }));
        rows.extend(page.namespaces);
        after = page.next;
        if after.is_none() {
            return Ok(rows);
        }
    }
}
