//! The board: which jobs wait, which one runs, and the results that are kept.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nearprint_index::groups::Groups;
use nearprint_index::namespaces::NamespaceNumber;

use crate::api::error::Refused;
use crate::document::{Namespace, Sequence};
use crate::groups::jobs::{GroupsFailure, GroupsJob, GroupsRequest, GroupsState};

/// All jobs, oldest first.
#[derive(Debug)]
pub(crate) struct Board {
    entries: Mutex<Entries>,
    jobs_max: usize,
    bytes_max: u64,
}

#[derive(Debug, Default)]
struct Entries {
    all: Vec<Entry>,
    last_number: u64,
}

#[derive(Debug)]
struct Entry {
    job: GroupsJob,
    run: Arc<GroupsRun>,
    result: Option<Arc<FoundGroups>>,
}

/// What a running job and those who watch it share.
#[derive(Debug, Default)]
pub(crate) struct GroupsRun {
    /// Nobody wants its result any more.
    pub(crate) is_cancelled: AtomicBool,
    /// Pieces that are done.
    pub(crate) done: AtomicU64,
    /// All pieces; 0 until they are known.
    pub(crate) total: AtomicU64,
}

/// A job that is to run next.
#[derive(Debug)]
pub(crate) struct Next {
    pub(crate) number: u64,
    pub(crate) request: GroupsRequest,
    pub(crate) run: Arc<GroupsRun>,
}

/// What a job found.
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
        Self { entries: Mutex::default(), jobs_max, bytes_max }
    }

    /// Poison is ignored, because a panic in an engine thread ends the process.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job. The oldest one that has ended makes room for it.
    ///
    /// # Errors
    /// [`Refused::TooManyGroups`] if all wait or run.
    pub(crate) fn add(&self, request: GroupsRequest, now_ms: u64) -> Result<GroupsJob, Refused> {
        let mut entries = self.entries();
        if entries.all.len() >= self.jobs_max {
            let ended = entries.all.iter().position(|entry| entry.job.ended_ms.is_some());
            let ended = ended.ok_or(Refused::TooManyGroups { max: self.jobs_max })?;
            entries.all.remove(ended);
        }
        let number = now_ms.max(entries.last_number + 1);
        entries.last_number = number;
        let job = GroupsJob {
            number,
            request,
            state: GroupsState::Waiting,
            sequence: None,
            progress: 0.0,
            groups: 0,
            documents: 0,
            begun_ms: now_ms,
            ended_ms: None,
        };
        entries.all.push(Entry { job: job.clone(), run: Arc::default(), result: None });
        Ok(job)
    }

    /// All jobs, oldest first.
    pub(crate) fn all(&self) -> Vec<GroupsJob> {
        self.entries().all.iter().map(Entry::shown).collect()
    }

    /// A job with its result, if it is done.
    pub(crate) fn get(&self, number: u64) -> Option<(GroupsJob, Option<Arc<FoundGroups>>)> {
        let entries = self.entries();
        let entry = entries.all.iter().find(|entry| entry.job.number == number)?;
        Some((entry.shown(), entry.result.clone()))
    }

    /// Removes a job with its result, and cancels it if it has not ended.
    pub(crate) fn remove(&self, number: u64) -> Option<GroupsJob> {
        let mut entries = self.entries();
        let at = entries.all.iter().position(|entry| entry.job.number == number)?;
        let entry = entries.all.remove(at);
        entry.run.is_cancelled.store(true, Ordering::Relaxed);
        Some(entry.shown())
    }

    /// The job that has waited longest, which runs from now on.
    pub(crate) fn next(&self) -> Option<Next> {
        let mut entries = self.entries();
        let mut waiting = entries.all.iter_mut();
        let entry = waiting.find(|entry| entry.job.state == GroupsState::Waiting)?;
        entry.job.state = GroupsState::Running;
        let (number, request) = (entry.job.number, entry.job.request.clone());
        Some(Next { number, request, run: Arc::clone(&entry.run) })
    }

    /// Makes room for a job that takes at most this many bytes: forgets the oldest results.
    ///
    /// # Errors
    /// [`GroupsFailure::Memory`] if it needs more than all may take.
    pub(crate) fn make_room(&self, needed: u64) -> Result<(), GroupsFailure> {
        let max = self.bytes_max;
        if needed > max {
            return Err(GroupsFailure::Memory { needed, max });
        }
        let mut entries = self.entries();
        while needed + entries.bytes() > max {
            let oldest = entries.all.iter().position(|entry| entry.result.is_some());
            entries.all.remove(oldest.expect("results take the bytes"));
        }
        Ok(())
    }

    /// Notes what a job sees.
    pub(crate) fn sees(&self, number: u64, sequence: Sequence) {
        if let Some(entry) = self.entries().find(number) {
            entry.job.sequence = Some(sequence);
        }
    }

    /// Notes the end of a job, unless it was removed.
    pub(crate) fn end(
        &self,
        number: u64,
        outcome: Result<FoundGroups, GroupsFailure>,
        now_ms: u64,
    ) {
        let mut entries = self.entries();
        let Some(entry) = entries.find(number) else { return };
        entry.job.ended_ms = Some(now_ms);
        match outcome {
            Ok(found) => {
                entry.job.state = GroupsState::Done;
                entry.job.groups = found.groups.all().len() as u64;
                entry.job.documents = found.groups.documents() as u64;
                entry.result = Some(Arc::new(found));
            }
            Err(failure) => {
                entry.job.progress = entry.run.progress();
                entry.job.state = GroupsState::Failed(failure);
            }
        }
    }
}

