//! Groups of near-duplicates.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::hex::Hex;
use super::jobs::JobReply;

/// A job that finds groups, and a page of those that it has found.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GroupsReply<'a> {
    #[serde(flatten)]
    pub job: JobReply,
    /// The groups, the largest first; of the same size, the one with the oldest document first.
    /// Missing until the job is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub found: Option<Vec<GroupReply<'a>>>,
    /// The `after` of the next page; null on the last one.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next: Option<String>,
}

/// A group of near-duplicates.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GroupReply<'a> {
    /// Its number; the largest group has 0.
    pub group: u64,
    /// How many documents it had when it was found.
    pub size: u64,
    /// Null for the default namespace.
    pub namespace: Option<Cow<'a, str>>,
    /// Its oldest document.
    pub oldest: MemberReply<'a>,
}

/// A document of a group.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MemberReply<'a> {
    /// The change that stored it; missing if the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub sequence: Option<u64>,
    pub fingerprint: Hex,
    /// `true` if the document was removed, or has expired, since the group was found; otherwise
    /// missing. Then the rest is missing or null.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub gone: Option<bool>,
    /// Null if it has none.
    pub id: Option<Cow<'a, str>>,
    /// When it was stored, in milliseconds since 1970.
    pub stored_at_ms: Option<u64>,
    /// When it expires, in seconds since 1970; missing if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub expires_at: Option<u32>,
    /// With `include=metadata`; missing if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, serde_json::Value>>, nullable = false))]
    pub metadata: Option<Cow<'a, RawValue>>,
}

impl GroupReply<'_> {
    /// The same with texts of its own.
    pub fn into_owned(self) -> GroupReply<'static> {
        GroupReply {
            namespace: self.namespace.map(|name| name.into_owned().into()),
            oldest: self.oldest.into_owned(),
            group: self.group,
            size: self.size,
        }
    }
}

impl MemberReply<'_> {
    /// The same with texts of its own.
    pub fn into_owned(self) -> MemberReply<'static> {
        MemberReply {
            id: self.id.map(|id| id.into_owned().into()),
            metadata: self.metadata.map(|json| Cow::Owned(json.into_owned())),
            sequence: self.sequence,
            fingerprint: self.fingerprint,
            gone: self.gone,
            stored_at_ms: self.stored_at_ms,
            expires_at: self.expires_at,
        }
    }
}

/// A page of the documents of a group, oldest first.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MembersReply<'a> {
    pub group: u64,
    /// How many documents the group had when it was found.
    pub size: u64,
    /// Null for the default namespace.
    pub namespace: Option<Cow<'a, str>>,
    pub documents: Vec<MemberReply<'a>>,
    /// The `after` of the next page; null on the last one.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next: Option<String>,
}
