//! `jobs`: the jobs of a running service, how to end one, and how commands watch the one that they
//! began.

use std::io::Write;
use std::time::Duration;

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::selection::SelectionArgs;
use crate::cli::collection::{self, Collection, ServiceArgs, foreign};
use crate::cli::columns::{Column, json_lines, table};
use crate::cli::import::interrupt::Interrupt;
use crate::cli::measure::numbers::count;
use crate::cli::measure::times;

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
    /// Cancel a job, or remove a search for groups that has ended with its result
    Cancel {
        /// Its name
        job: String,
        #[command(flatten)]
        service: ServiceArgs,
    },
}

/// A job of the service. Numbers that are missing are not those of its kind.
#[derive(Debug, Deserialize)]
pub(super) struct JobReply {
    #[serde(rename = "job")]
    pub(super) name: String,
    kind: String,
    /// `waiting`, `running`, `done`, `cancelled` or `failed`.
    pub(super) state: String,
    pub(super) error: Option<String>,
    #[serde(flatten)]
    selection: SelectionArgs,
    stored_before: Option<u64>,
    #[serde(default)]
    pub(super) dry_run: bool,
    pub(super) matched: Option<u64>,
    pub(super) removed: Option<u64>,
    pub(super) groups: Option<u64>,
    /// The number of documents in the groups.
    pub(super) documents: Option<u64>,
    /// The number of fingerprints whose sketches were not all compared.
    pub(super) partly_compared: Option<u64>,
    /// 0 to 1; a token that is limited to namespaces does not see it.
    progress: Option<f64>,
    begun_at_ms: u64,
    ended_at_ms: Option<u64>,
}

impl JobReply {
    /// Its path below a route.
    pub(super) fn path(&self, route: &str) -> String {
        collection::item(route, &self.name)
    }

    pub(super) fn has_ended(&self) -> bool {
        !matches!(self.state.as_str(), "waiting" | "running")
    }

    /// How far it has come, or how it ended.
    fn state(&self) -> String {
        match (self.state.as_str(), self.progress) {
            ("running", Some(progress)) => format!("running, {:.0} %", (progress * 100.0).floor()),
            (state, _) => state.to_owned(),
        }
    }

    /// What it does, and which documents it concerns.
    fn what(&self) -> String {
        let before = match self.stored_before {
            Some(_) => format!(", stored before {}", times::shown(self.stored_before)),
            None => String::new(),
        };
        let dry_run = if self.dry_run { " (dry run)" } else { "" };
        format!("{} of {}{before}{dry_run}", self.kind, self.selection)
    }

    /// Draws how far it has come.
    #[expect(clippy::cast_sign_loss, reason = "the progress is not negative")]
    fn show(&self, bar: &ProgressBar) {
        bar.set_position((self.progress.unwrap_or_default() * 1_000.0) as u64);
        bar.set_message(match (self.matched, self.removed) {
            (Some(matched), Some(removed)) => {
                format!("{} matched, {} removed", count(matched), count(removed))
            }
            _ => self.state.clone(),
        });
    }
}

/// The body of a request from those fields that have a value.
pub(super) fn request(mut fields: Value) -> Value {
    fields.as_object_mut().expect("it is an object").retain(|_, value| !value.is_null());
    fields
}

/// Shows the progress of a job, on a terminal, until it has ended or the user interrupts.
pub(super) fn watch(
    collection: &Collection,
    mut job: JobReply,
    interrupt: &Interrupt,
) -> Result<JobReply> {
    let template = "{bar:30} {percent:>3}%  {msg}";
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    let bar = ProgressBar::new(STEPS).with_style(style.progress_chars("=> "));
    let [mut pause, pause_max] = LOOKS;
    while !job.has_ended() {
        job.show(&bar);
        collection::wait(pause);
        pause = (pause * 2).min(pause_max);
        if interrupt.is_noted() {
            break;
        }
        job = collection.get_json(&job.path("/v1/jobs"))?;
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
    ("job", |job| job.name.clone()),
    ("state", JobReply::state),
    ("matched", |job| job.matched.map_or_else(String::new, count)),
    ("removed", |job| job.removed.map_or_else(String::new, count)),
    ("groups", |job| job.groups.map_or_else(String::new, count)),
    ("in groups", |job| job.documents.map_or_else(String::new, count)),
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

fn cancel(service: &Collection, name: &str, out: &mut dyn Write) -> Result<()> {
    let job: JobReply = service.delete_json(&collection::item("/v1/jobs", name))?;
    let removed = job.removed.map_or_else(String::new, |n| format!("; it removed {}", count(n)));
    match job.state.as_str() {
        "cancelled" => writeln!(out, "job {name} is cancelled{removed}")?,
        _ if job.has_ended() && job.kind == "groups" => {
            writeln!(out, "job {name} had ended already; its result was removed")?;
        }
        _ if job.has_ended() => writeln!(out, "job {name} had ended already{removed}")?,
        _ => writeln!(out, "job {name} ends soon")?,
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
            job(all).what(),
            "purge of all namespaces, stored before 1970-01-01T00:01:00Z (dry run)"
        );
        assert_eq!(job(json!({"state": "done"})).what(), "purge of the default namespace");
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
