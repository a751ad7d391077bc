//! The board: which searches for groups wait, which one runs, and the results that are kept.
//!
//! What has ended makes room for new jobs and results: the oldest of the client that has most, be
//! it in number or in bytes. Whoever has as much as anybody makes room by its own results, so a
//! client never loses one to another that would then have more.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use nearprint_index::groups::Groups;
use nearprint_index::namespaces::NamespaceNumber;
use nearprint_machine::document::{Namespace, Sequence};
use nearprint_machine::jobs::{self, JobFailure, JobList, JobState};

use crate::api::client::Client;
use crate::api::error::Refused;
use crate::state::jobs::{GroupsRequest, GroupsWork, Job, Work};

type Jobs = JobList<Arc<GroupsRun>>;

/// All searches for groups.
#[derive(Debug)]
pub(crate) struct Board {
    jobs: Mutex<Jobs>,
    last_number: AtomicU64,
    jobs_max: usize,
    bytes_max: u64,
}

/// What a search and those who watch it share.
#[derive(Debug)]
pub(crate) struct GroupsRun {
    pub(crate) owner: Option<Client>,
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
    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. If as many are kept as may be, one that has ended makes room for it. Its number
    /// grows with the time, so no two jobs have the same, not even after a restart.
    ///
    /// # Errors
    /// [`Refused::TooManyGroups`] if as many run or wait as may, or as the share of the owner
    /// allows.
    pub(crate) fn add(
        &self,
        owner: Option<Client>,
        request: GroupsRequest,
        now_ms: u64,
    ) -> Result<Job, Refused> {
        let mut jobs = self.jobs();
        let (held, free) = share(&jobs, owner.as_ref(), self.jobs_max);
        if free == 0 || (held > 0 && owner.is_some() && !Client::may_take(held, 1, free)) {
            let (max, is_of_owner) = if free == 0 { (self.jobs_max, false) } else { (held, true) };
            return Err(Refused::TooManyGroups { max, is_of_owner });
        }
        if jobs.all().len() >= self.jobs_max {
            let mut kept = Kept::of(&jobs, |_| 1);
            let forgotten = kept.forget_one(owner.as_ref(), 1);
            let refused = Refused::TooManyGroups { max: self.jobs_max, is_of_owner: false };
            let forgotten = forgotten.ok_or(refused)?;
            jobs.forget(|job| job.number == forgotten);
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

    /// Makes room for a job that takes at most this many bytes.
    ///
    /// # Errors
    /// [`JobFailure::Memory`] if it needs more than what may be forgotten for it leaves.
    pub(crate) fn make_room(&self, owner: Option<&Client>, needed: u64) -> Result<(), JobFailure> {
        self.make_room_in(&mut self.jobs(), owner, needed)
    }

    fn make_room_in(
        &self,
        jobs: &mut Jobs,
        owner: Option<&Client>,
        needed: u64,
    ) -> Result<(), JobFailure> {
        let mut kept = Kept::of(jobs, |run| run.found.get().map_or(0, FoundGroups::bytes));
        let mut forgotten = Vec::new();
        while kept.sizes() + needed > self.bytes_max {
            let max = self.bytes_max.saturating_sub(kept.sizes());
            let next = kept.forget_one(owner, needed);
            forgotten.push(next.ok_or(JobFailure::Memory { needed, max })?);
        }
        for number in forgotten {
            jobs.forget(|job| job.number == number);
        }
        Ok(())
    }

    /// Notes the end of a job, unless it was cancelled or removed, and makes room for its result.
    pub(crate) fn end(&self, number: u64, outcome: Result<FoundGroups, JobFailure>, now_ms: u64) {
        let mut jobs = self.jobs();
        let Some(job) = jobs.get(number).filter(|job| !job.has_ended()) else { return };
        let run = Arc::clone(&job.work);
        let kept = outcome.and_then(|found| {
            self.make_room_in(&mut jobs, run.owner.as_ref(), found.bytes())?;
            run.found.get_or_init(|| found);
            Ok(())
        });
        let state = kept.map_or_else(JobState::Failed, |()| JobState::Done);
        jobs.end(number, state, now_ms);
    }
}

/// How many jobs of a client run or wait, and how many more may, of all clients together.
fn share(jobs: &Jobs, owner: Option<&Client>, max: usize) -> (usize, usize) {
    let active = jobs.all().iter().filter(|job| !job.has_ended());
    let held = active.filter(|job| job.work.owner.as_ref() == owner).count();
    (held, max.saturating_sub(jobs.running()))
}

/// What jobs take of a limit, oldest first.
struct Kept(Vec<KeptJob>);

struct KeptJob {
    number: u64,
    owner: Option<Client>,
    /// What it takes of the limit.
    size: u64,
    has_ended: bool,
}

impl Kept {
    fn of(jobs: &Jobs, size: impl Fn(&GroupsRun) -> u64) -> Self {
        let kept = |job: &jobs::Job<Arc<GroupsRun>>| KeptJob {
            number: job.number,
            owner: job.work.owner.clone(),
            size: size(&job.work),
            has_ended: job.has_ended(),
        };
        Self(jobs.all().iter().map(kept).collect())
    }

    fn sizes(&self) -> u64 {
        self.0.iter().map(|job| job.size).sum()
    }

    /// Takes out the oldest job that has ended of the client that has most, unless `owner` has more
    /// once it has `more`. Returns its number.
    fn forget_one(&mut self, owner: Option<&Client>, more: u64) -> Option<u64> {
        let size_of = |client: Option<&Client>| {
            let jobs = self.0.iter().filter(|job| job.owner.as_ref() == client);
            jobs.map(|job| job.size).sum::<u64>() + if client == owner { more } else { 0 }
        };
        let own = size_of(owner);
        let can_go = |(_, job): &(usize, &KeptJob)| job.has_ended && job.size > 0;
        let (has, _, Reverse(at)) = self
            .0
            .iter()
            .enumerate()
            .filter(can_go)
            .map(|(at, KeptJob { owner: other, .. })| {
                (size_of(other.as_ref()), other.as_ref() == owner, Reverse(at))
            })
            .max()?;
        (has >= own).then(|| self.0.remove(at).number)
    }
}

impl GroupsRun {
    fn new(owner: Option<Client>, request: GroupsRequest) -> Arc<Self> {
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
    use nearprint_machine::jobs::NamespaceFilter;
    use nearprint_machine::query::Criteria;

    use super::*;

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

    fn client(name: &str) -> Client {
        Client::Token(name.into())
    }

    #[test]
    fn what_has_ended_makes_room_whoever_began_it() {
        let board = Board::new(4, 1 << 20);
        let add = |name, now_ms| board.add(Some(client(name)), request(), now_ms);
        let run = |name, number| {
            add(name, number).unwrap();
            board.end(number, Ok(found()), number);
        };
        let numbers = || board.all().iter().map(|job| job.number).collect::<Vec<_>>();
        for (name, number) in [("a", 1), ("a", 2), ("b", 3), ("b", 4)] {
            run(name, number);
        }
        run("c", 5);
        assert_eq!(numbers(), [2, 3, 4, 5], "the oldest of those who have most");
        run("c", 6);
        assert_eq!(numbers(), [2, 3, 4, 6], "c would have as many as b");
        run("d", 7);
        assert_eq!(numbers(), [2, 4, 6, 7], "b had most");
        run("e", 8);
        assert_eq!(numbers(), [4, 6, 7, 8], "all have one");
    }

    #[test]
    fn jobs_that_wait_leave_room_for_those_of_others() {
        let board = Board::new(4, 1 << 20);
        let add = |name, now_ms| board.add(Some(client(name)), request(), now_ms);
        let refused = |max, is_of_owner| Err(Refused::TooManyGroups { max, is_of_owner });
        let taken = |added: Result<Job, Refused>| added.map(|job| job.number);
        assert_eq!([taken(add("a", 1)), taken(add("a", 2))], [Ok(1), Ok(2)]);
        assert_eq!(taken(add("a", 3)), refused(2, true));
        assert_eq!([taken(add("b", 3)), taken(add("b", 4))], [Ok(3), refused(1, true)]);
        assert_eq!([taken(add("c", 4)), taken(add("d", 5))], [Ok(4), refused(4, false)]);
        board.end(1, Ok(found()), 5);
        assert_eq!(taken(add("a", 6)), refused(1, true), "it has as many as are free");
        assert_eq!(taken(add("d", 6)), Ok(6));
        assert!(board.get(1).is_none(), "its result has made room");
    }

    #[test]
    fn results_take_the_bytes_of_whoever_has_most() {
        let name = |number| (NamespaceNumber::new(number), (Namespace::new("n").unwrap(), 0));
        let found = |count| FoundGroups {
            groups: Groups::default(),
            names: (1..=count).map(name).collect(),
        };
        let each = found(1).bytes() - found(0).bytes();
        assert_eq!(found(0).bytes(), 0);
        let board = Board::new(20, each * 8);
        let run = |name, number, count| {
            board.add(Some(client(name)), request(), number).unwrap();
            board.end(number, Ok(found(count)), number);
            board.get(number).unwrap().state
        };
        let sizes = || {
            let run = |number: u64| board.run(number)?.found.get().map(FoundGroups::bytes);
            board.all().iter().map(|job| run(job.number).unwrap_or(0) / each).collect::<Vec<_>>()
        };
        for (owner, number) in [("a", 1), ("a", 2), ("b", 3)] {
            assert_eq!(run(owner, number, if owner == "a" { 2 } else { 4 }), JobState::Done);
        }
        assert_eq!(run("c", 4, 2), JobState::Done, "a and b leave nothing");
        assert_eq!(sizes(), [2, 4, 2], "the oldest of those who have most");
        let too_much = board.make_room(Some(&client("c")), 5 * each);
        assert_eq!(too_much, Err(JobFailure::Memory { needed: 5 * each, max: 2 * each }));
        assert_eq!(sizes(), [2, 4, 2], "what fails makes no room");
        board.make_room(Some(&client("d")), 4 * each).unwrap();
        assert_eq!(sizes(), [2, 2], "b had most");
    }
}
