//! The JSON of jobs.

use nearprint_engine::document::{Namespace, Sequence};
use nearprint_engine::{Job, JobFailure, JobState, NamespaceFilter, Work, progress_of};
use serde::Serialize;
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::http::cipher::{Cipher, Kind};
use crate::http::request::reach::NamespaceAccess;

/// A job.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobReply {
    /// Its name.
    #[schema(pattern = "^[0-9a-f]{32}$", example = "8b0c5e1f7a92d3641c0de9f2a7b35846")]
    job: String,
    /// `purge` removes documents, `groups` finds groups of near-duplicates.
    #[schema(example = "purge")]
    kind: &'static str,
    state: State,
    /// Why it failed; otherwise missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
    /// The namespace whose documents it concerns; null for the default namespace, missing with
    /// `all_namespaces`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    #[expect(clippy::option_option, reason = "null and missing are two answers")]
    namespace: Option<Option<String>>,
    /// It concerns the documents of all namespaces; otherwise missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    all_namespaces: Option<bool>,
    #[serde(flatten)]
    work: WorkReply,
    /// 0 to 1; 1 once it is done. Missing before if the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    progress: Option<f64>,
    /// When it was requested, in milliseconds since 1970.
    begun_at_ms: u64,
    /// When it ended, in milliseconds since 1970; null until then.
    ended_at_ms: Option<u64>,
}

/// What a job does, and what has come of it; [`AnyWork`] describes its fields.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum WorkReply {
    Purge {
        #[serde(skip_serializing_if = "Option::is_none")]
        prefix: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        stored_before: Option<u64>,
        dry_run: bool,
        matched: u64,
        removed: u64,
    },
    Groups {
        distance: u8,
        verified: bool,
        min_size: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        #[expect(clippy::option_option, reason = "null and missing are two answers")]
        sequence: Option<Option<u64>>,
        groups: u64,
        documents: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        partly_compared: Option<u64>,
    },
}

/// What a job does, and what has come of it: the fields of its kind. In one object, since not every
/// tool joins a choice with the other fields of a job.
#[derive(ToSchema)]
#[expect(dead_code, reason = "a description")]
struct AnyWork {
    /// `purge`: only documents whose ids begin so.
    #[schema(required = false, nullable = false)]
    prefix: Option<String>,
    /// `purge`: only documents that were stored before this time, in seconds since 1970.
    #[schema(required = false, nullable = false)]
    stored_before: Option<u64>,
    /// `purge`: it counts documents and removes none.
    #[schema(required = false, nullable = false)]
    dry_run: Option<bool>,
    /// `purge`: how many documents it has found.
    #[schema(required = false, nullable = false)]
    matched: Option<u64>,
    /// `purge`: how many documents it has removed.
    #[schema(required = false, nullable = false)]
    removed: Option<u64>,
    /// `groups`: the largest distance of two near-duplicates.
    #[schema(required = false, nullable = false)]
    distance: Option<u8>,
    /// `groups`: whether pairs that sketches refute do not count.
    #[schema(required = false, nullable = false)]
    verified: Option<bool>,
    /// `groups`: the smallest number of documents of a group.
    #[schema(required = false, nullable = false)]
    min_size: Option<u32>,
    /// `groups`: the last change that it sees; null until it runs, missing if the token is limited
    /// to namespaces.
    #[schema(required = false)]
    sequence: Option<u64>,
    /// `groups`: how many groups it found.
    #[schema(required = false, nullable = false)]
    groups: Option<u64>,
    /// `groups`: how many documents they have.
    #[schema(required = false, nullable = false)]
    documents: Option<u64>,
    /// `groups`: how many fingerprints have more than 256 sketches, of which 256 were compared, and
    /// others near them that are in other groups, so that they may belong together; otherwise
    /// missing.
    #[schema(required = false, nullable = false)]
    partly_compared: Option<u64>,
}

impl PartialSchema for WorkReply {
    fn schema() -> RefOr<Schema> {
        AnyWork::schema()
    }
}

impl ToSchema for WorkReply {}

/// Whether a job runs, and how it ended.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum State {
    /// It waits for the one before it.
    Waiting,
    /// It runs; or, if it is a purge, waits for the one before it.
    Running,
    /// It has seen every document.
    Done,
    /// It was cancelled. What it has removed stays removed.
    Cancelled,
    /// It failed; `error` says why.
    Failed,
}

impl JobReply {
    pub(crate) fn new(job: Job, cipher: &Cipher, reach: &NamespaceAccess) -> Self {
        // It is a share of the work on all namespaces.
        let shows_progress = reach.is_unlimited() || job.state == JobState::Done;
        let progress = shows_progress.then(|| progress_of(&job));
        let (namespace, all_namespaces) = match job.work.reach() {
            NamespaceFilter::Namespace(name) => {
                (Some(name.as_ref().map(Namespace::to_string)), None)
            }
            NamespaceFilter::All => (None, Some(true)),
        };
        let (state, error) = match job.state {
            JobState::Waiting => (State::Waiting, None),
            JobState::Running => (State::Running, None),
            JobState::Done => (State::Done, None),
            JobState::Cancelled => (State::Cancelled, None),
            JobState::Failed(failure) => (State::Failed, Some(why(failure, reach))),
        };
        let (kind, work) = match job.work {
            Work::Purge(work) => (
                "purge",
                WorkReply::Purge {
                    prefix: work.purge.prefix.map(String::from),
                    stored_before: work.purge.stored_before_ms.map(|ms| ms / 1_000),
                    dry_run: work.purge.dry_run,
                    matched: work.matched,
                    removed: work.removed,
                },
            ),
            Work::Groups(work) => (
                "groups",
                WorkReply::Groups {
                    distance: work.request.criteria.distance.get(),
                    verified: work.request.criteria.threshold.is_some(),
                    min_size: work.request.size_min,
                    sequence: reach.is_unlimited().then(|| work.sequence.map(Sequence::get)),
                    groups: work.groups,
                    documents: work.documents,
                    partly_compared: Some(work.partly_compared).filter(|&count| count > 0),
                },
            ),
        };
        Self {
            job: cipher.encrypt(&Kind::Job.into(), job.number),
            kind,
            state,
            error,
            namespace,
            all_namespaces,
            work,
            progress,
            begun_at_ms: job.begun_ms,
            ended_at_ms: job.ended_ms,
        }
    }
}

fn why(failure: JobFailure, reach: &NamespaceAccess) -> String {
    match failure {
        JobFailure::Unreadable => {
            "A stored record failed its checksum or could not be read.".to_owned()
        }
        JobFailure::Memory { needed, max } => {
            let (needed, max) = if reach.is_unlimited() {
                (format!("{needed} bytes of"), format!("{max} are"))
            } else {
                ("more".to_owned(), "is".to_owned())
            };
            format!(
                "The job may need {needed} memory, and {max} left for it \
                 (groups.memory_bytes_max; the results of a token may have half of it)."
            )
        }
        JobFailure::Stopping => "The service is stopping.".to_owned(),
    }
}

/// Jobs, each kind oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct JobsReply {
    pub(crate) jobs: Vec<JobReply>,
    /// The `after` of the next page; null on the last one.
    #[schema(required)]
    pub(crate) next: Option<String>,
}
