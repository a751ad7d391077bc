//! The answers about what is stored: documents, lists of them, namespaces, and removals.

use std::borrow::Cow;

use nearprint_engine::document::{Expiry, Namespace};
use nearprint_engine::{
    ListPlace, NamespaceInfo, Original, Page, Removed, SnapshotInfo, StoredDocument, Touch,
};
use nearprint_fingerprint::{Fingerprint, Sketch};
use nearprint_text::Recipe;
use nearprint_wire::answer::{
    DocumentReply, DocumentsReply, FingerprintDocumentsReply, NamespaceReply, NamespacesReply,
    OriginalsReply, RemovedReply, SnapshotReply, as_json,
};

use crate::callers::AllowedNamespaces;

/// The maximum bytes of a namespace in an answer, if each character needs an escape.
pub const NAMESPACE_BYTES_MAX: usize = 6 * Namespace::BYTES_MAX + 64;

/// What documents show in a list in addition.
#[derive(Debug, Clone, Copy, Default)]
pub struct SelectionParts {
    /// Their metadata.
    pub metadata: bool,
    /// Their sketches.
    pub sketch: bool,
}

/// How documents are shown.
#[derive(Debug, Clone)]
pub struct Showing {
    /// What is shown in addition.
    pub parts: SelectionParts,
    /// The recipe of the service.
    pub recipe: Recipe,
    /// Who asks.
    pub reach: AllowedNamespaces,
}

/// A document in a list.
pub fn listed<'a>(stored: &'a StoredDocument, showing: &Showing) -> DocumentReply<'a> {
    let Showing { parts, recipe, reach } = showing;
    let document = &stored.document;
    let metadata = document.metadata.as_ref().filter(|_| parts.metadata);
    let sketch = document.sketch.as_deref().filter(|_| parts.sketch);
    DocumentReply {
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

/// The document with an id.
pub fn single<'a>(
    stored: &'a StoredDocument,
    touch: Option<Touch>,
    (recipe, reach): (Recipe, &AllowedNamespaces),
) -> DocumentReply<'a> {
    let parts = SelectionParts { metadata: true, sketch: false };
    let listed = listed(stored, &Showing { parts, recipe, reach: reach.clone() });
    touched(DocumentReply { recipe: Some(recipe.to_string()), ..listed }, touch)
}

/// With how often it was named as an original.
fn touched(document: DocumentReply<'_>, touch: Option<Touch>) -> DocumentReply<'_> {
    DocumentReply {
        duplicates: touch.map(|touch| touch.duplicates),
        last_duplicate_at_ms: touch.map(|touch| u64::from(touch.last_s).saturating_mul(1_000)),
        ..document
    }
}

/// The bytes of a sketch as hex digits.
fn digits(sketch: &Sketch) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let halves = sketch.to_bytes().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.filter_map(|half| DIGITS.get(usize::from(half))).collect()
}

/// A page of documents.
pub fn documents<'a>(
    page: &'a Page<StoredDocument>,
    next: Option<String>,
    showing: &Showing,
) -> DocumentsReply<'a> {
    let documents = page.items.iter().map(|stored| listed(stored, showing)).collect();
    DocumentsReply { documents, next }
}

/// A page of originals.
pub fn originals<'a>(
    page: &'a Page<Original, ListPlace>,
    next: Option<String>,
    showing: &Showing,
) -> OriginalsReply<'a> {
    let original =
        |original: &'a Original| touched(listed(&original.stored, showing), Some(original.touch));
    OriginalsReply { originals: page.items.iter().map(original).collect(), next }
}

/// A page of the documents of a fingerprint.
pub fn of_fingerprint<'a>(
    (fingerprint, namespace): (Fingerprint, Option<&'a Namespace>),
    DocumentsReply { documents, next }: DocumentsReply<'a>,
) -> FingerprintDocumentsReply<'a> {
    let namespace = namespace.map(|name| Cow::Borrowed(name.as_str()));
    FingerprintDocumentsReply { fingerprint: fingerprint.into(), namespace, documents, next }
}

/// A namespace with the number of its documents.
pub fn namespace(name: &Namespace, documents: u64) -> NamespaceReply<'_> {
    NamespaceReply { namespace: name.as_str().into(), documents }
}

/// A page of namespaces.
pub fn namespaces(
    page: &Page<NamespaceInfo>,
    next: Option<String>,
    default_documents: Option<u64>,
) -> NamespacesReply<'_> {
    let namespaces = page.items.iter().map(|info| namespace(&info.namespace, info.documents));
    NamespacesReply { namespaces: namespaces.collect(), default_documents, next }
}

/// The answer to a removal.
pub fn removed(removed: Removed, reach: &AllowedNamespaces) -> RemovedReply {
    let sequence = reach.sequence(removed.sequence);
    RemovedReply { removed: removed.documents, stored: false, sequence }
}

/// A snapshot on disk.
pub fn snapshot(snapshot: &SnapshotInfo) -> SnapshotReply {
    SnapshotReply {
        sequence: snapshot.sequence.get(),
        taken_at_ms: snapshot.taken_at_ms,
        bytes: snapshot.bytes,
        documents: snapshot.documents,
    }
}
