//! Whether the documents of a view read as they were stored.

use nearprint_index::view::{Expired, Selection, View};

use crate::document::{Document, Sequence};
use crate::machine::model::Model;
use crate::read::reader;
use crate::storage::Records;

/// Checks that every document with a record of its own reads as it was stored.
pub(super) fn check_stored(view: &View, records: &Records, model: &Model) -> Result<(), String> {
    let all = Selection {
        namespace: None,
        after: Sequence::ZERO,
        upto: view.sequence(),
        expired: Expired::Any,
    };
    let listed: Vec<_> = view.list(all, 1 << 20).iter().map(|l| l.posting.sequence).collect();
    for (sequence, document) in model.documents() {
        if listed.contains(sequence) && has_record(document) {
            let stored = reader::stored(records, *sequence);
            if stored.as_ref().map(|stored| &stored.document) != Ok(document) {
                return Err(format!("document {sequence} reads as {stored:?}"));
            }
        }
    }
    Ok(())
}

/// Whether a document is more than a fingerprint, so that its record shows something.
pub(super) fn has_record(document: &Document) -> bool {
    document.id.is_some() || document.sketch.is_some() || document.metadata.is_some()
}
