//! The answers about groups of near-duplicates.

use std::borrow::Cow;

use nearprint_engine::document::{DocumentId, Expiry, Namespace};
use nearprint_engine::{GroupInfo, GroupPage, MemberInfo, Page};
use nearprint_wire::answer::{
    GroupReply, GroupsReply, JobReply, MemberReply, MembersReply, as_json,
};

use crate::callers::AllowedNamespaces;

/// A job that finds groups, with a page of them once it has.
pub fn groups<'a>(
    job: JobReply,
    page: Option<&'a Page<GroupInfo>>,
    next: Option<String>,
    reach: &AllowedNamespaces,
) -> GroupsReply<'a> {
    let found = page.map(|page| page.items.iter().map(|info| group(info, reach)).collect());
    GroupsReply { job, found, next }
}

/// A group.
fn group<'a>(info: &'a GroupInfo, reach: &AllowedNamespaces) -> GroupReply<'a> {
    GroupReply {
        group: info.group,
        size: info.size,
        namespace: name(info.namespace.as_ref()),
        oldest: member(&info.oldest, reach),
    }
}

/// A page of the documents of the group with this number.
pub fn members<'a>(
    group: u64,
    page: &'a GroupPage,
    next: Option<String>,
    reach: &AllowedNamespaces,
) -> MembersReply<'a> {
    MembersReply {
        group,
        size: page.size,
        namespace: name(page.namespace.as_ref()),
        documents: page.members.iter().map(|info| member(info, reach)).collect(),
        next,
    }
}

fn member<'a>(info: &'a MemberInfo, reach: &AllowedNamespaces) -> MemberReply<'a> {
    let document = info.stored.as_ref().map(|stored| &stored.document);
    let metadata = document.and_then(|document| document.metadata.as_ref());
    let id = document.and_then(|document| document.id.as_ref());
    MemberReply {
        sequence: reach.sequence(info.sequence),
        fingerprint: info.fingerprint.into(),
        gone: info.stored.is_none().then_some(true),
        id: id.map(DocumentId::as_str).map(Cow::Borrowed),
        stored_at_ms: info.stored.as_ref().map(|stored| stored.stored_at_ms),
        expires_at: document.and_then(|document| document.expiry).map(Expiry::second),
        metadata: metadata.and_then(as_json),
    }
}

fn name(namespace: Option<&Namespace>) -> Option<Cow<'_, str>> {
    namespace.map(Namespace::as_str).map(Cow::Borrowed)
}
