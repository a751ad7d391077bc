//! `compare`: two documents side by side, without a service.

use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use nearprint_engine::document::Document;
use nearprint_files::dedup::grouping;
use nearprint_fingerprint::Distance;
use nearprint_machine::query::{Criteria, SearchKind};
use nearprint_text::{Explained, Method};
use nearprint_wire::answer::{
    CompareReply, ComparedReply, ComparisonExplanationReply, FoundByReply, KeptApartByReply, Least,
};
use nearprint_wire::offer::Content;

use crate::cli::document::{self, FormArgs, MethodArgs};
use crate::cli::explanation::differences;
use crate::cli::measure::arguments::{distance, similarity};
use crate::config::Config;

const AFTER_HELP: &str = "\
A service finds other pairs beyond the distance, because its directory has a permutation of its own.

Exit codes:
  0  the documents were compared, whatever the verdict; --json has it as `duplicate`
  1  a document could not be read, or has no fingerprint
  2  invalid arguments

Examples:
  sed 's/harbour/port/' page-1.txt | nearprint compare page-1.txt -
  nearprint compare --explain page-1.txt page-2.txt
  nearprint compare --distance 4 --json 00000000000000ff 00000000000000f0";

#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    // The text of a page that counts.
    group = clap::ArgGroup::new("without text").args(["vector"]).conflicts_with("extract"),
)]
pub(crate) struct CompareArgs {
    /// A file, a fingerprint of 16 hex digits, or a text of several words; - is the standard input
    a: String,
    /// What to compare it with, in any of these forms
    b: String,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    method: MethodArgs,
    /// The largest distance of two near-duplicates
    #[arg(long, value_name = "BITS", value_parser = distance, default_value_t = grouping::DISTANCE_DEFAULT)]
    distance: Distance,
    /// How much of two texts must agree, 0 to 1; 0 does not compare them
    #[arg(long, value_name = "SIMILARITY", value_parser = similarity, default_value_t = Config::default().query.min_similarity)]
    min_similarity: f64,
    /// How many of their numbers two texts must share, 0 to 1; 0 does not compare them
    #[arg(long, value_name = "SHARE", value_parser = similarity, default_value_t = Config::default().query.min_numbers)]
    min_numbers: f64,
    /// Print why: the bits that differ, and the features that decide them
    #[arg(long)]
    explain: bool,
    /// Print the object that the service replies with
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &CompareArgs, out: &mut dyn Write) -> Result<()> {
    let method = args.method.method()?;
    let bodies = [args.form.read(&args.a)?, args.form.read(&args.b)?];
    let [a, b] = &bodies;
    let pair = [&document_of(&args.a, a, method)?, &document_of(&args.b, b, method)?];
    let least = Least { similarity: args.min_similarity, numbers: args.min_numbers };
    let criteria = Criteria {
        threshold: least.threshold(),
        search: SearchKind::Likely,
        ..Criteria::within(args.distance)
    };
    let mut reply = CompareReply::new(pair, (criteria, least));
    let explained = bodies.map(|body| args.explain.then(|| explained(&body, method)));
    let [a, b] = explained.map(|side| side.transpose().map(Option::flatten));
    let (a, b) = (a?, b?);
    if args.json {
        let explanation = || ComparisonExplanationReply::new(a.as_ref(), b.as_ref());
        reply.explanation = args.explain.then(explanation);
        serde_json::to_writer(&mut *out, &reply)?;
        writeln!(out)?;
        return Ok(());
    }
    print(&reply, args, out)?;
    if args.explain {
        let Some((a, b)) = a.zip(b) else {
            bail!("a bare fingerprint has no features to explain it; give two documents");
        };
        writeln!(out, "\n{}", differences(&a, &b))?;
    }
    Ok(())
}

/// A document as a look-up takes it.
fn document_of(argument: &str, content: &Content<'_>, method: Method) -> Result<Document> {
    let analysis = document::analyse(content, method)
        .with_context(|| format!("no fingerprint of {argument}"))?;
    let bare = Document::bare(analysis.fingerprint);
    Ok(Document { sketch: analysis.sketch, short: analysis.short, ..bare })
}

/// Why a document has its fingerprint; `None` for a bare fingerprint.
fn explained(content: &Content<'_>, method: Method) -> Result<Option<Explained>> {
    let source = content.borrowed().into_source().ok();
    Ok(source.map(|source| Explained::of(&source, method)).transpose()?)
}

fn print(reply: &CompareReply, args: &CompareArgs, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "a           {}{}", reply.a.fingerprint, shortness(&reply.a))?;
    writeln!(out, "b           {}{}", reply.b.fingerprint, shortness(&reply.b))?;
    writeln!(out, "distance    {} of 64 bits", reply.distance)?;
    match reply.similarity {
        Some(similarity) => writeln!(out, "similarity  {similarity:.3} of the text, estimated")?,
        None if args.min_similarity > 0.0 => {
            writeln!(out, "similarity  unknown: needs two texts")?;
        }
        None => writeln!(out, "similarity  not compared: --min-similarity is 0")?,
    }
    if let Some(numbers) = reply.numbers {
        writeln!(out, "numbers     {numbers:.3} of them in common, estimated")?;
    }
    let verdict = if reply.duplicate { "duplicate" } else { "not a duplicate" };
    writeln!(out, "verdict     {verdict}: {}", reason(reply, args))
}

/// The rule that decides the verdict, with its thresholds.
fn reason(reply: &CompareReply, args: &CompareArgs) -> String {
    let (distance, min_similarity) = (args.distance, args.min_similarity);
    let found = match reply.found_by {
        None => {
            return format!(
                "the distance is above {distance}, and no look-up of either compares the two{}",
                match reply.kept_apart_by {
                    Some(KeptApartByReply::Labels) => ": they share no label",
                    _ => "",
                }
            );
        }
        Some(FoundByReply::Distance) => format!("the distance is at most {distance}"),
        Some(FoundByReply::Likely) => {
            format!("the distance is above {distance} and the texts share a label")
        }
    };
    match reply.confirmed {
        Some(true) => format!("{found}, and the similarity is at least {min_similarity}"),
        Some(false) if reply.similarity.is_some_and(|found| found >= min_similarity) => {
            format!("{found}, but fewer of their numbers agree than {}", args.min_numbers)
        }
        Some(false) => format!("{found}, but the similarity is below {min_similarity}"),
        None if reply.duplicate => found,
        None => format!("{found}, but of a short text only distance 0 counts"),
    }
}

fn shortness(side: &ComparedReply) -> &'static str {
    if side.short { "  (a short text: only distance 0 means much)" } else { "" }
}
