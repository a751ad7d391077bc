//! What the engine says, as it travels.

mod documents;
mod groups;
mod jobs;
mod look_up;

pub use documents::{
    NAMESPACE_BYTES_MAX, SelectionParts, Showing, documents, listed, namespace, namespaces,
    of_fingerprint, originals, removed, single, snapshot,
};
pub use groups::{groups, members};
pub use jobs::job;
pub use look_up::{Subject, check_and_insert, fingerprint, insert, previous, query};
