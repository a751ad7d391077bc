//! `compare`: two documents side by side, without a service.

use std::io::Write;

use anyhow::{Context, Result};
use serde_json::json;

use super::document;
use crate::text::Analysis;

/// The arguments of `compare`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A file, a fingerprint of 16 hex digits, or a text of several words
    a: String,
    /// The same
    b: String,
    /// Read both as HTML
    #[arg(long)]
    html: bool,
    /// Take both arguments themselves as texts
    #[arg(long)]
    text: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let a = analyse(&args.a, args)?;
    let b = analyse(&args.b, args)?;
    let distance = a.fingerprint.distance(b.fingerprint);
    let similarity = match (&a.sketch, &b.sketch) {
        (Some(x), Some(y)) => Some(x.resemblance(y).similarity()),
        _ => None,
    };
    if args.json {
        let line = json!({
            "a": a.fingerprint.to_string(),
            "b": b.fingerprint.to_string(),
            "distance": distance.get(),
            "similarity": similarity,
        });
        writeln!(out, "{line}")?;
        return Ok(());
    }
    writeln!(out, "a           {}{}", a.fingerprint, shortness(&a))?;
    writeln!(out, "b           {}{}", b.fingerprint, shortness(&b))?;
    writeln!(out, "distance    {distance} of 64 bits")?;
    match similarity {
        Some(similarity) => writeln!(out, "similarity  {similarity:.3} of the text, estimated")?,
        None => writeln!(out, "similarity  unknown: needs two texts")?,
    }
    Ok(())
}

fn analyse(argument: &str, args: &Args) -> Result<Analysis> {
    let body = document::of_argument(argument, args.html, args.text)?;
    document::analyse(&body).with_context(|| format!("no fingerprint of {argument}"))
}

fn shortness(analysis: &Analysis) -> &'static str {
    if analysis.short { "  (a short text: only distance 0 means much)" } else { "" }
}
