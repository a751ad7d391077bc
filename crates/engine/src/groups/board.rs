//! The board: which searches for groups wait, which one runs, and the results that are kept.
//!
//! A job makes room by forgetting older results of its own owner, never those of others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use nearprint_index::groups::Groups;
use nearprint_index::namespaces::NamespaceNumber;

use crate::api::error::Refused;
use crate::document::{Namespace, Sequence};
use crate::jobs::{GroupsRequest, GroupsWork, Job, JobOwner, Work};
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
    pub(crate) owner: Option<JobOwner>,
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

    /// Adds a job. The oldest one of its owner that has ended makes room for it. Its number grows with
    /// the time, so no two jobs have the same, not even after a restart.
    ///
    /// # Errors
    /// [`Refused::TooManyGroups`] if no job of the owner has ended.
    pub(crate) fn add(
        &self,
        owner: Option<JobOwner>,
        request: GroupsRequest,
        now_ms: u64,
    ) -> Result<Job, Refused> {
        let mut jobs = self.jobs();
        let share = JobOwner::share(owner.as_ref(), self.jobs_max);
        let has_share = jobs.all().iter().filter(|job| job.work.owner == owner).count() >= share;
        if has_share || jobs.all().len() >= self.jobs_max {
            let forgotten = jobs.forget(|job| job.has_ended() && job.work.owner == owner);
            let is_of_owner = has_share && owner.is_some();
            let max = if is_of_owner { share } else { self.jobs_max };
            forgotten.ok_or(Refused::TooManyGroups { max, is_of_owner })?;
        }
        let number = now_ms.max(self.last_number.load(Ordering::Relaxed) + 1);
        self.last_number.store(number, Ordering::Relaxed);
        let job = jobs::Job::new(number, GroupsRun::new(owner, request), JobState::Waiting, now_ms);
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

    /// Makes room for a job that takes at most this many bytes: forgets the oldest results of its
    /// owner.
    ///
    /// # Errors
    /// [`JobFailure::Memory`] if it needs more than the results of others leave.
    pub(crate) fn make_room(
        &self,
        owner: Option<&JobOwner>,
        needed: u64,
    ) -> Result<(), JobFailure> {
        let mut jobs = self.jobs();
        let others = bytes_kept(&jobs, |other| other != owner);
        keep_within(&mut jobs, owner, needed, self.bytes_max.saturating_sub(others))
    }

    /// Notes the end of a job, unless it was cancelled or removed. If its result and the older ones of
    /// its owner have more than the owner's share, the older ones are forgotten.
    pub(crate) fn end(&self, number: u64, outcome: Result<FoundGroups, JobFailure>, now_ms: u64) {
        let mut jobs = self.jobs();
        let Some(job) = jobs.get(number).filter(|job| !job.has_ended()) else { return };
        let run = Arc::clone(&job.work);
        let kept = outcome.and_then(|found| {
            let max = self.bytes_max / JobOwner::parts(run.owner.as_ref());
            keep_within(&mut jobs, run.owner.as_ref(), found.bytes(), max)?;
            run.found.get_or_init(|| found);
            Ok(())
        });
        let state = kept.map_or_else(JobState::Failed, |()| JobState::Done);
        jobs.end(number, state, now_ms);
    }
}

/// The bytes of the results of some owners.
fn bytes_kept(jobs: &JobList<Arc<GroupsRun>>, counts: impl Fn(Option<&JobOwner>) -> bool) -> u64 {
    let runs = jobs.all().iter().map(|job| &job.work).filter(|run| counts(run.owner.as_ref()));
    runs.filter_map(|run| run.found.get()).map(FoundGroups::bytes).sum()
}

/// Forgets the oldest results of an owner until the others and `more` bytes are at most `max`.
fn keep_within(
    jobs: &mut JobList<Arc<GroupsRun>>,
    owner: Option<&JobOwner>,
    more: u64,
    max: u64,
) -> Result<(), JobFailure> {
    if more > max {
        return Err(JobFailure::Memory { needed: more, max });
    }
    while more + bytes_kept(jobs, |other| other == owner) > max {
        let oldest =
            jobs.forget(|job| job.work.owner.as_ref() == owner && job.work.found.get().is_some());
        oldest.expect("results take the bytes");
    }
    Ok(())
}

