//! `nearprint-bench`: measures the service and its parts on this machine, and the speed of the
//! memory that limits them.
//!
//! ```text
//!   lookup    look-ups of an index in this process: time, memory, and whether they are right
//!   insert    packed inserts on a disk: the rate while the index grows, memory, a restart
//!   beyond    look-ups of an index that does not fit into memory
//!   mixed     single look-ups at rest, during inserts, during a long packed query
//!   compaction  the compaction policy in a simulation and on a real index
//!   similar   the search for similar texts, compared with the exact look-up
//!   verified  single queries with sketches, whose hits are read from the journal and compared
//!   lifecycle  namespaces, listing, purges, expiry: memory and rates
//!   read      the readers of imported files
//!   text      from a text to its fingerprint and sketch
//!   http      requests over loopback connections, compared with the same work in this process and
//!             with a bare axum server
//!   draw      fingerprints for other programs
//!   sums      the sums of texts, to which the model of text-like fingerprints is fitted
//! ```
//!
//! Each but the last two prints one table (or with `--json` one object) on standard output, and its
//! progress on standard error. Data and queries are drawn from `--seed`, so that a run can be
//! repeated. Replies are verified, and a wrong one ends the command with 1. `NEARPRINT_TEST_SIMD`
//! set to `avx512`, `avx2`, `neon` or `portable` measures that instruction set instead of the best
//! one. To measure on some cores only, start it (or the service) under `taskset`. [`data`] and
//! [`prose`] are public for the Criterion benches. `nearprint plan` shares
//! [`nearprint::cli::measure`].
//!
//! Tested at tiny sizes on the real binary by `tests/command.rs`, without a look at a time.

#![expect(clippy::print_stderr, reason = "a command prints messages for people")]

mod arguments;
mod beyond;
mod clock;
mod compaction;
mod connection;
mod crowd;
pub mod data;
mod draw;
mod http;
mod insert;
mod latency;
mod lifecycle;
pub mod like_text;
mod limits;
mod lookup;
mod machine;
mod mixed;
mod pages;
mod process;
mod progress;
pub mod prose;
pub mod random;
mod read;
mod report;
mod scratch;
mod similar;
mod text;
mod verified;
mod verify;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use nearprint::cli::error_report;
use nearprint::cli::standard_output::StandardOutput;

use crate::report::Report;
use crate::verify::Verdict;

/// Measures nearprint on this machine: look-ups, inserts, texts and requests.
#[derive(Debug, Parser)]
#[command(name = "nearprint-bench", version, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Look-ups of an index in this process
    Lookup(lookup::Args),
    /// Packed inserts into a data directory, memory, a restart
    Insert(insert::Args),
    /// Look-ups of an index that does not fit into memory
    Beyond(beyond::Args),
    /// Single look-ups under other load
    Mixed(mixed::Args),
    /// The compaction policy, in a simulation and on a real index
    Compaction(compaction::Args),
    /// The search for similar texts, compared with the exact look-up
    Similar(similar::Args),
    /// Single queries whose hits are verified by their sketches
    Verified(verified::Args),
    /// Namespaces, listing, purges, expiry: memory and rates
    Lifecycle(lifecycle::Args),
    /// The readers of imported files
    Read(read::Args),
    /// From a text to its fingerprint and sketch
    Text(text::Args),
    /// Requests over loopback connections
    Http(http::Args),
    /// Write fingerprints for other programs
    Draw(draw::Args),
    /// Write the sums of texts, to which a model is fitted
    Sums(draw::SumsArgs),
    /// Serve a bare axum server, for `http --bare`
    Bare(http::BareArgs),
}

/// Runs the command line of the process.
pub fn main() -> ExitCode {
    let mut out = StandardOutput::lock();
    let done = run(&Args::parse(), &mut out).and_then(|()| Ok(out.flush()?));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", error_report::render(&error));
            ExitCode::from(error_report::exit_code_of(&error))
        }
    }
}

fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let (report, json) = match &args.what {
        What::Lookup(args) => (lookup::run(args)?, args.data.json),
        What::Insert(args) => (insert::run(args)?, args.data.json),
        What::Beyond(args) => (beyond::run(args)?, args.data.json),
        What::Mixed(args) => (mixed::run(args)?, args.data.json),
        What::Similar(args) => (similar::run(args), args.json),
        What::Verified(args) => (verified::run(args)?, args.json),
        What::Lifecycle(args) => (lifecycle::run(args)?, args.data.json),
        What::Read(args) => (read::run(args)?, args.json),
        What::Text(args) => (text::run(args), args.json),
        What::Http(args) => (http::run(args)?, args.data.json),
        What::Compaction(args) => return compaction::run(args, out),
        What::Draw(args) => return draw::run(args, out),
        What::Sums(args) => return draw::sums(args, out),
        What::Bare(args) => return http::serve_bare(args),
    };
    finish(&report, json, out)
}

/// Prints a report, and fails if what it measured was wrong.
fn finish(report: &Report, json: bool, out: &mut dyn Write) -> Result<()> {
    if json {
        writeln!(out, "{}", report.json())?;
    } else {
        write!(out, "{report}")?;
    }
    report.verification.as_ref().map_or(Ok(()), Verdict::as_result)
}

#[cfg(test)]
mod tests {
    use crate::*;

    #[test]
    fn a_wrong_answer_is_printed_and_ends_the_command_with_an_error() {
        for (missed, wrong) in [(1, 0), (0, 1)] {
            let mut report = Report::new("lookup", 1);
            report.verified(Verdict { checked: 100, hits: 50, missed: 0, wrong: 0 });
            assert!(finish(&report, true, &mut Vec::new()).is_ok());
            report.verified(Verdict { checked: 10, hits: 5, missed, wrong });
            let (mut table, mut json) = (Vec::new(), Vec::new());
            assert!(finish(&report, false, &mut table).is_err());
            assert!(finish(&report, true, &mut json).is_err());
            let told = format!("110 answers, 55 hits: {missed} missed, {wrong} false");
            assert!(String::from_utf8(table).unwrap().contains(&told));
            let told = format!(r#""missed":{missed},"false":{wrong}"#);
            assert!(String::from_utf8(json).unwrap().contains(&told));
        }
    }
}
