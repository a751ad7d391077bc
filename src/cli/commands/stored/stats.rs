//! `stats`: the state of a running service in numbers.

use std::io::{self, Write};

use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;
use serde_json::Value;

use crate::cli::collection::{self, ServiceArgs};
use crate::cli::measure::numbers::{bytes, count};
use crate::cli::measure::times;
use crate::cli::printable::printable;

const AFTER_HELP: &str = "\
Examples:
  nearprint stats
  nearprint stats --namespace crawl-7
  nearprint stats --json | jq .memory.total_bytes";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct StatsArgs {
    /// Only the number of documents in this namespace
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// Print the reply of the service as it is, which has more figures
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

pub(crate) fn run(args: &StatsArgs, out: &mut dyn Write) -> Result<()> {
    let path = collection::path("/v1/stats", &[("namespace", args.namespace.clone())]);
    let service = args.service.open()?;
    let stats: Value = service.get_json(&path)?;
    // Both the figures of a service and those of a namespace have it.
    if stats["documents"].as_u64().is_none() {
        return Err(service.foreign("it does not count documents").into());
    }
    if args.json {
        writeln!(out, "{stats}")?;
        return Ok(());
    }
    Ok(print(&stats, out)?)
}

/// Prints the figures that the reply has: for a namespace, it is one.
fn print(stats: &Value, out: &mut dyn Write) -> io::Result<()> {
    let number = |path: &str| stats.pointer(path).and_then(Value::as_u64);
    let text = |path: &str| stats.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let whole = |path: &str| number(path).map(count);
    let size = |path: &str| number(path).map(bytes);
    let rows = [
        ("documents", whole("/documents")),
        ("namespaces", whole("/namespaces")),
        ("recipe", text("/recipe")),
        ("maximum distance", whole("/distance_max")),
        ("durability", text("/durability/policy")),
        ("memory of the index", size("/memory/total_bytes")),
        ("memory of the process", size("/memory/resident_bytes")),
        ("journal", size("/journal/bytes")),
        ("free on the disk", size("/disk/free_bytes")),
        ("last snapshot", number("/last_snapshot/taken_at_ms").map(|ms| times::shown_ms(Some(ms)))),
        ("running for", number("/uptime_seconds").map(|seconds| format!("{} s", count(seconds)))),
        ("version", text("/version")),
    ];
    for (name, value) in rows {
        if let Some(value) = value {
            writeln!(out, "{name:<24}{}", printable(&value))?;
        }
    }
    Ok(())
}
