//! `fingerprint`: the fingerprints of files, made here without a service.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;

use crate::bulk::{Body, parse_features};
use crate::cli::document::{self, MethodArgs};
use crate::cli::explanation::why;
use crate::text::{Explained, Method};

/// The arguments of `fingerprint`.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct Args {
    /// Files, each one document; - or nothing is the standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read them as HTML whatever they are called
    #[arg(long)]
    html: bool,
    /// Read them as JSON of weighted features: {"token": weight} or [["token", weight], ...]
    #[arg(long, conflicts_with_all = ["html", "extract"])]
    features: bool,
    #[command(flatten)]
    method: MethodArgs,
    /// Print why: the heaviest features, and the bits that an edit tips first
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Print a JSON object a line: also recipe, features, tokens, short
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let stdin = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &stdin[..] } else { &args.files };
    let mut failed = 0;
    for file in files {
        if let Err(error) = print(args, file, out) {
            // A closed pipe ends the run; a bad file affects only its own line.
            if crate::cli::error_report::is_closed_pipe(&error) || files.len() == 1 {
                return Err(error);
            }
            failed += 1;
            eprintln!("{}", crate::cli::error_report::render(&error));
        }
    }
    if failed > 0 {
        bail!("{failed} of {} files have no fingerprint", files.len());
    }
    Ok(())
}

fn print(args: &Args, file: &Path, out: &mut dyn Write) -> Result<()> {
    let body = if args.features { features(file)? } else { document::read(file, args.html)? };
    let method = Method::from(args.method);
    let analysis = document::analyse(&body, method)
        .with_context(|| format!("no fingerprint of {}", file.display()))?;
    if args.json {
        let line = json!({
            "file": file.to_string_lossy(),
            "fingerprint": analysis.fingerprint.to_string(),
            "recipe": method.recipe.to_string(),
            "features": analysis.features,
            "tokens": analysis.tokens,
            "short": analysis.short,
        });
        writeln!(out, "{line}")?;
    } else {
        // As checksum tools print it, and as the hex format of `import` reads it.
        writeln!(out, "{}\t{}", analysis.fingerprint, file.display())?;
    }
    if args.explain
        && let Ok(source) = document::source(&body)
    {
        writeln!(out, "\n{}", why(&Explained::of(&source, method)?))?;
    }
    Ok(())
}

/// Reads a file of weighted features through the reader of documents.
fn features(file: &Path) -> Result<Body> {
    let Body::Text(json) = document::read(file, false)? else {
        bail!("{} contains HTML, not features", file.display());
    };
    parse_features(&json).map_err(|why| anyhow!("{}: {why}", file.display()))
}
