//! `check`: stores a document unless a near-duplicate of it is stored, as one step.

use std::io::Write;

use anyhow::Result;
use nearprint_service::Operation;
use nearprint_wire::answer::{Answer, Outcome};
use nearprint_wire::offer::DuplicateAction;

use super::hits;
use super::options::{DocumentArgs, ReplyArgs, SearchArgs, StoringArgs, add};

const AFTER_HELP: &str = "\
Exit codes:
  0  a near-duplicate was found, and the document was not stored (but see --on-duplicate); or the
     document itself was stored before, under the same id
  1  neither, and the document is stored
  2  the check failed, or the arguments are invalid

Examples:
  nearprint check --id https://a.example/1 page-1.txt
  sed 's/harbour/port/' page-1.txt | nearprint check --id https://b.example/2
  nearprint check --quiet page-2.txt";

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    document: DocumentArgs,
    #[command(flatten)]
    storing: StoringArgs,
    #[command(flatten)]
    search: SearchArgs,
    /// What to do with a duplicate
    #[arg(long, value_enum, value_name = "ACTION", default_value_t = DuplicateAction::Skip)]
    on_duplicate: DuplicateAction,
    #[command(flatten)]
    reply: ReplyArgs,
    /// Print nothing but errors; the exit code tells
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
}

/// Returns whether a near-duplicate, or the document itself, was stored before.
pub(crate) fn run(args: &CheckArgs, out: &mut dyn Write) -> Result<bool> {
    let mut request = args.document.request()?;
    args.storing.add_to(&mut request);
    args.search.add_to(&mut request);
    let on_duplicate = match args.on_duplicate {
        DuplicateAction::Skip => None,
        DuplicateAction::Insert => Some("insert"),
    };
    add(&mut request, "on_duplicate", on_duplicate);
    let replied = args.reply.send(Operation::CheckAndInsert, &request, args.quiet, out)?;
    let (is_known, reply) = (replied.is_known(), replied.answer);
    if !args.reply.json && !args.quiet {
        writeln!(out, "{}", outcome(&reply))?;
        if let Some(previous) = reply.previous {
            hits::print_previous(&previous, out)?;
        }
        hits::print(&reply, out)?;
        if reply.numbers_differ {
            let how = "with --min-numbers 0.5, it is stored";
            writeln!(
                out,
                "it was not stored although its numbers differ from those of the hit; {how}"
            )?;
        }
    }
    Ok(reply.duplicate || is_known)
}

/// What became of the document.
pub(super) fn outcome(reply: &Answer) -> String {
    let outcome = reply.outcome.map_or("", Outcome::name).replace('_', " ");
    let stored = if reply.stored { "stored" } else { "not stored" };
    format!("{outcome}; the document is {stored}")
}
