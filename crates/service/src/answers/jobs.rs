//! The answers about jobs.

use nearprint_engine::document::{Namespace, Sequence};
use nearprint_engine::{Job, JobFailure, JobState, NamespaceFilter, Work, progress_of};
use nearprint_wire::answer::{JobReply, State};

use crate::callers::AllowedNamespaces;
use crate::cipher::{Cipher, CursorKind};

/// A job as a caller may see it.
pub fn job(job: Job, cipher: &Cipher, reach: &AllowedNamespaces) -> JobReply {
    // It is a share of the work on all namespaces.
    let shows_progress = !reach.is_limited() || job.state == JobState::Done;
    let progress = shows_progress.then(|| progress_of(&job));
    let (namespace, all_namespaces) = match job.work.reach() {
        NamespaceFilter::Namespace(name) => (Some(name.as_ref().map(Namespace::to_string)), None),
        NamespaceFilter::All => (None, Some(true)),
    };
    let (state, error) = match job.state {
        JobState::Waiting => (State::Waiting, None),
        JobState::Running => (State::Running, None),
        JobState::Done => (State::Done, None),
        JobState::Cancelled => (State::Cancelled, None),
        JobState::Failed(failure) => (State::Failed, Some(why(failure, reach))),
    };
    let of_kind = match job.work {
        Work::Purge(work) => JobReply {
            kind: "purge".into(),
            prefix: work.purge.prefix.map(String::from),
            stored_before: work.purge.stored_before_ms.map(|ms| ms / 1_000),
            dry_run: Some(work.purge.dry_run),
            matched: Some(work.matched),
            removed: Some(work.removed),
            ..JobReply::default()
        },
        Work::Groups(work) => JobReply {
            kind: "groups".into(),
            distance: Some(work.request.criteria.distance.get()),
            verified: Some(work.request.criteria.threshold.is_some()),
            min_size: Some(work.request.size_min),
            sequence: (!reach.is_limited()).then(|| work.sequence.map(Sequence::get)),
            groups: Some(work.groups),
            documents: Some(work.documents),
            partly_compared: Some(work.partly_compared).filter(|&count| count > 0),
            ..JobReply::default()
        },
    };
    JobReply {
        job: cipher.encrypt(&CursorKind::Job.into(), job.number),
        state,
        error,
        namespace,
        all_namespaces,
        progress,
        begun_at_ms: job.begun_ms,
        ended_at_ms: job.ended_ms,
        ..of_kind
    }
}

fn why(failure: JobFailure, reach: &AllowedNamespaces) -> String {
    match failure {
        JobFailure::Unreadable => {
            "A stored record failed its checksum or could not be read.".to_owned()
        }
        JobFailure::Memory { needed, max } => {
            let (needed, max) = if reach.is_limited() {
                ("more".to_owned(), "is".to_owned())
            } else {
                (format!("{needed} bytes of"), format!("{max} are"))
            };
            format!(
                "The job may need {needed} memory, and {max} left for it \
                 (groups.memory_bytes_max; the results of a token may have half of it)."
            )
        }
        JobFailure::Stopping => "The service is stopping.".to_owned(),
    }
}
