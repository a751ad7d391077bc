//! What is stored: [`single`] documents by their ids, [`list`]s of documents, all of them as a
//! [`stream`], and all documents of one of the [`fingerprints`].

pub(crate) mod fingerprints;
pub(crate) mod list;
pub(crate) mod single;
mod stream;
