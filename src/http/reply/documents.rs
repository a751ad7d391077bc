//! The JSON of what is stored: documents, lists of them, namespaces, and removals.

use std::borrow::Cow;

use nearprint_engine::document::{Expiry, Metadata, Namespace};
use nearprint_engine::{ListPlace, NamespaceInfo, Original, Page, Removed, StoredDocument, Touch};
use nearprint_fingerprint::{Fingerprint, Sketch};
use nearprint_text::Recipe;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::http::reply::hex::Hex;
use crate::http::request::reach::NamespaceAccess;
use crate::http::request::selection::SelectionParts;

/// A stored document.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct DocumentReply<'a> {
    /// Null for the default namespace.
    pub(crate) namespace: Option<Cow<'a, str>>,
    /// Null if it has none.
    pub(crate) id: Option<Cow<'a, str>>,
    pub(crate) fingerprint: Hex,
    /// In the reply for a single document, and in lists with `include=sketch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) recipe: Option<String>,
    pub(crate) short: bool,
    /// It came as text, so hits on it are verified.
    pub(crate) verifiable: bool,
    /// The change that stored it; missing if the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    sequence: Option<u64>,
    /// When it was stored, in milliseconds since 1970.
    pub(crate) stored_at_ms: u64,
    /// When it expires, in seconds since 1970; missing if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) expires_at: Option<u32>,
    /// Missing if it has none; in lists with `include=metadata`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, serde_json::Value>>, nullable = false)]
    pub(crate) metadata: Option<Cow<'a, RawValue>>,
    /// How often a check-and-insert named it as the original of a duplicate; in the reply for a
    /// single document and in `/v1/originals`, missing if never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) duplicates: Option<u32>,
    /// When last, in milliseconds since 1970, to the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub(crate) last_duplicate_at_ms: Option<u64>,
    /// In lists with `include=sketch`; missing if the document came without text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, pattern = "^[0-9a-f]{312}$")]
    sketch: Option<String>,
}

/// How documents are shown.
#[derive(Debug, Clone)]
pub(crate) struct Showing {
    pub(crate) parts: SelectionParts,
    pub(crate) recipe: Recipe,
    pub(crate) reach: NamespaceAccess,
}

impl<'a> DocumentReply<'a> {
    /// A document in a list.
    pub(crate) fn listed(stored: &'a StoredDocument, showing: &Showing) -> Self {
        let Showing { parts, recipe, reach } = showing;
        let document = &stored.document;
        let metadata = document.metadata.as_ref().filter(|_| parts.metadata);
        let sketch = document.sketch.as_deref().filter(|_| parts.sketch);
        Self {
            namespace: document.namespace.as_ref().map(|name| name.as_str().into()),
            id: document.id.as_ref().map(|id| id.as_str().into()),
            fingerprint: document.fingerprint.into(),
            recipe: parts.sketch.then(|| recipe.to_string()),
            short: document.short,
            verifiable: document.sketch.is_some(),
            sequence: reach.sequence(stored.sequence),
            stored_at_ms: stored.stored_at_ms,
            expires_at: document.expiry.map(Expiry::second),
            metadata: metadata.and_then(as_json),
            duplicates: None,
            last_duplicate_at_ms: None,
            sketch: sketch.map(digits),
        }
    }

    /// With how often it was named as an original.
    pub(crate) fn touched(mut self, touch: Option<Touch>) -> Self {
        self.duplicates = touch.map(|touch| touch.duplicates);
        self.last_duplicate_at_ms =
            touch.map(|touch| u64::from(touch.last_s).saturating_mul(1_000));
        self
    }

    /// The document with an id.
    pub(crate) fn single(
        stored: &'a StoredDocument,
        recipe: Recipe,
        reach: NamespaceAccess,
    ) -> Self {
        let parts = SelectionParts { metadata: true, sketch: false };
        let listed = Self::listed(stored, &Showing { parts, recipe, reach });
        Self { recipe: Some(recipe.to_string()), ..listed }
    }
}

