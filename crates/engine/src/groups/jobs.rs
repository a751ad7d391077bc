//! The values of jobs that find groups.

use nearprint_fingerprint::Fingerprint;

use crate::api::replies::StoredDocument;
use crate::document::{Namespace, Sequence};
use crate::machine::jobs::NamespaceFilter;
use crate::machine::query::Criteria;

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

/// A job that finds groups.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupsJob {
    /// Its number. No two jobs have the same, not even after a restart: it grows with the time.
    pub number: u64,
    /// What it finds.
    pub request: GroupsRequest,
    /// Whether it runs, and how it ended.
    pub state: GroupsState,
    /// The last change that it sees; `None` until it runs.
    pub sequence: Option<Sequence>,
    /// How much of it is done, 0 to 1.
    pub progress: f64,
    /// How many groups it found.
    pub groups: u64,
    /// How many documents they have.
    pub documents: u64,
    /// When it was requested, in milliseconds since 1970.
    pub begun_ms: u64,
    /// When it ended.
    pub ended_ms: Option<u64>,
}

/// Whether a job runs, and how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupsState {
    /// It waits for the job before it.
    Waiting,
    /// It runs.
    Running,
    /// It has found all groups.
    Done,
    /// It failed.
    Failed(GroupsFailure),
}

/// Why a job failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupsFailure {
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

/// A group of documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupInfo {
    /// Its number; the largest group has 0.
    pub group: u64,
    /// The namespace of its documents.
    pub namespace: Option<Namespace>,
    /// How many documents it had when it was found.
    pub size: u64,
    /// The oldest of them.
    pub oldest: MemberInfo,
}

/// A document of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberInfo {
    /// The change that stored it.
    pub sequence: Sequence,
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// The document; `None` if it was removed or has expired since the group was found.
    pub stored: Option<StoredDocument>,
}

/// The members of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPage {
    /// How many documents the group had when it was found.
    pub size: u64,
    /// Their namespace.
    pub namespace: Option<Namespace>,
    /// Some of them, oldest first.
    pub members: Vec<MemberInfo>,
    /// Where the next page begins; `None` after the last one.
    pub next: Option<u64>,
}
