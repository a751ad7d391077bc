//! The JSON of groups of near-duplicates.

use std::borrow::Cow;

use nearprint_engine::document::{DocumentId, Expiry, Namespace, Sequence};
use nearprint_engine::{
    GroupInfo, GroupPage, GroupsFailure, GroupsJob, GroupsState, MemberInfo, NamespaceFilter, Page,
};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::http::reply::documents::as_json;
use crate::http::reply::hex::Hex;
use crate::http::request::selection::Cursor;

/// A job that finds groups.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupsJobReply {
    /// Its number.
    #[schema(example = 1_764_041_234_567_u64)]
    job: u64,
    state: State,
    /// Why it failed; otherwise missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    error: Option<String>,
    /// The namespace whose documents it groups; null for the default namespace, missing with
    /// `all_namespaces`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    #[expect(clippy::option_option, reason = "null and missing are two answers")]
    namespace: Option<Option<String>>,
    /// It groups the documents of all namespaces; otherwise missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    all_namespaces: Option<bool>,
    distance: u8,
    /// Whether pairs that sketches refute do not count.
    verified: bool,
    size_min: u32,
    /// 0 to 1; 1 once it is done.
    progress: f64,
    /// The last change that it sees; null until it runs.
    sequence: Option<u64>,
    /// How many groups it found.
    groups: u64,
    /// How many documents they have.
    documents: u64,
    /// When it was requested, in milliseconds since 1970.
    begun_at_ms: u64,
    /// When it ended, in milliseconds since 1970; null until then.
    ended_at_ms: Option<u64>,
}

/// Whether a job runs, and how it ended.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum State {
    /// It waits for the one before it.
    Waiting,
    /// It runs.
    Running,
    /// It has found all groups.
    Done,
    /// It failed; `error` says why.
    Failed,
}

impl From<GroupsJob> for GroupsJobReply {
    fn from(job: GroupsJob) -> Self {
        let (namespace, all_namespaces) = match &job.request.reach {
            NamespaceFilter::Namespace(name) => {
                (Some(name.as_ref().map(Namespace::to_string)), None)
            }
            NamespaceFilter::All => (None, Some(true)),
        };
        let (state, error) = match job.state {
            GroupsState::Waiting => (State::Waiting, None),
            GroupsState::Running => (State::Running, None),
            GroupsState::Done => (State::Done, None),
            GroupsState::Failed(failure) => (State::Failed, Some(why(failure))),
        };
        Self {
            job: job.number,
            state,
            error,
            namespace,
            all_namespaces,
            distance: job.request.criteria.distance.get(),
            verified: job.request.criteria.min_resemblance.is_some(),
            size_min: job.request.size_min,
            progress: job.progress,
            sequence: job.sequence.map(Sequence::get),
            groups: job.groups,
            documents: job.documents,
            begun_at_ms: job.begun_ms,
            ended_at_ms: job.ended_ms,
        }
    }
}

fn why(failure: GroupsFailure) -> String {
    match failure {
        GroupsFailure::Unreadable => {
            "A stored record failed its checksum or could not be read.".to_owned()
        }
        GroupsFailure::Memory { needed, max } => format!(
            "The job may need {needed} bytes of memory, and jobs that find groups may take {max} \
             (groups.memory_bytes_max)."
        ),
        GroupsFailure::Stopping => "The service is stopping.".to_owned(),
    }
}

/// The jobs that find groups, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupsJobsReply {
    pub(crate) jobs: Vec<GroupsJobReply>,
}

/// A job that finds groups, and a page of those that it has found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupsReply<'a> {
    #[serde(flatten)]
    job: GroupsJobReply,
    /// The groups, the largest first; of the same size, the one with the oldest document first.
    /// Missing until the job is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    found: Option<Vec<GroupReply<'a>>>,
    /// The `after` of the next page; null on the last one.
    #[schema(required)]
    next: Option<Cursor>,
}

/// A group of near-duplicates.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupReply<'a> {
    /// Its number; the largest group has 0.
    group: u64,
    /// How many documents it had when it was found.
    size: u64,
    /// Null for the default namespace.
    namespace: Option<&'a str>,
    /// Its oldest document.
    oldest: MemberReply<'a>,
}

/// A document of a group.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MemberReply<'a> {
    /// The change that stored it.
    sequence: u64,
    fingerprint: Hex,
    /// `true` if the document was removed, or has expired, since the group was found; otherwise
    /// missing. Then the rest is missing or null.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    gone: Option<bool>,
    /// Null if it has none.
    id: Option<&'a str>,
    /// When it was stored, in milliseconds since 1970.
    stored_at_ms: Option<u64>,
    /// When it expires, in seconds since 1970; missing if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    expires_at: Option<u32>,
    /// With `include=metadata`; missing if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, nullable = false)]
    metadata: Option<Cow<'a, RawValue>>,
}

impl<'a> From<&'a MemberInfo> for MemberReply<'a> {
    fn from(member: &'a MemberInfo) -> Self {
        let document = member.stored.as_ref().map(|stored| &stored.document);
        let metadata = document.and_then(|document| document.metadata.as_ref());
        Self {
            sequence: member.sequence.get(),
            fingerprint: member.fingerprint.into(),
            gone: member.stored.is_none().then_some(true),
            id: document.and_then(|document| document.id.as_ref()).map(DocumentId::as_str),
            stored_at_ms: member.stored.as_ref().map(|stored| stored.stored_at_ms),
            expires_at: document.and_then(|document| document.expiry).map(Expiry::second),
            metadata: metadata.and_then(as_json),
        }
    }
}

impl<'a> GroupsReply<'a> {
    pub(crate) fn new(job: GroupsJob, page: Option<&'a Page<GroupInfo>>) -> Self {
        let found = page.map(|page| {
            let group = |info: &'a GroupInfo| GroupReply {
                group: info.group,
                size: info.size,
                namespace: info.namespace.as_ref().map(Namespace::as_str),
                oldest: (&info.oldest).into(),
            };
            page.items.iter().map(group).collect()
        });
        Self { job: job.into(), found, next: page.and_then(|page| page.next).map(Cursor) }
    }
}

/// A page of the documents of a group, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MembersReply<'a> {
    group: u64,
    /// How many documents the group had when it was found.
    size: u64,
    /// Null for the default namespace.
    namespace: Option<&'a str>,
    documents: Vec<MemberReply<'a>>,
    /// The `after` of the next page; null on the last one.
    #[schema(required)]
    next: Option<Cursor>,
}

impl<'a> MembersReply<'a> {
    pub(crate) fn new(group: u64, page: &'a GroupPage) -> Self {
        Self {
            group,
            size: page.size,
            namespace: page.namespace.as_ref().map(Namespace::as_str),
            documents: page.members.iter().map(MemberReply::from).collect(),
            next: page.next.map(Cursor),
        }
    }
}
