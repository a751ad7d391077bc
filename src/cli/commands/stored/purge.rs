//! `purge`: makes a running service forget documents.
//!
//! The service removes them in a job. The command shows the progress until the job has ended, and
//! leaves it running when it is interrupted.

use std::io::{self, Write};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

use super::jobs::{JobReply, JobStateReply};
use super::selection::SelectionArgs;
use crate::cli::collection::{self, Collection, ServiceArgs};
use crate::cli::confirmation;
use crate::cli::error_report::ErrorReport;
use crate::cli::exit_code;
use crate::cli::measure::numbers::count;
use crate::cli::times;

/// The time between two looks at the job: short at first, as many jobs end at once.
const LOOKS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// The steps of the progress bar.
const STEPS: u64 = 1_000;

/// The arguments of `purge`.
#[derive(Debug, clap::Args)]
#[command(
    // A purge of the whole default namespace is never what somebody forgot to say.
    group = clap::ArgGroup::new("which")
        .args(["namespace", "all_namespaces", "prefix", "stored_before"])
        .multiple(true)
        .required(true),
)]
pub(crate) struct Args {
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

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    let service = args.service.open()?;
    confirm(args, &service)?;
    let job: JobReply = service.post_json("/v1/purge", &request(args))?;
    if args.detach {
        writeln!(out, "job {}", job.number)?;
        eprintln!(
            "see it with `nearprint jobs`; end it with `nearprint jobs cancel {}`",
            job.number
        );
        return Ok(());
    }
    let ended = watch(service, job)?;
    report(&ended, out)
}

/// Asks before documents are removed.
fn confirm(args: &Args, service: &Collection) -> Result<()> {
    if args.yes || args.dry_run {
        return Ok(());
    }
    let nothing = "nothing was removed";
    let next = "--dry-run counts the documents; --yes removes them without asking";
    if !confirmation::is_possible() {
        let why = anyhow::anyhow!("a purge asks first, and the standard input is no terminal");
        return Err(ErrorReport::new(nothing, next).because(why).into());
    }
    let question =
        format!("remove the documents of {} at {} for good?", what(args), service.name());
    if confirmation::agreed(&question)? {
        Ok(())
    } else {
        Err(ErrorReport::new(nothing, next).into())
    }
}

fn what(args: &Args) -> String {
    let before = args
        .stored_before
        .map(|_| format!(", stored before {},", times::shown(args.stored_before)));
    format!("{}{}", args.selection, before.unwrap_or_default())
}

fn request(args: &Args) -> Value {
    let mut request = Map::new();
    let mut field = |name: &str, value: Option<Value>| {
        request.extend(value.map(|value| (name.to_owned(), value)));
    };
    let SelectionArgs { namespace, all_namespaces, prefix } = &args.selection;
    field("namespace", namespace.as_ref().map(|name| json!(name)));
    field("all_namespaces", all_namespaces.then(|| json!(true)));
    field("prefix", prefix.as_ref().map(|prefix| json!(prefix)));
    field("stored_before", args.stored_before.map(|second| json!(second)));
    field("dry_run", args.dry_run.then(|| json!(true)));
    request.into()
}

/// What happens while a job runs.
enum Event {
    /// A look at the job.
    Look(Result<JobReply>),
    /// Ctrl-C.
    Interrupt,
}

/// Shows the progress of a job until it has ended.
fn watch(service: Collection, mut job: JobReply) -> Result<JobReply> {
    let number = job.number;
    let (events, received) = mpsc::channel();
    send_interrupt(events.clone()).context("cannot wait for an interrupt")?;
    let bar = bar(&job);
    if job.state == JobStateReply::Running {
        thread::spawn(move || send_looks(&service, number, &events));
    }
    while job.state == JobStateReply::Running {
        job = match received.recv().expect("the looks end with the job, or with an error") {
            Event::Look(Ok(job)) => job,
            Event::Look(Err(error)) => {
                let next = format!(
                    "`nearprint jobs` shows it; it continues when the service starts again, and \
                     `nearprint jobs cancel {number}` ends it"
                );
                let what = format!("lost sight of job {number}");
                return Err(ErrorReport::new(what, next).because(error).into());
            }
            Event::Interrupt => {
                bar.finish_and_clear();
                let next = format!(
                    "`nearprint jobs` shows it; end it with `nearprint jobs cancel {number}`"
                );
                let what = format!("interrupted; job {number} goes on");
                return Err(ErrorReport::new(what, next).with_code(exit_code::INTERRUPTED).into());
            }
        };
        show(&bar, &job);
    }
    bar.finish_and_clear();
    Ok(job)
}

/// Looks at a job until it has ended.
fn send_looks(service: &Collection, number: u64, events: &Sender<Event>) {
    let [mut pause, pause_max] = LOOKS;
    loop {
        collection::wait(pause);
        pause = (pause * 2).min(pause_max);
        let look = JobReply::get(service, number);
        let is_last = !look.as_ref().is_ok_and(|job| job.state == JobStateReply::Running);
        if events.send(Event::Look(look)).is_err() || is_last {
            return;
        }
    }
}

/// Sends the first interrupt, which from now on does not end the process.
fn send_interrupt(events: Sender<Event>) -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let mut interrupts = {
        let _entered = runtime.enter();
        signal(SignalKind::interrupt())?
    };
    thread::spawn(move || {
        runtime.block_on(interrupts.recv());
        // The command may have ended.
        drop(events.send(Event::Interrupt));
    });
    Ok(())
}

/// A progress bar, on a terminal only.
fn bar(job: &JobReply) -> ProgressBar {
    let template = "{bar:30} {percent:>3}%  {msg}";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    let bar = ProgressBar::new(STEPS).with_style(style.progress_chars("=> "));
    show(&bar, job);
    bar
}

#[expect(clippy::cast_sign_loss, reason = "the progress is not negative")]
fn show(bar: &ProgressBar, job: &JobReply) {
    bar.set_position((job.progress * 1_000.0) as u64);
    bar.set_message(format!("{} matched, {} removed", count(job.matched), count(job.removed)));
}

/// The end of a job.
fn report(job: &JobReply, out: &mut dyn Write) -> Result<()> {
    let (matched, removed) = (documents(job.matched), documents(job.removed));
    match job.state {
        JobStateReply::Done if job.dry_run => {
            writeln!(out, "{matched} would be removed; none was, as this is a dry run")?;
        }
        JobStateReply::Done => {
            writeln!(out, "removed {removed}")?;
            if job.matched > job.removed {
                let gone = documents(job.matched - job.removed);
                writeln!(
                    out,
                    "{gone} more matched, and others removed or replaced them meanwhile"
                )?;
            }
        }
        JobStateReply::Running | JobStateReply::Cancelled => {
            let what = format!("job {} was cancelled; it removed {removed}", job.number);
            return Err(ErrorReport::new(what, "purge again to remove the rest").into());
        }
        JobStateReply::Failed => {
            let what = format!("job {} failed; it removed {removed}", job.number);
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
