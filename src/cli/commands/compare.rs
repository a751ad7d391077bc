//! `compare`: two documents side by side, without a service.

use std::io::Write;

use anyhow::{Context, Result, bail};
use nearprint_engine::document::Document;
use nearprint_engine::machine::query::{Criteria, FoundBy, SearchKind, Sought};
use nearprint_files::dedup::grouping;
use nearprint_files::offer::Content;
use nearprint_fingerprint::MinResemblance;
use nearprint_text::{Analysis, Explained, Method};
use serde_json::json;

use crate::cli::document::{self, MethodArgs};
use crate::cli::explanation::differences;
use crate::config::Config;

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct CompareArgs {
    /// A file, a fingerprint of 16 hex digits, or a text of several words
    a: String,
    /// What to compare it with, in any of these forms
    b: String,
    /// Read both as HTML
    #[arg(long)]
    html: bool,
    /// Treat both arguments as texts, not as names of files
    #[arg(long)]
    text: bool,
    /// Read both files as JSON of a dense vector: [number, ...]
    #[arg(long, conflicts_with_all = ["html", "text", "extract"])]
    vector: bool,
    #[command(flatten)]
    method: MethodArgs,
    /// Print why: the bits that differ, and the features that decide them
    #[arg(long, conflicts_with = "json")]
    explain: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CompareArgs, out: &mut dyn Write) -> Result<()> {
    let method = args.method.method()?;
    let bodies = [body(&args.a, args)?, body(&args.b, args)?];
    let [a, b] = &bodies;
    let (a, b) = (analyse(&args.a, a, method)?, analyse(&args.b, b, method)?);
    let distance = a.fingerprint.distance(b.fingerprint);
    let similarity = match (&a.sketch, &b.sketch) {
        (Some(x), Some(y)) => Some(x.resemblance(y).similarity()),
        _ => None,
    };
    let found_by = found_by(&a, &b);
    if args.json {
        let line = json!({
            "a": a.fingerprint.to_string(),
            "b": b.fingerprint.to_string(),
            "distance": distance.get(),
            "similarity": similarity,
            "found_by": found_by,
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
    writeln!(out, "found by    {}", found_by.unwrap_or("nothing; the two are too far apart"))?;
    if args.explain {
        let [a, b] = bodies.map(Content::into_source);
        let (Ok(a), Ok(b)) = (a, b) else {
            bail!("a bare fingerprint has no features to explain it; give two documents");
        };
        let (a, b) = (Explained::of(&a, method)?, Explained::of(&b, method)?);
        writeln!(out, "\n{}", differences(&a, &b))?;
    }
    Ok(())
}

fn body(argument: &str, args: &CompareArgs) -> Result<Content<'static>> {
    if args.vector {
        return document::read_json(argument.as_ref(), nearprint_files::parse_vector);
    }
    document::of_argument(argument, args.html, args.text)
}

fn analyse(argument: &str, content: &Content<'_>, method: Method) -> Result<Analysis> {
    document::analyse(content, method).with_context(|| format!("no fingerprint of {argument}"))
}

/// How `nearprint dedup` with its default options finds the pair, if it does. A service may find
/// other pairs beyond the distance, because its directory has a permutation of its own.
fn found_by(a: &Analysis, b: &Analysis) -> Option<&'static str> {
    let sought = |analysis: &Analysis| {
        let sketch = analysis.sketch.clone();
        let document = Document { sketch, ..Document::bare(analysis.fingerprint) };
        Sought { document, margins: analysis.margins.clone() }
    };
    let criteria = Criteria {
        min_resemblance: MinResemblance::of_similarity(Config::default().query.min_similarity),
        search: SearchKind::Likely,
        ..Criteria::within(grouping::DISTANCE_DEFAULT)
    };
    FoundBy::of([&sought(a), &sought(b)], criteria, grouping::is_likely).map(|by| match by {
        FoundBy::Distance => "distance",
        FoundBy::Likely => "likely",
    })
}

fn shortness(analysis: &Analysis) -> &'static str {
    if analysis.short { "  (a short text: only distance 0 means much)" } else { "" }
}
