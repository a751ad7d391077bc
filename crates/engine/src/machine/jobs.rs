//! Jobs: removals of many documents, step by step.
//!
//! A job is part of the state, so it survives a restart and its count is exact: each step is one
//! change, which removes documents and records how far the job has come. The number of a job is
//! that of the change that began it.

use nearprint_index::namespaces::NamespaceNumber;
use nearprint_index::view::View;
use nearprint_index::visibility::NamespaceKey;

use crate::document::{Namespace, Sequence};

/// Ended jobs that are remembered, the newest ones.
pub const ENDED_KEPT: usize = 100;

/// Jobs that may run or wait at one time.
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
    pub(crate) fn in_view(&self, view: &View, secret: &[u8; 16]) -> Option<NamespaceNumber> {
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

/// How far a job has come.
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
    /// It runs, or waits for the one before it.
    Running,
    /// It has seen every document.
    Done,
    /// It was cancelled; what it had removed stays removed.
    Cancelled,
    /// A record could not be read.
    Failed,
}

impl JobState {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Running => 1,
            Self::Done => 2,
            Self::Cancelled => 3,
            Self::Failed => 4,
        }
    }

    pub(crate) const fn of_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Running,
            2 => Self::Done,
            3 => Self::Cancelled,
            4 => Self::Failed,
            _ => return None,
        })
    }
}

/// A job, as of a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The change that began it. It removes only what was stored before.
    pub number: Sequence,
    /// Which documents it removes.
    pub purge: Purge,
    /// Whether it runs, and how it ended.
    pub state: JobState,
    /// When it began, in milliseconds since 1970.
    pub begun_ms: u64,
    /// When it ended, in milliseconds since 1970; `None` while it runs.
    pub ended_ms: Option<u64>,
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

/// The jobs of a state, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Jobs(Vec<Job>);

impl Jobs {
    pub fn all(&self) -> &[Job] {
        &self.0
    }

    pub fn get(&self, number: Sequence) -> Option<&Job> {
        self.0.iter().find(|job| job.number == number)
    }

    /// The oldest job that has not ended.
    pub fn next(&self) -> Option<&Job> {
        self.0.iter().find(|job| job.state == JobState::Running)
    }

    /// The number of jobs that have not ended.
    pub fn running(&self) -> usize {
        self.0.iter().filter(|job| job.state == JobState::Running).count()
    }

    /// Adds a job from a snapshot.
    pub(crate) fn restore(&mut self, job: Job) {
        self.0.push(job);
    }

    pub(crate) fn begin(&mut self, number: Sequence, purge: Purge, begun_ms: u64) {
        self.0.push(Job {
            number,
            purge,
            state: JobState::Running,
            begun_ms,
            ended_ms: None,
            through: Sequence::ZERO,
            matched: 0,
            removed: 0,
            last_step: None,
        });
        let ended = self.0.len() - self.running();
        if ended > ENDED_KEPT
            && let Some(oldest) = self.0.iter().position(|job| job.state != JobState::Running)
        {
            self.0.remove(oldest);
        }
    }

    pub(crate) fn note(&mut self, progress: Progress, step: Sequence) {
        let Progress { job, through, matched, removed } = progress;
        if let Some(job) = self.find(job) {
            (job.through, job.matched, job.removed) = (through, matched, removed);
            job.last_step = Some(step);
        }
    }

    /// Ends a job. A change that ended one that ran is the only one to do so.
    pub(crate) fn end(&mut self, number: u64, state: JobState, ended_ms: u64) {
        if let Some(job) = self.find(number) {
            (job.state, job.ended_ms) = (state, Some(ended_ms));
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut Job> {
        self.0.iter_mut().find(|job| job.number.get() == number)
    }
}
