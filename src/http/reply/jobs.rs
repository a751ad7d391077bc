//! The JSON of jobs.

use nearprint_engine::document::Namespace;
use nearprint_engine::{Job, JobState, NamespaceFilter};
use serde::Serialize;
use utoipa::ToSchema;

/// A job: the removal of many documents.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobReply {
    /// Its number.
    #[schema(example = 17)]
    job: u64,
    #[schema(example = "purge")]
    kind: &'static str,
    state: State,
    /// The namespace whose documents it removes; null for the default namespace, missing with
    /// `all_namespaces`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    #[expect(clippy::option_option, reason = "null and missing are two answers")]
    namespace: Option<Option<String>>,
    /// It removes documents of all namespaces; otherwise missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    all_namespaces: Option<bool>,
    /// Only documents whose ids begin so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    prefix: Option<String>,
    /// Only documents that were stored before this time, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    stored_before: Option<u64>,
    /// It counts documents and removes none.
    dry_run: bool,
    /// How many documents it has found.
    matched: u64,
    /// How many documents it has removed.
    removed: u64,
    /// 0 to 1; 1 once it is done.
    progress: f64,
    /// When it began, in milliseconds since 1970.
    begun_at_ms: u64,
    /// When it ended, in milliseconds since 1970; null until then.
    ended_at_ms: Option<u64>,
}

/// Whether a job runs, and how it ended.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum State {
    /// It runs, or waits for the one before it.
    Running,
    /// It has seen every document.
    Done,
    /// It was cancelled. What it has removed stays removed.
    Cancelled,
    /// A stored record could not be read.
    Failed,
}

impl From<JobState> for State {
    fn from(state: JobState) -> Self {
        match state {
            JobState::Running => Self::Running,
            JobState::Done => Self::Done,
            JobState::Cancelled => Self::Cancelled,
            JobState::Failed => Self::Failed,
        }
    }
}

impl From<Job> for JobReply {
    fn from(job: Job) -> Self {
        let progress = progress(&job);
        let (namespace, all_namespaces) = match &job.purge.reach {
            NamespaceFilter::Namespace(name) => {
                (Some(name.as_ref().map(Namespace::to_string)), None)
            }
            NamespaceFilter::All => (None, Some(true)),
        };
        Self {
            job: job.number.get(),
            kind: "purge",
            state: job.state.into(),
            namespace,
            all_namespaces,
            prefix: job.purge.prefix.map(String::from),
            stored_before: job.purge.stored_before_ms.map(|ms| ms / 1_000),
            dry_run: job.purge.dry_run,
            matched: job.matched,
            removed: job.removed,
            progress,
            begun_at_ms: job.begun_ms,
            ended_at_ms: job.ended_ms,
        }
    }
}

/// The share of the changes before the job that it has seen, rounded down to 4 decimals.
#[expect(clippy::cast_precision_loss, reason = "the quotient is rounded to 4 decimals")]
fn progress(job: &Job) -> f64 {
    if job.state == JobState::Done {
        return 1.0;
    }
    let seen = job.through.get() as f64 / job.number.get().max(1) as f64;
    ((seen * 10_000.0).floor() / 10_000.0).min(0.9999)
}

/// The jobs, oldest first: all that run, and the last ones that have ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobsReply {
    pub(crate) jobs: Vec<JobReply>,
}