impl GroupsRun {
    fn new(owner: Option<JobOwner>, request: GroupsRequest) -> Arc<Self> {
        Arc::new(Self {
            owner,
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
        partly_compared: groups.map_or(0, Groups::partly_compared),
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
        let numbers = [5, 5].map(|now_ms| board.add(None, request(), now_ms).unwrap().number);
        assert_eq!(numbers, [5, 6]);
        assert_eq!(
            board.add(None, request(), 7),
            Err(Refused::TooManyGroups { max: 2, is_of_owner: false })
        );
        assert_eq!(board.next().map(|(number, _)| number), Some(5));
        board.end(5, Ok(found()), 8);
        assert_eq!(board.add(None, request(), 9).unwrap().number, 9);
        let numbers: Vec<u64> = board.all().iter().map(|job| job.number).collect();
        assert_eq!(numbers, [6, 9]);
        assert!(board.get(5).is_none());
        assert_eq!(board.next().map(|(number, _)| number), Some(6));
    }

    #[test]
    fn a_removed_job_is_cancelled_and_its_end_is_not_noted() {
        let board = Board::new(2, 100);
        board.add(None, request(), 5).unwrap();
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
            board.add(None, request(), number).unwrap();
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
        assert_eq!(board.add(None, request(), 6).unwrap().number, 7);
    }

    #[test]
    fn old_results_make_room_and_what_never_fits_is_refused() {
        let name = |number| (NamespaceNumber::new(number), (Namespace::new("n").unwrap(), 0));
        let found = || FoundGroups { groups: Groups::default(), names: HashMap::from([name(1)]) };
        let each = found().bytes();
        let board = Board::new(9, 3 * each);
        for number in 1..4 {
            board.add(None, request(), number).unwrap();
            board.end(number, Ok(found()), number);
        }
        board.make_room(None, 0).unwrap();
        assert_eq!(board.all().len(), 3);
        board.make_room(None, each + 1).unwrap();
        let numbers: Vec<u64> = board.all().iter().map(|job| job.number).collect();
        assert_eq!(numbers, [3]);
        let (needed, max) = (3 * each + 1, 3 * each);
        assert_eq!(board.make_room(None, needed), Err(JobFailure::Memory { needed, max }));
        assert_eq!(board.all().len(), 1, "what fails makes no room");
    }

    #[test]
    fn an_owner_has_half_of_all_and_forgets_only_its_own_results() {
        let owner = |name: &str| Some(JobOwner::new(name.into()));
        let board = Board::new(4, 100);
        let end = |number| board.end(number, Ok(found()), number);
        let add = |name, now_ms| board.add(owner(name), request(), now_ms).map(|job| job.number);
        let numbers = || board.all().iter().map(|job| job.number).collect::<Vec<_>>();
        assert_eq!([add("a", 1), add("a", 2)], [Ok(1), Ok(2)]);
        let refused = Err(Refused::TooManyGroups { max: 2, is_of_owner: true });
        assert_eq!(add("a", 3), refused, "both wait");
        assert_eq!([add("b", 4), add("b", 5)], [Ok(4), Ok(5)]);
        for number in [1, 2, 4, 5] {
            end(number);
        }
        assert_eq!((add("a", 6), numbers()), (Ok(6), vec![2, 4, 5, 6]));
        let refused = Err(Refused::TooManyGroups { max: 4, is_of_owner: false });
        assert_eq!((add("c", 7), numbers()), (refused, vec![2, 4, 5, 6]), "c has none to forget");
    }

    #[test]
    fn an_owner_keeps_half_of_the_bytes_and_a_search_has_what_others_leave() {
        let name = |number| (NamespaceNumber::new(number), (Namespace::new("n").unwrap(), 0));
        let names = |count| (1..=count).map(name).collect();
        let found = |count| FoundGroups { groups: Groups::default(), names: names(count) };
        let each = found(1).bytes() - found(0).bytes();
        let (a, b) = (JobOwner::new("a".into()), JobOwner::new("b".into()));
        let board = Board::new(20, found(0).bytes() * 8 + each * 8);
        let run = |owner: &JobOwner, number, count| {
            board.add(Some(owner.clone()), request(), number).unwrap();
            board.end(number, Ok(found(count)), number);
            board.get(number).unwrap().state
        };
        for number in 1..=6 {
            assert_eq!(run(&a, number, 1), JobState::Done);
        }
        let numbers: Vec<u64> = board.all().iter().map(|job| job.number).collect();
        assert_eq!(numbers, [3, 4, 5, 6], "half of eight");
        assert!(matches!(run(&a, 7, 5), JobState::Failed(JobFailure::Memory { .. })));
        let half = 4 * found(1).bytes();
        board.make_room(Some(&b), half).unwrap();
        let refused = board.make_room(Some(&b), half + 1);
        assert_eq!(refused, Err(JobFailure::Memory { needed: half + 1, max: half }));
        assert_eq!(board.all().len(), 5, "nothing of a is forgotten for b");
        board.make_room(Some(&a), 2 * half).unwrap();
        assert_eq!(board.all().len(), 1, "the failed one has no result");
    }
}