/// Metadata as it was sent.
pub(crate) fn as_json(metadata: &Metadata) -> Option<Cow<'_, RawValue>> {
    // It was parsed before it was stored.
    serde_json::from_str(metadata.as_str()).ok().map(Cow::Borrowed)
}

/// The bytes of a sketch as hex digits.
fn digits(sketch: &Sketch) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let halves = sketch.to_bytes().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.filter_map(|half| DIGITS.get(usize::from(half))).collect()
}

/// A page of documents, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DocumentsReply<'a> {
    documents: Vec<DocumentReply<'a>>,
    /// The `after` of the next page; null on the last one. A page may have fewer documents than
    /// `limit` although more follow.
    #[schema(required)]
    next: Option<String>,
}

impl<'a> DocumentsReply<'a> {
    pub(crate) fn new(
        page: &'a Page<StoredDocument>,
        showing: &Showing,
        next: Option<String>,
    ) -> Self {
        let listed = |stored| DocumentReply::listed(stored, showing);
        Self { documents: page.items.iter().map(listed).collect(), next }
    }
}

/// A page of the documents that were named as originals.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct OriginalsReply<'a> {
    originals: Vec<DocumentReply<'a>>,
    /// The `after` of the next page; null on the last one. The counts go on between two pages.
    #[schema(required)]
    next: Option<String>,
}

impl<'a> OriginalsReply<'a> {
    pub(crate) fn new(
        page: &'a Page<Original, ListPlace>,
        showing: &Showing,
        next: Option<String>,
    ) -> Self {
        let touched = |original: &'a Original| {
            DocumentReply::listed(&original.stored, showing).touched(Some(original.touch))
        };
        Self { originals: page.items.iter().map(touched).collect(), next }
    }
}

/// A page of the documents of a fingerprint, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FingerprintDocumentsReply<'a> {
    fingerprint: Hex,
    /// Null for the default namespace.
    namespace: Option<&'a str>,
    documents: Vec<DocumentReply<'a>>,
    /// The `after` of the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

impl<'a> FingerprintDocumentsReply<'a> {
    pub(crate) fn new(
        fingerprint: Fingerprint,
        namespace: Option<&'a Namespace>,
        DocumentsReply { documents, next }: DocumentsReply<'a>,
    ) -> Self {
        let namespace = namespace.map(Namespace::as_str);
        Self { fingerprint: fingerprint.into(), namespace, documents, next }
    }
}

/// A page of the namespaces that have documents, in the order in which they began.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NamespacesReply<'a> {
    namespaces: Vec<NamespaceReply<'a>>,
    /// The number of documents in the default namespace; null if the token does not reach it.
    default_documents: Option<u64>,
    /// The `after` of the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

/// A namespace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NamespaceReply<'a> {
    namespace: &'a str,
    /// The number of its documents, including those that have expired and are not removed yet.
    documents: u64,
}

impl<'a> NamespaceReply<'a> {
    pub(crate) const fn new(namespace: &'a str, documents: u64) -> Self {
        Self { namespace, documents }
    }
}

impl<'a> NamespacesReply<'a> {
    /// The maximum bytes of a namespace in a reply, if each character needs an escape.
    pub(crate) const BYTES_EACH: usize = 6 * Namespace::BYTES_MAX + 64;

    pub(crate) fn new(
        page: &'a Page<NamespaceInfo>,
        default_documents: Option<u64>,
        next: Option<String>,
    ) -> Self {
        let namespaces = page
            .items
            .iter()
            .map(|info| NamespaceReply::new(info.namespace.as_str(), info.documents));
        Self { namespaces: namespaces.collect(), default_documents, next }
    }
}

/// The reply of a removal. Removing what is not stored succeeds with `"removed": 0`, so that a
/// removal may be retried.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RemovedReply {
    /// How many documents were removed.
    removed: u64,
    /// Always false.
    stored: bool,
    /// The number of the change; if nothing was stored, that of the last change before. Missing if
    /// the token is limited to namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    sequence: Option<u64>,
}

impl RemovedReply {
    pub(crate) fn new(removed: Removed, reach: &NamespaceAccess) -> Self {
        let sequence = reach.sequence(removed.sequence);
        Self { removed: removed.documents, stored: false, sequence }
    }
}
