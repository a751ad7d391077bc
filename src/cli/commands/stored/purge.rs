//! `purge`: makes a running service forget documents.
//!
//! The service removes them in a job. The command shows the progress until the job has ended, and
//! leaves it running when it is interrupted.

use std::io::Write;

use anyhow::Result;
use nearprint_wire::answer::{JobReply, State};
use serde_json::{Value, json};

use super::jobs;
use super::selection::SelectionArgs;
use crate::cli::collection::{RemoteService, ServiceArgs, without_nulls};
use crate::cli::error_report::ErrorReport;
use crate::cli::exit_code;
use crate::cli::import::interrupt::Interrupt;
use crate::cli::measure::numbers::count;
use crate::cli::measure::times;
use crate::cli::messages;
use crate::cli::printable::printable;

const EXAMPLES: &str = "\
Examples:
  nearprint purge --namespace crawl-7 --dry-run
  nearprint purge --all-namespaces --prefix https://a.example/
  nearprint purge --all-namespaces --stored-before 2026-01-01 --yes";

#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    // A purge of the whole default namespace is never what somebody forgot to say.
    group = clap::ArgGroup::new("which")
        .args(["namespace", "all_namespaces", "prefix", "stored_before"])
        .multiple(true)
        .required(true),
)]
pub(crate) struct PurgeArgs {
    #[command(flatten)]
    selection: SelectionArgs,
    /// Only documents stored before this time: 2026-03-01 (in UTC), 2026-03-01T12:00:00Z, or
    /// seconds since 1970
    #[arg(long, value_name = "TIME", value_parser = times::parse)]
    stored_before: Option<u64>,
    /// Count the documents and remove none
    #[arg(long)]
    dry_run: bool,
    /// Begin the job and do not wait for its end
    #[arg(long)]
    detach: bool,
    /// Remove them without confirmation
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

pub(crate) fn run(args: &PurgeArgs, out: &mut dyn Write) -> Result<()> {
    let service = args.service.open()?;
    confirm(args, &service)?;
    let job: JobReply = service.post_json("/v1/purge", &request(args))?;
    let name = printable(&job.job).into_owned();
    if args.detach {
        writeln!(out, "job {name}")?;
        say!("see it with `nearprint jobs`; end it with `nearprint jobs cancel {name}`");
        return Ok(());
    }
    let interrupt = Interrupt::listen_while_waiting("leaving the job running")?;
    let job = jobs::watch(job, &|name| service.job(name), &interrupt).map_err(|error| {
        let next = format!(
            "`nearprint jobs` shows it; it continues when the service starts again, and \
             `nearprint jobs cancel {name}` ends it"
        );
        ErrorReport::new(format!("lost sight of job {name}"), next).because(error)
    })?;
    if !job.state.is_end() {
        let next = format!("`nearprint jobs` shows it; end it with `nearprint jobs cancel {name}`");
        let report = ErrorReport::new(format!("interrupted; job {name} goes on"), next);
        return Err(report.with_code(exit_code::INTERRUPTED).into());
    }
    report(&job, out)
}

/// Asks before documents are removed.
fn confirm(args: &PurgeArgs, service: &RemoteService) -> Result<()> {
    if args.yes || args.dry_run {
        return Ok(());
    }
    let nothing = "nothing was removed";
    let next = "--dry-run counts the documents; --yes removes them without asking";
    if !messages::can_ask() {
        let why = anyhow::anyhow!("a purge asks first, and the standard input is no terminal");
        return Err(ErrorReport::new(nothing, next).because(why).into());
    }
    let question =
        format!("remove the documents of {} at {} for good?", what(args), service.address());
    if messages::agreed(&question)? { Ok(()) } else { Err(ErrorReport::new(nothing, next).into()) }
}

fn what(args: &PurgeArgs) -> String {
    let before = args
        .stored_before
        .map(|_| format!(", stored before {},", times::shown(args.stored_before)));
    format!("{}{}", args.selection, before.unwrap_or_default())
}

fn request(args: &PurgeArgs) -> Value {
    let SelectionArgs { namespace, all_namespaces, prefix } = &args.selection;
    without_nulls(json!({
        "namespace": namespace,
        "all_namespaces": all_namespaces.then_some(true),
        "prefix": prefix,
        "stored_before": args.stored_before,
        "dry_run": args.dry_run.then_some(true),
    }))
}

/// The end of a job.
fn report(job: &JobReply, out: &mut dyn Write) -> Result<()> {
    let (matched, removed) = (job.matched.unwrap_or_default(), job.removed.unwrap_or_default());
    let others = matched.saturating_sub(removed);
    let [matched, removed] = [matched, removed].map(documents);
    match job.state {
        State::Done if job.dry_run == Some(true) => {
            writeln!(out, "{matched} would be removed; none was, as this is a dry run")?;
        }
        State::Done => {
            writeln!(out, "removed {removed}")?;
            if others > 0 {
                let gone = documents(others);
                writeln!(
                    out,
                    "{gone} more matched, and others removed or replaced them meanwhile"
                )?;
            }
        }
        State::Cancelled => {
            let what = format!("job {} was cancelled; it removed {removed}", job.job);
            return Err(ErrorReport::new(what, "purge again to remove the rest").into());
        }
        State::Waiting | State::Running | State::Failed => {
            let what = format!("job {} failed; it removed {removed}", job.job);
            let next = "the log of the service says why; purge again to remove the rest";
            return Err(ErrorReport::new(what, next).into());
        }
    }
    Ok(())
}

fn documents(number: u64) -> String {
    let noun = if number == 1 { "document" } else { "documents" };
    format!("{} {noun}", count(number))
}
