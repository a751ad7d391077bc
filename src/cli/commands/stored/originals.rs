//! `originals`: the documents of a running service with the most duplicates.

use std::io::Write;

use anyhow::Result;
use nearprint_wire::answer::DocumentReply;

use crate::cli::collection::{self, ServiceArgs};
use crate::cli::columns::{Column, json_lines, table};
use crate::cli::measure::numbers::count;
use crate::cli::measure::times;

const EXAMPLES: &str = "\
Examples:
  nearprint originals --limit 50
  nearprint originals --recent --json";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OriginalsArgs {
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
    /// Print a JSON object a line for each document, with its metadata
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

const COLUMNS: &[Column<DocumentReply<'static>>] = &[
    ("duplicates", |original| count(original.duplicates.unwrap_or_default().into())),
    ("last", |original| times::shown_ms(original.last_duplicate_at_ms)),
    ("stored", |original| times::shown_ms(Some(original.stored_at_ms))),
    ("fingerprint", |original| original.fingerprint.to_string()),
    ("namespace", |original| original.namespace.as_deref().unwrap_or_default().to_owned()),
    ("id", |original| original.id.as_deref().unwrap_or_default().to_owned()),
];

pub(crate) fn run(args: &OriginalsArgs, out: &mut dyn Write) -> Result<()> {
    let originals: Vec<DocumentReply<'static>> =
        args.service.open()?.items(&path(args), "originals", args.limit)?;
    if args.json {
        json_lines(&originals, out)?;
    } else if originals.is_empty() {
        writeln!(out, "no document was the original of a duplicate")?;
    } else {
        write!(out, "{}", table(COLUMNS, &originals))?;
    }
    Ok(())
}

fn path(args: &OriginalsArgs) -> String {
    collection::path(
        "/v1/originals",
        &[
            ("order", args.recent.then(|| "recent".to_owned())),
            ("namespace", args.namespace.clone()),
            ("all_namespaces", args.all_namespaces.then(|| "true".to_owned())),
            ("include", args.json.then(|| "metadata".to_owned())),
        ],
    )
}
