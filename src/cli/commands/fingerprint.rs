//! `fingerprint`: the fingerprints of files, made here without a service.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use nearprint_files::{Documents, Format, parse_features, parse_vector};
use nearprint_text::{Analysis, Explained, Method};
use serde_json::json;

use crate::cli::document::{self, MethodArgs};
use crate::cli::explanation::why;
use crate::cli::standard_output::StandardOutput;

const EXAMPLES: &str = "\
Examples:
  nearprint fingerprint page-1.txt page-2.txt
  curl -s https://a.example/ | nearprint fingerprint --html
  nearprint fingerprint --ndjson dump.jsonl > dump.hex
  nearprint fingerprint --explain page-1.txt";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct FingerprintArgs {
    /// Files, each one document; - or nothing is the standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Read them as HTML whatever they are called
    #[arg(long)]
    html: bool,
    /// Read them as JSON of weighted features: {"token": weight} or [["token", weight], ...]
    #[arg(long, conflicts_with_all = ["html", "extract"])]
    features: bool,
    /// Read them as JSON of a dense vector: [number, ...]
    #[arg(long, conflicts_with_all = ["html", "extract", "features"])]
    vector: bool,
    /// Read them as NDJSON, a document a line as for `import`, and print each id with its
    /// fingerprint
    #[arg(long, conflicts_with_all = ["html", "features", "vector"])]
    ndjson: bool,
    #[command(flatten)]
    method: MethodArgs,
    /// Print why: the heaviest features, and the bits that an edit tips first
    #[arg(long, conflicts_with_all = ["json", "ndjson"])]
    explain: bool,
    /// Print a JSON object a line: also recipe, features, tokens, short
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &FingerprintArgs, out: &mut StandardOutput) -> Result<()> {
    let stdin = [PathBuf::from("-")];
    let files = if args.files.is_empty() { &stdin[..] } else { &args.files };
    if args.ndjson {
        return print_lines(args, files, out);
    }
    let method = args.method.method()?;
    let mut failed = 0;
    for file in files {
        if let Err(error) = print(args, file, method, out) {
            // A bad file affects only its own line.
            if files.len() == 1 {
                return Err(error);
            }
            failed += 1;
            say!("{}", crate::cli::error_report::render(&error));
        }
    }
    if failed > 0 {
        bail!("{failed} of {} files have no fingerprint", files.len());
    }
    Ok(())
}

fn print(args: &FingerprintArgs, file: &Path, method: Method, out: &mut dyn Write) -> Result<()> {
    let body = match (args.features, args.vector) {
        (true, _) => document::read_json(file, parse_features)?,
        (_, true) => document::read_json(file, parse_vector)?,
        (false, false) => document::read(file, args.html)?,
    };
    let analysis = document::analyse(&body, method)
        .with_context(|| format!("no fingerprint of {}", file.display()))?;
    print_analysis(args, &analysis, ("file", &*file.to_string_lossy()), out)?;
    if args.explain
        && let Ok(source) = body.into_source()
    {
        writeln!(out, "\n{}", why(&Explained::of(&source, method)?))?;
    }
    Ok(())
}

/// Prints an analysis, with the name of the document and what kind of name it is.
fn print_analysis(
    args: &FingerprintArgs,
    analysis: &Analysis,
    (kind, name): (&str, &str),
    out: &mut dyn Write,
) -> Result<()> {
    if args.json {
        let line = json!({
            kind: name,
            "fingerprint": analysis.fingerprint.to_string(),
            "recipe": args.method.recipe().to_string(),
            "features": analysis.features,
            "tokens": analysis.tokens,
            "short": analysis.short,
        });
        writeln!(out, "{line}")?;
    } else {
        // As checksum tools print it, and as the hex format of `import` reads it.
        writeln!(out, "{}\t{name}", analysis.fingerprint)?;
    }
    Ok(())
}

/// Prints the fingerprint of each line of some files, as long as somebody reads them.
fn print_lines(args: &FingerprintArgs, files: &[PathBuf], out: &mut StandardOutput) -> Result<()> {
    let method = args.method.method()?;
    let closed = out.closed();
    let (mut lines, mut failed) = (0_u64, 0_u64);
    for entry in Documents::new(files.to_vec(), Format::Ndjson) {
        lines += 1;
        let analysed = entry.map_err(anyhow::Error::from).and_then(|entry| {
            let analysis = document::analyse(&entry.content, method)
                .with_context(|| format!("no fingerprint of {}", entry.place))?;
            Ok((entry.id.unwrap_or_default(), analysis))
        });
        match analysed {
            Ok((id, analysis)) => print_analysis(args, &analysis, ("id", id.as_str()), out)?,
            Err(error) => {
                failed += 1;
                say!("{}", crate::cli::error_report::render(&error));
            }
        }
        if closed.is_closed() {
            break;
        }
    }
    if failed > 0 {
        bail!("{failed} of {lines} documents have no fingerprint");
    }
    Ok(())
}
