//! The board: which searches for groups wait, which one runs, and the results that are kept.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use nearprint_index::groups::Groups;
use nearprint_index::namespaces::NamespaceNumber;

use crate::api::error::Refused;
use crate::document::{Namespace, Sequence};
use crate::jobs::{GroupsRequest, GroupsWork, Job, Work};
use crate::machine::jobs::{self, JobFailure, JobList, JobState};

/// All searches for groups.
#[derive(Debug)]
pub(crate) struct Board {
    jobs: Mutex<JobList<Arc<GroupsRun>>>,
    last_number: AtomicU64,
    jobs_max: usize,
    bytes_max: u64,
}

/// What a search and those who watch it share.
#[derive(Debug)]
pub(crate) struct GroupsRun {
    pub(crate) request: GroupsRequest,
    /// Nobody wants its result any more.
    pub(crate) is_cancelled: AtomicBool,
    /// The last change that it sees.
    pub(crate) sequence: OnceLock<Sequence>,
    /// Pieces that are done.
    pub(crate) done: AtomicU64,
    /// All pieces; 0 until they are known.
    pub(crate) total: AtomicU64,
    /// What it found, once it is done.
    pub(crate) found: OnceLock<FoundGroups>,
}

#[derive(Debug)]
pub(crate) struct FoundGroups {
    pub(crate) groups: Groups,
    /// The names of the namespaces of the groups.
    pub(crate) names: HashMap<NamespaceNumber, (Namespace, u64)>,
}

impl FoundGroups {
    /// The name of a namespace, and its mask.
    pub(crate) fn name(&self, number: NamespaceNumber) -> (Option<Namespace>, u64) {
        let known = self.names.get(&number);
        known.map_or((None, 0), |(name, mask)| (Some(name.clone()), *mask))
    }

    fn bytes(&self) -> u64 {
        const NAME: usize = Namespace::BYTES_MAX + 64;
        self.groups.bytes() + (self.names.len() * NAME) as u64
    }
}

impl Board {
    /// A board for this many jobs, which take this many bytes together.
    pub(crate) fn new(jobs_max: usize, bytes_max: u64) -> Self {
        Self { jobs: Mutex::default(), last_number: AtomicU64::default(), jobs_max, bytes_max }
    }

    /// Poison is ignored, because a panic in an engine thread ends the process.
    fn jobs(&self) -> MutexGuard<'_, JobList<Arc<GroupsRun>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. The oldest one that has ended makes room for it. Its number grows with the time,
    /// so no two jobs have the same, not even after a restart.
    ///
    /// # Errors
    /// [`Refused::TooManyGroups`] if all wait or run.
    pub(crate) fn add(&self, request: GroupsRequest, now_ms: u64) -> Result<Job, Refused> {
        let mut jobs = self.jobs();
        if jobs.all().len() >= self.jobs_max {
            let forgotten = jobs.forget(jobs::Job::has_ended);
            forgotten.ok_or(Refused::TooManyGroups { max: self.jobs_max })?;
        }
        let number = now_ms.max(self.last_number.load(Ordering::Relaxed) + 1);
        self.last_number.store(number, Ordering::Relaxed);
        let job = jobs::Job::new(number, GroupsRun::new(request), JobState::Waiting, now_ms);
        jobs.add(job.with(Arc::clone(&job.work)));
        Ok(shown(&job))
    }

    /// All jobs, oldest first.
    pub(crate) fn all(&self) -> Vec<Job> {
        self.jobs().all().iter().map(shown).collect()
    }

    pub(crate) fn get(&self, number: u64) -> Option<Job> {
        self.jobs().get(number).map(shown)
    }

    /// What a job has found, if it is done.
    pub(crate) fn run(&self, number: u64) -> Option<Arc<GroupsRun>> {
        self.jobs().get(number).map(|job| Arc::clone(&job.work))
    }

    /// Cancels a job. False if it has ended already; `None` if there is no such job.
    pub(crate) fn cancel(&self, number: u64, now_ms: u64) -> Option<bool> {
        let mut jobs = self.jobs();
        jobs.get(number)?.work.is_cancelled.store(true, Ordering::Relaxed);
        Some(jobs.end(number, JobState::Cancelled, now_ms))
    }

    /// Removes a job with its result, and cancels it if it has not ended.
    pub(crate) fn remove(&self, number: u64) -> Option<Job> {
        let job = self.jobs().forget(|job| job.number == number)?;
        job.work.is_cancelled.store(true, Ordering::Relaxed);
        Some(shown(&job))
    }

    /// The job that has waited longest, which runs from now on: its number, and what it shares.
    pub(crate) fn next(&self) -> Option<(u64, Arc<GroupsRun>)> {
        let mut jobs = self.jobs();
        let number = jobs.next()?.number;
        let job = jobs.get_mut(number)?;
        job.state = JobState::Running;
        Some((number, Arc::clone(&job.work)))
    }

    /// Makes room for a job that takes at most this many bytes: forgets the oldest results.
    ///
    /// # Errors
    /// [`JobFailure::Memory`] if it needs more than all may take.
    pub(crate) fn make_room(&self, needed: u64) -> Result<(), JobFailure> {
        let max = self.bytes_max;
        if needed > max {
            return Err(JobFailure::Memory { needed, max });
        }
        let mut jobs = self.jobs();
        let bytes = |jobs: &JobList<Arc<GroupsRun>>| -> u64 {
            jobs.all().iter().filter_map(|job| job.work.found.get()).map(FoundGroups::bytes).sum()
        };
        while needed + bytes(&jobs) > max {
            let oldest = jobs.forget(|job| job.work.found.get().is_some());
            oldest.expect("results take the bytes");
        }
        Ok(())
    }

