//! `query`: looks a document up in a running service.

use std::io::Write;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cli::client::{Client, Credentials, DEFAULT_SERVER};
use crate::cli::document;
use crate::cli::reply::Reply;

/// The arguments of `query`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file, a fingerprint of 16 hex digits, or a text of several words; - is the standard input
    #[arg(default_value = "-")]
    document: String,
    /// Read the document as HTML
    #[arg(long)]
    html: bool,
    /// Take the argument itself as a text
    #[arg(long)]
    text: bool,
    /// The largest distance, 0 to the maximum of the service
    #[arg(long, value_name = "BITS")]
    distance: Option<u8>,
    /// The maximum number of hits to list
    #[arg(long, value_name = "COUNT")]
    limit: Option<u16>,
    /// How much of the text must agree, 0 to 1; 0 switches the check off
    #[arg(long, value_name = "PART")]
    min_similarity: Option<f64>,
    /// Leave out the stored document with this id
    #[arg(long)]
    id: Option<String>,
    /// Where the service listens
    #[arg(long, value_name = "URL", default_value = DEFAULT_SERVER)]
    server: String,
    #[command(flatten)]
    credentials: Credentials,
    /// Print the reply of the service as it is
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let body = document::of_argument(&args.document, args.html, args.text)?;
    let mut request = document::to_wire(args.id.as_deref(), &body);
    let mut option = |name: &str, value: Option<Value>| {
        request.extend(value.map(|value| (name.to_owned(), value)));
    };
    option("distance", args.distance.map(|bits| json!(bits)));
    option("limit", args.limit.map(|count| json!(count)));
    option("min_similarity", args.min_similarity.map(|part| json!(part)));

    let reply = Client::new(&args.server, &args.credentials)?
        .post_json("/v1/query", &Value::Object(request))?;
    if args.json {
        writeln!(out, "{reply}")?;
        return Ok(());
    }
    let reply: Reply = serde_json::from_value(reply).context("the reply is no query reply")?;
    print(&reply, out)
}

fn print(reply: &Reply, out: &mut dyn Write) -> Result<()> {
    writeln!(out, "fingerprint {}", reply.fingerprint)?;
    if reply.hits.is_empty() {
        writeln!(out, "nothing near it is stored")?;
        return Ok(());
    }
    writeln!(out, "\ndistance  similarity  duplicate  stored as")?;
    for hit in &reply.hits {
        let similarity = hit.similarity.map_or("-".to_owned(), |part| format!("{part:.3}"));
        let duplicate = if hit.counts(reply.short) { "yes" } else { "no" };
        let first = hit.ids.first().map_or("(no id)", String::as_str);
        let more = match hit.id_count {
            0 | 1 => String::new(),
            count => format!("  and {} more", count - 1),
        };
        writeln!(out, "{:>8}  {similarity:>10}  {duplicate:>9}  {first}{more}", hit.distance)?;
    }
    let listed = reply.hits.len() as u64;
    if reply.hit_count > listed {
        writeln!(out, "{} more; see --limit", reply.hit_count - listed)?;
    }
    Ok(())
}
