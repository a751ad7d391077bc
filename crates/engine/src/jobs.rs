//! The jobs of an engine, of every kind: begin, watch and cancel them.
//!
//! A purge is part of the state and survives a restart ([`nearprint_machine::jobs`]); a search for
//! groups is in memory only ([`crate::groups`]). The removal of expired documents is no job: nobody
//! asked for it, it never ends, and there is nothing to wait for, as an expired document is not a
//! hit any more.

use nearprint_machine::commands::{BeginPurge, EndJob};
use nearprint_machine::document::Sequence;
use nearprint_machine::jobs::{
    self, JobFailure, JobState, NamespaceFilter, Purge, PurgeWork, RUNNING_MAX,
};
use nearprint_machine::query::Criteria;

use crate::api::error::Refused;
use crate::api::replies::Admission;
use crate::client::Client;
use crate::clock;
use crate::handle::Engine;

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
pub(crate) struct PurgeOwners(tokio::sync::Mutex<Vec<(u64, Client)>>);

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
        if refused == Refused::Unreadable { Self::Unreadable } else { Self::Stopping }
    }
}

impl Engine {
    /// Begins a job that removes many documents, one after the other: those that are stored now.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed; [`Refused::TooManyJobs`].
    pub async fn begin_purge(&self, purge: Purge) -> Result<Job, Refused> {
        let Some(owner) = self.client.clone() else { return self.submit_purge(purge).await };
        // One at a time, so that no two requests take the last slot of an owner.
        let mut owners = self.shared.purge_owners.0.lock().await;
        let state = self.shared.published.load_full();
        owners.retain(|(number, _)| state.jobs.get(*number).is_some_and(|job| !job.has_ended()));
        let held = owners.iter().filter(|(_, other)| *other == owner).count();
        let free = RUNNING_MAX.saturating_sub(state.jobs.running());
        if held > 0 && !Client::may_take(held, 1, free) {
            return Err(Refused::TooManyJobs { max: held, is_of_owner: true });
        }
        let job = self.submit_purge(purge).await?;
        owners.push((job.number, owner));
        Ok(job)
    }

    async fn submit_purge(&self, purge: Purge) -> Result<Job, Refused> {
        let begun = self.submit(BeginPurge { purge }, Admission::Shed, 0).await?.wait().await?;
        Ok(shown(&begun))
    }

    /// Begins a job that finds groups.
    ///
    /// # Errors
    /// [`Refused::DistanceAboveMax`], [`Refused::TooManyGroups`], [`Refused::Stopping`].
    pub fn begin_groups(&self, request: GroupsRequest) -> Result<Job, Refused> {
        self.check_distance(request.criteria.distance)?;
        self.shared.check_running()?;
        self.shared.groups.add(self.client.clone(), request, clock::now_ms())
    }

    /// The jobs by their numbers, so those of one kind oldest first: all that have not ended, the
    /// last [`ENDED_KEPT`] purges that have, and the searches for groups whose results are kept.
    ///
    /// [`ENDED_KEPT`]: nearprint_machine::jobs::ENDED_KEPT
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs = self.shared.groups.all();
        jobs.extend(self.shared.published.load().jobs.all().iter().map(shown));
        jobs.sort_unstable_by_key(|job| job.number);
        jobs
    }

    /// The job with a number.
    pub fn job(&self, number: u64) -> Option<Job> {
        let groups = self.shared.groups.get(number);
        groups.or_else(|| self.shared.published.load().jobs.get(number).map(shown))
    }

    /// Cancels a job. What it has removed stays removed. False if it does not run.
    ///
    /// # Errors
    /// [`Refused`], and then nothing changed.
    pub async fn cancel_job(&self, number: u64) -> Result<bool, Refused> {
        if let Some(was_cancelled) = self.shared.groups.cancel(number, clock::now_ms()) {
            return Ok(was_cancelled);
        }
        let command = EndJob { job: number, state: JobState::Cancelled };
        self.submit(command, Admission::Shed, 0).await?.wait().await
    }

    /// Removes a job that finds groups, with its result; it is cancelled if it has not ended.
    pub fn remove_groups(&self, number: u64) -> Option<Job> {
        self.shared.groups.remove(number)
    }
}

fn shown(purge: &jobs::Job<PurgeWork>) -> Job {
    purge.with(Work::Purge(purge.work.clone()))
}
