//! How many bytes documents take in a reply, and how many of them a page takes.

use nearprint_fingerprint::Sketch;
use nearprint_machine::document::{Document, DocumentId, Metadata, Namespace};

use crate::api::replies::PageOptions;

/// The most bytes of a page apart from its documents.
const ENVELOPE: usize = 4 << 10;

/// The most bytes of a document in a list, apart from its strings: its numbers, and the names of
/// its fields.
const FIELDS: usize = 272;

/// The most bytes of the strings of a document. A control character takes six bytes in JSON.
pub(crate) fn string_bytes(
    id: Option<&DocumentId>,
    namespace: Option<&Namespace>,
    metadata: Option<&Metadata>,
) -> usize {
    let names = [id.map(DocumentId::as_str), namespace.map(Namespace::as_str)];
    let escaped = names.into_iter().flatten().flat_map(str::bytes).map(|byte| match byte {
        0..0x20 => 6,
        b'"' | b'\\' => 2,
        _ => 1,
    });
    escaped.sum::<usize>() + metadata.map_or(0, |metadata| metadata.as_str().len())
}

/// The space of a page that is being filled.
pub(crate) struct PageSpace {
    options: PageOptions,
    documents: usize,
    bytes: usize,
}

impl PageSpace {
    /// An empty page.
    pub(crate) const fn new(options: PageOptions) -> Self {
        Self { options, documents: 0, bytes: ENVELOPE }
    }

    /// Whether it has as many documents as it may.
    pub(crate) const fn is_full(&self) -> bool {
        self.documents == self.options.limit
    }

    /// How many more documents it may have.
    pub(crate) const fn room(&self) -> usize {
        self.options.limit - self.documents
    }

    /// Whether the page takes a document, which loses its metadata if the page does not show them;
    /// `None` is one that is gone. The first is taken whatever its size.
    pub(crate) fn takes(&mut self, document: Option<&mut Document>) -> bool {
        // The group of a document that is gone shows its namespace.
        let strings = document.map_or(6 * Namespace::BYTES_MAX, |document| {
            document.metadata = document.metadata.take().filter(|_| self.options.with_metadata);
            let Document { id, namespace, metadata, sketch, .. } = document;
            let sketch = sketch.as_ref().map_or(0, |_| 2 * Sketch::BYTES);
            string_bytes(id.as_ref(), namespace.as_ref(), metadata.as_ref()) + sketch
        });
        let bytes = self.bytes + FIELDS + strings;
        let fits = bytes <= self.options.bytes_max || self.documents == 0;
        if self.is_full() || !fits {
            return false;
        }
        (self.bytes, self.documents) = (bytes, self.documents + 1);
        true
    }
}
