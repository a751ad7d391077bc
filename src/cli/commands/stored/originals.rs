//! `originals`: the documents of a running service with the most duplicates.

use std::io::Write;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cli::client::{self, ServiceArgs};
use crate::cli::columns::{Column, table};
use crate::cli::measure::numbers::count;
use crate::cli::printable::printable;
use crate::cli::times;

/// Documents of one page.
const PAGE: u64 = 1_000;

/// The arguments of `originals`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The namespace; without it, the default one
    #[arg(long, value_name = "NAME", conflicts_with = "all_namespaces")]
    namespace: Option<String>,
    /// All namespaces
    #[arg(long)]
    all_namespaces: bool,
    /// Those with the last duplicate first, not those with the most
    #[arg(long)]
    recent: bool,
    /// List at most this many documents
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    limit: u64,
    /// Print one JSON object a line for each document, with its metadata
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Debug, Deserialize)]
struct Originals {
    originals: Vec<Original>,
    next: Option<String>,
}

/// A document as the service shows it.
#[derive(Debug, Serialize, Deserialize)]
struct Original {
    namespace: Option<String>,
    id: Option<String>,
    fingerprint: String,
    stored_at_ms: u64,
    duplicates: u64,
    last_duplicate_at_ms: Option<u64>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

const COLUMNS: &[Column<Original>] = &[
    ("duplicates", |original| count(original.duplicates)),
    ("last", |original| times::shown_ms(original.last_duplicate_at_ms)),
    ("stored", |original| times::shown_ms(Some(original.stored_at_ms))),
    ("fingerprint", |original| original.fingerprint.clone()),
    ("namespace", |original| shown(original.namespace.as_deref())),
    ("id", |original| shown(original.id.as_deref())),
];

fn shown(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| printable(name).to_string())
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let client = args.service.client()?;
    let (mut originals, mut after) = (Vec::new(), None);
    while (originals.len() as u64) < args.limit {
        let limit = PAGE.min(args.limit - originals.len() as u64);
        let page: Originals = client.get_json(&path(args, after, limit))?;
        originals.extend(page.originals);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    if args.json {
        for original in &originals {
            serde_json::to_writer(&mut *out, original)?;
            writeln!(out)?;
        }
    } else if originals.is_empty() {
        writeln!(out, "no document was the original of a duplicate")?;
    } else {
        write!(out, "{}", table(COLUMNS, &originals))?;
    }
    Ok(())
}

fn path(args: &Args, after: Option<String>, limit: u64) -> String {
    client::path(
        "/v1/originals",
        &[
            ("order", args.recent.then(|| "recent".to_owned())),
            ("namespace", args.namespace.clone()),
            ("all_namespaces", args.all_namespaces.then(|| "true".to_owned())),
            ("include", args.json.then(|| "metadata".to_owned())),
            ("limit", Some(limit.to_string())),
            ("after", after),
        ],
    )
}
