//! `jobs`: the jobs of a running service, how to end one, and how commands watch the one that they
//! began.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use nearprint_wire::answer::{JobReply, JobsReply, State};
use serde_json::{Map, Value};

use super::selection::SelectionArgs;
use crate::cli::collection::{self, RemoteService, ServiceArgs, foreign};
use crate::cli::columns::{Column, json_lines, table};
use crate::cli::import::interrupt::Interrupt;
use crate::cli::measure::numbers::count;
use crate::cli::measure::times;
use crate::cli::printable::printable;

/// The time between two looks at a job: short at first, as many jobs end at once.
const LOOKS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(1)];

/// The steps of the progress bar.
const STEPS: u64 = 1_000;

const EXAMPLES: &str = "\
Examples:
  nearprint jobs
  nearprint jobs --json";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct JobsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Cancel a job; a search for groups that has ended already is removed, with its result
    Cancel {
        /// Its name
        job: String,
        #[command(flatten)]
        service: ServiceArgs,
    },
}

/// How far a job has come, or how it ended.
fn state(job: &JobReply) -> String {
    match (job.state, job.progress) {
        (State::Running, Some(progress)) => format!("running, {:.0} %", (progress * 100.0).floor()),
        (state, _) => state.name().to_owned(),
    }
}

/// What a job does, and which documents it concerns.
fn what(job: &JobReply) -> String {
    let selection = SelectionArgs {
        namespace: job.namespace.clone().flatten(),
        all_namespaces: job.all_namespaces == Some(true),
        prefix: job.prefix.clone(),
    };
    let before = match job.stored_before {
        Some(_) => format!(", stored before {}", times::shown(job.stored_before)),
        None => String::new(),
    };
    let dry_run = if job.dry_run == Some(true) { " (dry run)" } else { "" };
    format!("{} of {selection}{before}{dry_run}", printable(&job.kind))
}

/// Draws how far a job has come.
#[expect(clippy::cast_sign_loss, reason = "the progress is not negative")]
fn show(job: &JobReply, bar: &ProgressBar) {
    bar.set_position((job.progress.unwrap_or_default() * 1_000.0) as u64);
    bar.set_message(match (job.matched, job.removed) {
        (Some(matched), Some(removed)) => {
            format!("{} matched, {} removed", count(matched), count(removed))
        }
        _ => job.state.name().to_owned(),
    });
}

/// Shows the progress of a job, on a terminal, until it has ended or the user interrupts.
pub(super) fn watch(
    mut job: JobReply,
    look: &dyn Fn(&str) -> Result<JobReply>,
    interrupt: &Interrupt,
) -> Result<JobReply> {
    let template = "{bar:30} {percent:>3}%  {msg}";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    let bar = ProgressBar::new(STEPS).with_style(style.progress_chars("=> "));
    let [mut pause, pause_max] = LOOKS;
    while !job.state.is_end() {
        show(&job, &bar);
        collection::wait(pause);
        pause = (pause * 2).min(pause_max);
        if interrupt.is_noted() {
            break;
        }
        job = look(&job.job)?;
    }
    bar.finish_and_clear();
    Ok(job)
}

pub(crate) fn run(args: &JobsArgs, out: &mut dyn Write) -> Result<()> {
    match &args.action {
        None if args.json => {
            let mut jobs: Value = args.service.open()?.get_json("/v1/jobs")?;
            let jobs: Vec<Map<String, Value>> =
                serde_json::from_value(jobs["jobs"].take()).map_err(foreign)?;
            Ok(json_lines(jobs, out)?)
        }
        None => list(&args.service.open()?, out),
        Some(Action::Cancel { job, service }) => cancel(&service.open()?, job, out),
    }
}

const COLUMNS: &[Column<JobReply>] = &[
    ("job", |job| job.job.clone()),
    ("state", state),
    ("matched", |job| job.matched.map_or_else(String::new, count)),
    ("removed", |job| job.removed.map_or_else(String::new, count)),
    ("groups", |job| job.groups.map_or_else(String::new, count)),
    ("in groups", |job| job.documents.map_or_else(String::new, count)),
    ("begun", |job| times::shown_ms(Some(job.begun_at_ms))),
    ("ended", |job| times::shown_ms(job.ended_at_ms)),
    ("what", what),
];

fn list(service: &RemoteService, out: &mut dyn Write) -> Result<()> {
    let JobsReply { jobs, .. } = service.get_json("/v1/jobs")?;
    if jobs.is_empty() {
        writeln!(out, "no job runs, and none is remembered")?;
        return Ok(());
    }
    write!(out, "{}", table(COLUMNS, &jobs))?;
    Ok(())
}

fn cancel(service: &RemoteService, name: &str, out: &mut dyn Write) -> Result<()> {
    let job: JobReply = service.delete_json(&collection::item("/v1/jobs", name))?;
    let removed = job.removed.map(|removed| format!("; it removed {}", count(removed)));
    let removed = removed.unwrap_or_default();
    match job.state {
        State::Cancelled => writeln!(out, "job {name} is cancelled{removed}")?,
        _ if job.state.is_end() && job.kind == "groups" => {
            writeln!(out, "job {name} had ended already; its result was removed")?;
        }
        _ if job.state.is_end() => writeln!(out, "job {name} had ended already{removed}")?,
        State::Waiting | State::Running | State::Done | State::Failed => {
            writeln!(out, "job {name} ends soon")?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_says_what_it_removes_and_how_far_it_has_come() {
        let job = |more: Value| -> JobReply {
            let mut job = json!({
                "job": "7f", "kind": "purge", "state": "running", "dry_run": false, "matched": 12_345,
                "removed": 12_000, "progress": 0.456, "begun_at_ms": 0, "ended_at_ms": null,
            });
            let fields = job.as_object_mut().unwrap();
            fields.extend(more.as_object().unwrap().clone());
            serde_json::from_value(job).unwrap()
        };
        let shown = table(COLUMNS, &[job(json!({"namespace": "a\nb", "prefix": "https://"}))]);
        let (headings, row) = shown.trim_end().split_once('\n').unwrap();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(headings), "job state matched removed begun what");
        assert_eq!(
            words(row),
            "7f running, 45 % 12,345 12,000 1970-01-01T00:00:00Z purge of namespace a\\nb, ids that \
             begin with https://"
        );
        let all = json!({"all_namespaces": true, "stored_before": 60, "dry_run": true});
        assert_eq!(
            what(&job(all)),
            "purge of all namespaces, stored before 1970-01-01T00:01:00Z (dry run)"
        );
        assert_eq!(what(&job(json!({"state": "done"}))), "purge of the default namespace");
    }

    #[test]
    fn a_search_for_groups_is_shown_with_what_it_found() {
        let job = json!({
            "job": "8e", "kind": "groups", "state": "done", "namespace": "a", "distance": 3,
            "verified": true, "min_size": 2, "sequence": 9, "groups": 1_000, "documents": 2_500,
            "progress": 1.0, "begun_at_ms": 0, "ended_at_ms": 1_000,
        });
        let shown = table(COLUMNS, &[serde_json::from_value(job).unwrap()]);
        let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            words,
            "job state groups in groups begun ended what 8e done 1,000 2,500 1970-01-01T00:00:00Z \
             1970-01-01T00:00:01Z groups of namespace a"
        );
    }
}
