//! `list`: the stored documents, one JSON object a line.
//!
//! The lines of the service are copied as they arrive, whatever their number.

use std::io::{self, BufRead, BufWriter, Write};

use anyhow::{Result, anyhow};
use nearprint_wire::answer::ProblemReply;

use super::selection::SelectionArgs;
use crate::cli::collection::{ServiceArgs, foreign};
use crate::cli::error_report::ErrorReport;
use crate::cli::standard_output::{Closed, StandardOutput};

/// Lines are written once they fill this.
const BUFFER_BYTES: usize = 64 << 10;
/// How the line begins with which the service ends a list that it cannot complete.
const ERROR: &[u8] = b"{\"error\":";

const EXAMPLES: &str = "\
Examples:
  nearprint list --limit 10
  nearprint list --all-namespaces --prefix https://a.example/ | jq -r .id
  nearprint list --namespace crawl-7 --metadata > crawl.jsonl";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    selection: SelectionArgs,
    /// List at most this many documents
    #[arg(long, value_name = "COUNT")]
    limit: Option<u64>,
    /// With their metadata
    #[arg(long)]
    metadata: bool,
    /// With the sketches that verify hits
    #[arg(long)]
    sketch: bool,
    // Every command that lists has the option; this one prints nothing else.
    #[arg(long, hide = true)]
    json: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

pub(crate) fn run(args: &ListArgs, out: &mut StandardOutput) -> Result<()> {
    let service = args.service.open()?;
    let mut lines = service.documents(args.selection.which(), [args.metadata, args.sketch])?;
    let closed = out.closed();
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    let listed = copy_lines(&mut lines, args.limit.unwrap_or(u64::MAX), &mut out, &closed);
    out.flush()?;
    listed
}

/// Copies at most `limit` lines, as long as somebody reads them.
fn copy_lines(
    lines: &mut dyn BufRead,
    limit: u64,
    out: &mut dyn Write,
    closed: &Closed,
) -> Result<()> {
    each_line(lines, limit, "list", &mut |line| {
        out.write_all(line)?;
        Ok(!closed.is_closed())
    })
}

/// Passes at most `limit` lines on, with their ends, and skips blank ones, which a service sends
/// while it finds nothing. What comes of them is a list or an export. `take` returns whether it
/// wants more.
///
/// # Errors
/// Those of `take`, and if the service cuts the lines off.
pub(super) fn each_line(
    lines: &mut dyn BufRead,
    limit: u64,
    what: &str,
    take: &mut dyn FnMut(&[u8]) -> io::Result<bool>,
) -> Result<()> {
    let (mut line, mut left) = (Vec::new(), limit);
    while left > 0 {
        line.clear();
        let why = match lines.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) if line == b"\n" => continue,
            // Everything that a service lists is an object.
            Ok(_) if !line.starts_with(b"{") => {
                return Err(foreign(anyhow!("a line is not a JSON object")).into());
            }
            Ok(_) if line.ends_with(b"\n") && !line.starts_with(ERROR) => {
                left = if take(&line)? { left - 1 } else { 0 };
                continue;
            }
            Ok(_) => reason(&line),
            Err(error) => error.into(),
        };
        let next =
            format!("look at the log of the service, and {what} again; --prefix {what}s a part");
        let what = format!("the {what} is not complete");
        return Err(ErrorReport::new(what, next).because(why).into());
    }
    Ok(())
}

/// Why a list ends with this line.
fn reason(line: &[u8]) -> anyhow::Error {
    let refused = ProblemReply::of_line(line);
    refused.map_or_else(|| anyhow!("it ends within a line"), |error| anyhow!("{error}"))
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn copied(lines: &str, limit: u64) -> (String, Result<()>) {
        let mut out = Vec::new();
        let mut lines = BufReader::with_capacity(4, lines.as_bytes());
        let copied = copy_lines(&mut lines, limit, &mut out, &Closed::default());
        (String::from_utf8(out).unwrap(), copied)
    }

    #[test]
    fn lines_are_copied_up_to_the_limit() {
        for (limit, expected) in [(0, ""), (2, "{one\n{two\n"), (9, "{one\n{two\n{three\n")] {
            let (lines, end) = copied("{one\n{two\n{three\n", limit);
            assert_eq!(lines, expected, "{limit}");
            assert!(end.is_ok(), "{limit}");
        }
    }

    #[test]
    fn blank_lines_are_not_listed_and_do_not_count() {
        let (lines, end) = copied("\n{one\n\n\n{two\n\n{three\n", 2);
        assert_eq!(lines, "{one\n{two\n");
        assert!(end.is_ok());
        assert!(copied("{one\n\n", 9).1.is_ok());
    }

    #[test]
    fn half_a_line_or_an_error_at_the_end_is_noticed() {
        for (lines, why) in [
            ("{one\n{tw", "it ends within a line"),
            ("{one\n{\"error\":{\"code\":\"storage_failed\",\"status\":500}}\n", "storage_failed"),
        ] {
            let (copied_lines, end) = copied(lines, 9);
            assert_eq!(copied_lines, "{one\n");
            assert_eq!(end.unwrap_err().root_cause().to_string(), why);
            assert!(copied(lines, 1).1.is_ok());
        }
    }
}
