//! The groups that a job has found, by pages.
//!
//! A result names documents by their changes. Their records are read from the current state, which
//! does without those that were removed or have expired since.

use nearprint_fingerprint::Fingerprint;
use nearprint_index::groups::{Group, GroupMember};
use nearprint_machine::document::{Namespace, Sequence};

use crate::api::clock;
use crate::api::error::Refused;
use crate::api::replies::{Page, PageOptions, StoredDocument};
use crate::read::page::PageSpace;
use crate::read::reader::RecordReader;
use crate::state::board::FoundGroups;
use crate::state::published::Published;

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

/// A page of the groups that a job has found, from the one with this number on.
///
/// # Errors
/// [`Refused::Unreadable`].
pub(crate) fn groups(
    state: &Published,
    found: &FoundGroups,
    from: u64,
    options: PageOptions,
) -> Result<Page<GroupInfo>, Refused> {
    let all = found.groups.all();
    let from = usize::try_from(from).unwrap_or(usize::MAX).min(all.len());
    let groups = &all[from..all.len().min(from.saturating_add(options.limit))];
    let oldest = |group| found.groups.members(group)[0];
    let members: Vec<GroupMember> = groups.iter().map(oldest).collect();
    let mut shown = Shown::new(state, options);
    let mut items = Vec::new();
    let listed = members.iter().zip(existing(state, &members));
    for (group, (&oldest, listed)) in groups.iter().zip(listed) {
        let (namespace, mask) = found.name(group.namespace);
        let Some(oldest) = shown.member((oldest, listed), mask)? else { break };
        let number = (from + items.len()) as u64;
        items.push(GroupInfo { group: number, namespace, size: group.size.into(), oldest });
    }
    let next = from + items.len();
    Ok(Page { items, next: (next < all.len()).then_some(next as u64) })
}

/// A page of the documents of a group, those after the first `after`.
///
/// # Errors
/// [`Refused::Unreadable`].
pub(crate) fn members(
    state: &Published,
    found: &FoundGroups,
    group: &Group,
    (after, options): (u64, PageOptions),
) -> Result<GroupPage, Refused> {
    let all = found.groups.members(group);
    let after = usize::try_from(after).unwrap_or(usize::MAX).min(all.len());
    let wanted = &all[after..all.len().min(after.saturating_add(options.limit))];
    let (namespace, mask) = found.name(group.namespace);
    let mut shown = Shown::new(state, options);
    let mut members = Vec::new();
    for (member, exists) in wanted.iter().zip(existing(state, wanted)) {
        let Some(member) = shown.member((*member, exists), mask)? else { break };
        members.push(member);
    }
    let next = after + members.len();
    let next = (next < all.len()).then_some(next as u64);
    Ok(GroupPage { size: group.size.into(), namespace, members, next })
}

/// Which documents are still stored.
fn existing(state: &Published, members: &[GroupMember]) -> Vec<bool> {
    let visibility = state.view.visibility(None, clock::now_ms(), None);
    let wanted: Vec<(Sequence, Fingerprint)> =
        members.iter().map(|member| (member.sequence, member.masked)).collect();
    let mut located = state.view.documents_at(&wanted);
    located.retain(|located| !visibility.has_expired(located.posting));
    let is_located = |member: &GroupMember| {
        located.binary_search_by_key(&member.sequence, |l| l.posting.sequence).is_ok()
    };
    members.iter().map(is_located).collect()
}

/// Reads members for a page until it is full.
struct Shown {
    records: RecordReader,
    space: PageSpace,
}

impl Shown {
    fn new(state: &Published, options: PageOptions) -> Self {
        Self { records: RecordReader::new(&state.records), space: PageSpace::new(options) }
    }

    /// The next member, whose namespace has this mask; `None` if the page is full.
    fn member(
        &mut self,
        (member, exists): (GroupMember, bool),
        mask: u64,
    ) -> Result<Option<MemberInfo>, Refused> {
        let GroupMember { sequence, masked } = member;
        let mut stored = exists.then(|| self.records.stored(sequence)).transpose()?;
        if let Some(stored) = &mut stored {
            stored.document.sketch = None;
        }
        if !self.space.takes(stored.as_mut().map(|stored| &mut stored.document)) {
            return Ok(None);
        }
        let fingerprint = Fingerprint::new(masked.bits() ^ mask);
        Ok(Some(MemberInfo { sequence, fingerprint, stored }))
    }
}