    /// Notes the end of a job, unless it was cancelled or removed.
    pub(crate) fn end(&self, number: u64, outcome: Result<FoundGroups, JobFailure>, now_ms: u64) {
        let mut jobs = self.jobs();
        let Some(job) = jobs.get(number).filter(|job| !job.has_ended()) else { return };
        let state = match outcome {
            Ok(found) => {
                job.work.found.get_or_init(|| found);
                JobState::Done
            }
            Err(failure) => JobState::Failed(failure),
        };
        jobs.end(number, state, now_ms);
    }
}

impl GroupsRun {
    fn new(request: GroupsRequest) -> Arc<Self> {
        Arc::new(Self {
            request,
            is_cancelled: AtomicBool::default(),
            sequence: OnceLock::new(),
            done: AtomicU64::default(),
            total: AtomicU64::default(),
            found: OnceLock::new(),
        })
    }
}

/// The job as it is now.
fn shown(job: &jobs::Job<Arc<GroupsRun>>) -> Job {
    let run = &job.work;
    let groups = run.found.get().map(|found| &found.groups);
    job.with(Work::Groups(GroupsWork {
        request: run.request.clone(),
        sequence: run.sequence.get().copied(),
        done: run.done.load(Ordering::Relaxed),
        total: run.total.load(Ordering::Relaxed),
        groups: groups.map_or(0, |groups| groups.all().len() as u64),
        documents: groups.map_or(0, |groups| groups.documents() as u64),
    }))
}

#[cfg(test)]
mod tests {
    use nearprint_fingerprint::Distance;

    use super::*;
    use crate::machine::jobs::NamespaceFilter;
    use crate::machine::query::Criteria;

    fn request() -> GroupsRequest {
        let criteria = Criteria::within(Distance::new(3).unwrap());
        GroupsRequest { reach: NamespaceFilter::All, criteria, size_min: 2 }
    }

    fn found() -> FoundGroups {
        FoundGroups { groups: Groups::default(), names: HashMap::new() }
    }

    #[test]
    fn jobs_run_in_their_order_and_the_oldest_ended_one_makes_room() {
        let board = Board::new(2, 100);
        let numbers = [5, 5].map(|now_ms| board.add(request(), now_ms).unwrap().number);
        assert_eq!(numbers, [5, 6]);
        assert_eq!(board.add(request(), 7), Err(Refused::TooManyGroups { max: 2 }));
        assert_eq!(board.next().map(|(number, _)| number), Some(5));
        board.end(5, Ok(found()), 8);
        assert_eq!(board.add(request(), 9).unwrap().number, 9);
        let numbers: Vec<u64> = board.all().iter().map(|job| job.number).collect();
        assert_eq!(numbers, [6, 9]);
        assert!(board.get(5).is_none());
        assert_eq!(board.next().map(|(number, _)| number), Some(6));
    }

    #[test]
    fn a_removed_job_is_cancelled_and_its_end_is_not_noted() {
        let board = Board::new(2, 100);
        board.add(request(), 5).unwrap();
        let (_, run) = board.next().unwrap();
        board.remove(5).unwrap();
        assert!(run.is_cancelled.load(Ordering::Relaxed));
        board.end(5, Ok(found()), 8);
        assert!(board.all().is_empty() && board.remove(5).is_none());
    }

    #[test]
    fn a_cancelled_job_stays_as_it_is_and_a_number_is_never_given_twice() {
        let board = Board::new(2, 100);
        for number in [5, 6] {
            board.add(request(), number).unwrap();
        }
        let (_, run) = board.next().unwrap();
        assert_eq!((board.cancel(5, 8), board.cancel(5, 9)), (Some(true), Some(false)));
        assert!(run.is_cancelled.load(Ordering::Relaxed));
        board.end(5, Ok(found()), 10);
        let job = board.get(5).unwrap();
        assert_eq!((job.state, job.ended_ms), (JobState::Cancelled, Some(8)));
        assert!(board.run(5).unwrap().found.get().is_none());
        assert_eq!(board.next().map(|(number, _)| number), Some(6), "5 has ended");
        assert_eq!((board.cancel(6, 11), board.next().is_none()), (Some(true), true));
        assert_eq!(board.cancel(7, 12), None);
        board.remove(6).unwrap();
        assert_eq!(board.add(request(), 6).unwrap().number, 7);
    }

    #[test]
    fn old_results_make_room_and_what_never_fits_is_refused() {
        let name = |number| (NamespaceNumber::new(number), (Namespace::new("n").unwrap(), 0));
        let found = || FoundGroups { groups: Groups::default(), names: HashMap::from([name(1)]) };
        let each = found().bytes();
        let board = Board::new(9, 3 * each);
        for number in 1..4 {
            board.add(request(), number).unwrap();
            board.end(number, Ok(found()), number);
        }
        board.make_room(0).unwrap();
        assert_eq!(board.all().len(), 3);
        board.make_room(each + 1).unwrap();
        let numbers: Vec<u64> = board.all().iter().map(|job| job.number).collect();
        assert_eq!(numbers, [3]);
        let (needed, max) = (3 * each + 1, 3 * each);
        assert_eq!(board.make_room(needed), Err(JobFailure::Memory { needed, max }));
        assert_eq!(board.all().len(), 1, "what fails makes no room");
    }
}
