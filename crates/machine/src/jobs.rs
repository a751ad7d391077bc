//! Jobs: work on many documents that goes on after the reply to the request that began it.
//!
//! A purge is part of the state, so it survives a restart and its count is exact: each step is one
//! change, which removes documents and says how far the purge has come with it. The number of a
//! purge is that of the change that began it. Other jobs change nothing, and are kept outside the
//! state.

use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::namespaces::NamespaceNumber;
use nearprint_index::view::View;

use crate::document::{Namespace, Sequence};

/// Ended purges that are remembered, the newest ones.
pub const ENDED_KEPT: usize = 100;

/// Purges that may run or wait at one time.
pub const RUNNING_MAX: usize = 16;

/// One namespace, or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceFilter {
    /// One of them; `None` is the default one.
    Namespace(Option<Namespace>),
    /// All of them, the default one included.
    All,
}

impl NamespaceFilter {
    /// The namespace in a view, as a selection of documents names it; `None` for all of them.
    pub fn in_view(&self, view: &View, secret: &[u8; 16]) -> Option<NamespaceNumber> {
        match self {
            Self::All => None,
            Self::Namespace(None) => Some(NamespaceNumber::DEFAULT),
            Self::Namespace(Some(namespace)) => {
                let key = NamespaceKey::of(namespace, secret).key;
                let known = view.namespaces().get(key);
                Some(known.map_or(NamespaceNumber::NONE, |entry| entry.number))
            }
        }
    }
}

/// How far a purge has come with a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub job: u64,
    /// It has seen the documents up to this change.
    pub through: Sequence,
    /// The number of documents that it has found so far.
    pub matched: u64,
    /// The number of documents that it has removed so far.
    pub removed: u64,
}

/// Which documents a purge removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Purge {
    /// The namespaces from which it removes.
    pub reach: NamespaceFilter,
    /// It removes only documents whose ids begin so; `None` is any.
    pub prefix: Option<Box<str>>,
    /// They were stored before this time, in milliseconds since 1970.
    pub stored_before_ms: Option<u64>,
    /// It counts them and removes none.
    pub dry_run: bool,
}

/// Whether a job runs, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobState {
    /// It waits for the job before it.
    Waiting,
    /// It runs. A purge is never known to wait: it runs from the change that begins it.
    Running,
    /// It has seen every document.
    Done,
    /// It was cancelled; what it had removed stays removed.
    Cancelled,
    /// It failed.
    Failed(JobFailure),
}

/// Why a job failed, or stops for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFailure {
    /// A stored record could not be read.
    Unreadable,
    /// It needs more memory than jobs may take.
    Memory {
        /// The bytes that it needs at most.
        needed: u64,
        /// The limit.
        max: u64,
    },
    /// The engine stops.
    Stopping,
}

impl JobState {
    /// The code of the state of a purge.
    pub const fn code(self) -> u8 {
        match self {
            Self::Waiting | Self::Running => 1,
            Self::Done => 2,
            Self::Cancelled => 3,
            Self::Failed(_) => 4,
        }
    }

    pub const fn of_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Running,
            2 => Self::Done,
            3 => Self::Cancelled,
            4 => Self::Failed(JobFailure::Unreadable),
            _ => return None,
        })
    }
}

/// A job, as of a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job<W> {
    /// Its number; no two jobs have the same.
    pub number: u64,
    /// What it does, and how far it has come.
    pub work: W,
    /// Whether it runs.
    pub state: JobState,
    /// When it was requested, in milliseconds since 1970.
    pub begun_ms: u64,
    /// When it ended, in milliseconds since 1970; `None` while it runs.
    pub ended_ms: Option<u64>,
}

impl<W> Job<W> {
    pub const fn new(number: u64, work: W, state: JobState, begun_ms: u64) -> Self {
        Self { number, work, state, begun_ms, ended_ms: None }
    }

    /// Whether it is done, was cancelled or has failed.
    pub const fn has_ended(&self) -> bool {
        self.ended_ms.is_some()
    }

    /// The same job with its work in another form.
    pub const fn with<V>(&self, work: V) -> Job<V> {
        let Self { number, work: _, state, begun_ms, ended_ms } = *self;
        Job { number, work, state, begun_ms, ended_ms }
    }
}

/// A purge, and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PurgeWork {
    /// What it removes, of that which was stored before it began.
    pub purge: Purge,
    /// It has seen the documents up to this change.
    pub through: Sequence,
    /// The number of documents that it has found.
    pub matched: u64,
    /// The number of documents that it has removed. Another request may have removed some of those
    /// that it had found.
    pub removed: u64,
    /// The change of its last step.
    pub last_step: Option<Sequence>,
}

/// Jobs of one kind, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobList<W>(Vec<Job<W>>);

/// The jobs of a state.
pub type Jobs = JobList<PurgeWork>;

impl<W> Default for JobList<W> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<W> JobList<W> {
    /// The jobs, oldest first.
    pub fn all(&self) -> &[Job<W>] {
        &self.0
    }

    /// The job with a number.
    pub fn get(&self, number: u64) -> Option<&Job<W>> {
        self.0.iter().find(|job| job.number == number)
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut Job<W>> {
        self.0.iter_mut().find(|job| job.number == number)
    }

    /// The oldest job that has not ended.
    pub fn next(&self) -> Option<&Job<W>> {
        self.0.iter().find(|job| !job.has_ended())
    }

    /// The number of jobs that have not ended.
    pub fn running(&self) -> usize {
        self.0.iter().filter(|job| !job.has_ended()).count()
    }

    pub fn add(&mut self, job: Job<W>) {
        self.0.push(job);
    }

    /// Ends a job. False if it has ended already, or is not known.
    pub fn end(&mut self, number: u64, state: JobState, ended_ms: u64) -> bool {
        let Some(job) = self.get_mut(number).filter(|job| !job.has_ended()) else { return false };
        (job.state, job.ended_ms) = (state, Some(ended_ms));
        true
    }

    /// Takes out the oldest job that meets a condition.
    pub fn forget(&mut self, which: impl FnMut(&Job<W>) -> bool) -> Option<Job<W>> {
        self.0.iter().position(which).map(|at| self.0.remove(at))
    }
}

impl Jobs {
    pub fn begin(&mut self, number: Sequence, purge: Purge, begun_ms: u64) {
        let (through, last_step) = (Sequence::ZERO, None);
        let work = PurgeWork { purge, through, matched: 0, removed: 0, last_step };
        self.add(Job::new(number.get(), work, JobState::Running, begun_ms));
        if self.0.len() - self.running() > ENDED_KEPT {
            self.forget(Job::has_ended);
        }
    }

    pub fn note(&mut self, progress: Progress, step: Sequence) {
        let Progress { job, through, matched, removed } = progress;
        if let Some(Job { work, .. }) = self.get_mut(job) {
            (work.through, work.matched, work.removed) = (through, matched, removed);
            work.last_step = Some(step);
        }
    }
}
