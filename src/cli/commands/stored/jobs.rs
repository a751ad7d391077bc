//! `jobs`: the purges of a running service, and how to end one.

use std::io::Write;

use anyhow::Result;
use serde::Deserialize;

use super::selection::SelectionArgs;
use crate::cli::collection::{Collection, ServiceArgs};
use crate::cli::columns::{Column, table};
use crate::cli::measure::numbers::count;
use crate::cli::times;

/// The arguments of `jobs`.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    service: ServiceArgs,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// End a job; what it has removed stays removed
    Cancel {
        /// Its number
        job: u64,
        #[command(flatten)]
        service: ServiceArgs,
    },
}

/// A job of the service.
#[derive(Debug, Deserialize)]
pub(super) struct JobReply {
    #[serde(rename = "job")]
    pub(super) number: u64,
    pub(super) kind: String,
    pub(super) state: JobStateReply,
    #[serde(flatten)]
    pub(super) selection: SelectionArgs,
    #[serde(default)]
    pub(super) stored_before: Option<u64>,
    #[serde(default)]
    pub(super) dry_run: bool,
    pub(super) matched: u64,
    pub(super) removed: u64,
    /// The part of all documents that it has seen, 0 to 1.
    pub(super) progress: f64,
    pub(super) begun_at_ms: u64,
    pub(super) ended_at_ms: Option<u64>,
}

/// Whether a job runs, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum JobStateReply {
    /// It runs, or waits for the one before it.
    Running,
    /// It has seen every document.
    Done,
    /// Somebody ended it.
    Cancelled,
    /// The service could not read a document.
    Failed,
}

impl JobReply {
    /// The job with a number.
    pub(super) fn get(service: &Collection, number: u64) -> Result<Self> {
        service.get_json(&format!("/v1/jobs/{number}"))
    }

    /// How far it has come, or how it ended.
    fn state(&self) -> String {
        match self.state {
            JobStateReply::Running => format!("running, {:.0} %", (self.progress * 100.0).floor()),
            JobStateReply::Done => "done".to_owned(),
            JobStateReply::Cancelled => "cancelled".to_owned(),
            JobStateReply::Failed => "failed".to_owned(),
        }
    }

    /// Which documents it concerns.
    pub(super) fn what(&self) -> String {
        let before = match self.stored_before {
            Some(_) => format!(", stored before {}", times::shown(self.stored_before)),
            None => String::new(),
        };
        let dry_run = if self.dry_run { " (dry run)" } else { "" };
        format!("{} of {}{before}{dry_run}", self.kind, self.selection)
    }
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<()> {
    match &args.action {
        None => list(&args.service.open()?, out),
        Some(Action::Cancel { job, service }) => cancel(&service.open()?, *job, out),
    }
}

const COLUMNS: &[Column<JobReply>] = &[
    ("job", |job| job.number.to_string()),
    ("state", JobReply::state),
    ("matched", |job| count(job.matched)),
    ("removed", |job| count(job.removed)),
    ("begun", |job| times::shown_ms(Some(job.begun_at_ms))),
    ("ended", |job| times::shown_ms(job.ended_at_ms)),
    ("what", JobReply::what),
];

#[derive(Debug, Deserialize)]
struct Jobs {
    jobs: Vec<JobReply>,
}

fn list(service: &Collection, out: &mut dyn Write) -> Result<()> {
    let Jobs { jobs } = service.get_json("/v1/jobs")?;
    if jobs.is_empty() {
        writeln!(out, "no job runs, and none is remembered")?;
        return Ok(());
    }
    write!(out, "{}", table(COLUMNS, &jobs))?;
    Ok(())
}

fn cancel(service: &Collection, number: u64, out: &mut dyn Write) -> Result<()> {
    let job: JobReply = service.delete_json(&format!("/v1/jobs/{number}"))?;
    let removed = count(job.removed);
    match job.state {
        JobStateReply::Running => writeln!(out, "job {number} ends soon")?,
        JobStateReply::Cancelled => {
            writeln!(out, "job {number} is cancelled; it removed {removed}")?;
        }
        JobStateReply::Done | JobStateReply::Failed => {
            writeln!(out, "job {number} had ended already; it removed {removed}")?;
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
        let job = |more: serde_json::Value| -> JobReply {
            let mut job = json!({
                "job": 7, "kind": "purge", "state": "running", "dry_run": false, "matched": 12_345,
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
            "7 running, 45 % 12,345 12,000 1970-01-01T00:00:00Z purge of namespace a\\nb, ids that \
             begin with https://"
        );
        let all = json!({"all_namespaces": true, "stored_before": 60, "dry_run": true});
        assert_eq!(
            job(all).what(),
            "purge of all namespaces, stored before 1970-01-01T00:01:00Z (dry run)"
        );
        assert_eq!(job(json!({"state": "done"})).what(), "purge of the default namespace");
    }
}
