//! What is stored: [`single`] documents by their ids, [`list`]s of documents, all of them as a
//! [`stream`], all documents of one of the [`fingerprints`], and [`groups`] of near-duplicates, the
//! [`originals`] of many duplicates, and [`removals`] by many ids.

pub(crate) mod fingerprints;
pub(crate) mod groups;
pub(crate) mod list;
pub(crate) mod originals;
pub(crate) mod removals;
pub(crate) mod single;
mod stream;