impl Entries {
    fn find(&mut self, number: u64) -> Option<&mut Entry> {
        self.all.iter_mut().find(|entry| entry.job.number == number)
    }

    fn bytes(&self) -> u64 {
        self.all.iter().filter_map(|entry| entry.result.as_ref()).map(|found| found.bytes()).sum()
    }
}

impl Entry {
    /// The job as it is now.
    fn shown(&self) -> GroupsJob {
        let mut job = self.job.clone();
        match job.state {
            GroupsState::Running => job.progress = self.run.progress(),
            GroupsState::Done => job.progress = 1.0,
            GroupsState::Waiting | GroupsState::Failed(_) => {}
        }
        job
    }
}

impl GroupsRun {
    /// The share of the pieces that are done; less than 1.
    #[expect(clippy::cast_precision_loss, reason = "the quotient is rounded to 4 decimals")]
    fn progress(&self) -> f64 {
        let (done, total) =
            (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed).max(1));
        ((done as f64 / total as f64 * 10_000.0).floor() / 10_000.0).min(0.9999)
    }
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
        assert_eq!(board.next().map(|next| next.number), Some(5));
        board.end(5, Ok(found()), 8);
        assert_eq!(board.add(request(), 9).unwrap().number, 9);
        let numbers: Vec<u64> = board.all().iter().map(|job| job.number).collect();
        assert_eq!(numbers, [6, 9]);
        assert!(board.get(5).is_none());
        assert_eq!(board.next().map(|next| next.number), Some(6));
    }

    #[test]
    fn a_removed_job_is_cancelled_and_its_end_is_not_noted() {
        let board = Board::new(2, 100);
        board.add(request(), 5).unwrap();
        let run = board.next().unwrap().run;
        board.remove(5).unwrap();
        assert!(run.is_cancelled.load(Ordering::Relaxed));
        board.end(5, Ok(found()), 8);
        assert!(board.all().is_empty() && board.remove(5).is_none());
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
        assert_eq!(board.make_room(needed), Err(GroupsFailure::Memory { needed, max }));
        assert_eq!(board.all().len(), 1, "what fails makes no room");
    }
}
