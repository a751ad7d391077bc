//! The jobs of an engine, of every kind.
//!
//! A purge is part of the state and survives a restart ([`nearprint_machine::jobs`]); a search for
//! groups changes nothing, and is in memory only ([`board`](crate::state::board)). The removal of
//! expired documents is no job: nobody asked for it, it never ends, and there is nothing to wait
//! for, as an expired document is not a hit any more.

use nearprint_machine::document::Sequence;
use nearprint_machine::jobs::{self, JobFailure, JobState, NamespaceFilter, PurgeWork};
use nearprint_machine::query::Criteria;

use crate::api::client::Client;
use crate::api::error::Refused;

/// A job of any kind, as of a moment.
pub type Job = jobs::Job<Work>;

/// What a job does, and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// It removes documents.
    Purge(PurgeWork),
    /// It finds groups of near-duplicates.
    Groups(GroupsWork),
}

/// The owners of the purges that run. A purge that has survived a restart has none.
#[derive(Debug, Default)]
pub(crate) struct PurgeOwners(pub(crate) tokio::sync::Mutex<Vec<(u64, Client)>>);

/// Which groups to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupsRequest {
    /// The namespaces whose documents are grouped; a group has documents of one.
    pub reach: NamespaceFilter,
    /// What makes two documents near-duplicates; of any age.
    pub criteria: Criteria,
    /// The smallest number of documents of a group.
    pub size_min: u32,
}

/// A search for groups, and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupsWork {
    /// What it finds.
    pub request: GroupsRequest,
    /// The last change that it sees; `None` until it runs.
    pub sequence: Option<Sequence>,
    /// Pieces that are done.
    pub done: u64,
    /// All pieces; 0 until they are known.
    pub total: u64,
    /// How many groups it found.
    pub groups: u64,
    /// How many documents they have.
    pub documents: u64,
    /// How many fingerprints may belong to a larger group, because they have more sketches than are
    /// compared.
    pub partly_compared: u64,
}

impl Work {
    /// The namespaces that it concerns.
    pub const fn reach(&self) -> &NamespaceFilter {
        match self {
            Self::Purge(work) => &work.purge.reach,
            Self::Groups(work) => &work.request.reach,
        }
    }
}

/// How much of a job is done, rounded down to 4 decimals; 1 only once all is.
#[expect(clippy::cast_precision_loss, reason = "the quotient is rounded to 4 decimals")]
pub fn progress_of(job: &Job) -> f64 {
    if job.state == JobState::Done {
        return 1.0;
    }
    let (done, total) = match &job.work {
        Work::Purge(work) => (work.through.get(), job.number),
        Work::Groups(work) => (work.done, work.total),
    };
    ((done as f64 / total.max(1) as f64 * 10_000.0).floor() / 10_000.0).min(0.9999)
}

impl From<Refused> for JobFailure {
    /// An engine that refuses its own commands is about to stop.
    fn from(refused: Refused) -> Self {
        let unreadable = matches!(refused, Refused::Unreadable | Refused::UnreadableIndex);
        if unreadable { Self::Unreadable } else { Self::Stopping }
    }
}
