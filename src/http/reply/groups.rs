//! The JSON of groups of near-duplicates.

use std::borrow::Cow;

use nearprint_engine::document::{DocumentId, Expiry, Namespace};
use nearprint_engine::{GroupInfo, GroupPage, MemberInfo, Page};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::http::reply::documents::as_json;
use crate::http::reply::hex::Hex;
use crate::http::reply::jobs::JobReply;
use crate::http::request::reach::NamespaceAccess;

/// A job that finds groups, and a page of those that it has found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GroupsReply<'a> {
    #[serde(flatten)]
    job: JobReply,
    /// The groups, the largest first; of the same size, the one with the oldest document first.
    /// Missing until the job is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    found: Option<Vec<GroupReply<'a>>>,
    /// The `after` of the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
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
    /// The change that stored it; missing if the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    sequence: Option<u64>,
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
    #[schema(value_type = Option<BTreeMap<String, serde_json::Value>>, nullable = false)]
    metadata: Option<Cow<'a, RawValue>>,
}

impl<'a> MemberReply<'a> {
    fn new(member: &'a MemberInfo, reach: &NamespaceAccess) -> Self {
        let document = member.stored.as_ref().map(|stored| &stored.document);
        let metadata = document.and_then(|document| document.metadata.as_ref());
        Self {
            sequence: reach.sequence(member.sequence),
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
    pub(crate) fn new(
        job: JobReply,
        page: Option<&'a Page<GroupInfo>>,
        reach: &NamespaceAccess,
        next: Option<String>,
    ) -> Self {
        let found = page.map(|page| {
            let group = |info: &'a GroupInfo| GroupReply {
                group: info.group,
                size: info.size,
                namespace: info.namespace.as_ref().map(Namespace::as_str),
                oldest: MemberReply::new(&info.oldest, reach),
            };
            page.items.iter().map(group).collect()
        });
        Self { job, found, next }
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
    next: Option<String>,
}

impl<'a> MembersReply<'a> {
    pub(crate) fn new(
        group: u64,
        page: &'a GroupPage,
        reach: &NamespaceAccess,
        next: Option<String>,
    ) -> Self {
        let member = |member| MemberReply::new(member, reach);
        Self {
            group,
            size: page.size,
            namespace: page.namespace.as_ref().map(Namespace::as_str),
            documents: page.members.iter().map(member).collect(),
            next,
        }
    }
}
