//! What is looked up.

use nearprint_fingerprint::Sketch;
use nearprint_index::id_key::IdKey;
use nearprint_index::namespace_key::NamespaceKey;
use nearprint_index::view::View;
use nearprint_index::visibility::Visibility;

use crate::document::Document;
use crate::query::{Criteria, SearchKind};

/// A document to look up.
#[derive(Debug, Clone, Copy)]
pub struct Probe<'a> {
    pub document: &'a Document,
    /// The key of its id: the stored document with this id is not a match.
    pub key: Option<IdKey>,
    pub namespace: Option<NamespaceKey>,
    /// What counts as a near-duplicate.
    pub criteria: Criteria,
    /// When it is looked up, in milliseconds since 1970.
    pub at_ms: u64,
}

impl<'a> Probe<'a> {
    /// The probe of a document, in a directory with this secret.
    pub fn new(document: &'a Document, criteria: Criteria, at_ms: u64, secret: &[u8; 16]) -> Self {
        let namespace = document.namespace.as_ref();
        let key = document.id.as_ref().map(|id| IdKey::of(id.as_str(), namespace, secret));
        let namespace = namespace.map(|namespace| NamespaceKey::of(namespace, secret));
        Self { document, key, namespace, criteria, at_ms }
    }

    pub(super) fn visibility(&self, view: &View) -> Visibility {
        view.visibility(self.namespace, self.at_ms, self.criteria.max_age_s)
    }

    /// The sketch for a likely search, if the probe wants one and has a sketch. Without a sketch,
    /// nothing that a likely search finds could be confirmed.
    pub(super) fn likely(&self) -> Option<&'a Sketch> {
        let Criteria { search, threshold, .. } = self.criteria;
        let sketch = self.document.sketch.as_deref()?;
        (search == SearchKind::Likely && threshold.is_some()).then_some(sketch)
    }
}
