//! What is stored: documents, lists of them, namespaces, and removals.

use std::borrow::Cow;

use nearprint_machine::document::Metadata;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::hex::Hex;

/// A stored document.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DocumentReply<'a> {
    /// Null for the default namespace.
    pub namespace: Option<Cow<'a, str>>,
    /// Null if it has none.
    pub id: Option<Cow<'a, str>>,
    pub fingerprint: Hex,
    /// In the reply for a single document, and in lists with `include=sketch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub recipe: Option<String>,
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub short: bool,
    /// It came as text, so hits on it are verified.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required))]
    pub verifiable: bool,
    /// The change that stored it; missing if the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub sequence: Option<u64>,
    /// When it was stored, in milliseconds since 1970.
    pub stored_at_ms: u64,
    /// When it expires, in seconds since 1970; missing if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub expires_at: Option<u32>,
    /// Missing if it has none; in lists with `include=metadata`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<BTreeMap<String, serde_json::Value>>, nullable = false))]
    pub metadata: Option<Cow<'a, RawValue>>,
    /// How often a check-and-insert named it as the original of a duplicate; in the reply for a
    /// single document and in `/v1/originals`, missing if never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub duplicates: Option<u32>,
    /// When it was last named so, in milliseconds since 1970, to the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub last_duplicate_at_ms: Option<u64>,
    /// In lists with `include=sketch`; missing if the document came without text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false, pattern = "^[0-9a-f]{312}$"))]
    pub sketch: Option<String>,
}

/// A page of documents, oldest first.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DocumentsReply<'a> {
    pub documents: Vec<DocumentReply<'a>>,
    /// The `after` of the next page; null on the last one. A page may have fewer documents than
    /// `limit` although more follow.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next: Option<String>,
}

/// A page of the documents that were named as originals.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OriginalsReply<'a> {
    pub originals: Vec<DocumentReply<'a>>,
    /// The `after` of the next page; null on the last one. The counts go on between two pages.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next: Option<String>,
}

/// A page of the documents of a fingerprint, oldest first.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FingerprintDocumentsReply<'a> {
    pub fingerprint: Hex,
    /// Null for the default namespace.
    pub namespace: Option<Cow<'a, str>>,
    pub documents: Vec<DocumentReply<'a>>,
    /// The `after` of the next page; null on the last one.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next: Option<String>,
}

/// A page of the namespaces that have documents, in the order in which they began.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NamespacesReply<'a> {
    pub namespaces: Vec<NamespaceReply<'a>>,
    /// The number of documents in the default namespace; null if the token does not reach it.
    pub default_documents: Option<u64>,
    /// The `after` of the next page; null on the last one.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub next: Option<String>,
}

/// A namespace.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NamespaceReply<'a> {
    pub namespace: Cow<'a, str>,
    /// The number of its documents, including those that have expired and are not removed yet.
    pub documents: u64,
}

/// The reply of a removal. Removing what is not stored succeeds with `"removed": 0`, so that a
/// removal may be retried.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RemovedReply {
    /// How many documents were removed.
    pub removed: u64,
    /// Always false.
    pub stored: bool,
    /// The number of the change; if nothing was stored, that of the last change before. Missing if
    /// the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(nullable = false))]
    pub sequence: Option<u64>,
}

/// Metadata as it was sent.
pub fn as_json(metadata: &Metadata) -> Option<Cow<'_, RawValue>> {
    // It was parsed before it was stored.
    serde_json::from_str(metadata.as_str()).ok().map(Cow::Borrowed)
}
