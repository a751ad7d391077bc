//! The read path: looks up documents in a published view, verifies the matches, shows the hits; and
//! fills pages of documents, namespaces, originals and groups.

pub(crate) mod found;
pub(crate) mod groups;
pub(crate) mod listing;
pub(crate) mod originals;
pub(crate) mod page;
pub(crate) mod previous;
pub(crate) mod reader;
