//! Jobs of every kind: how they begin, and how callers watch and cancel them.

use nearprint_machine::commands::{BeginPurge, EndJob};
use nearprint_machine::jobs::{self, JobState, Purge, PurgeWork, RUNNING_MAX};

use crate::api::client::Client;
use crate::api::clock;
use crate::api::error::Refused;
use crate::handle::Engine;
use crate::state::jobs::{GroupsRequest, Job, Work};
use crate::write::outbox::Admission;

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

    /// Removes a search for groups with its result; it is cancelled if it has not ended.
    pub fn remove_groups(&self, number: u64) -> Option<Job> {
        self.shared.groups.remove(number)
    }
}

fn shown(purge: &jobs::Job<PurgeWork>) -> Job {
    purge.with(Work::Purge(purge.work.clone()))
}
