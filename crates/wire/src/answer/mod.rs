//! Answers: what the service says of documents, in the shapes that its JSON has. Names end in
//! `Reply`, as the OpenAPI document has them.

#![expect(missing_docs, reason = "a field without words has a name that says it")]

mod agreement;
mod compare;
mod documents;
mod explained;
mod groups;
mod hex;
mod jobs;
mod look_up;
mod operations;
mod problem;
mod read;

pub use agreement::{
    Agreement, Least, SIMILARITY_UNITS, numbers_differ, numbers_shown, similarity,
};
pub use compare::{CompareReply, ComparedReply, FoundByReply, KeptApartByReply};
pub use documents::{
    DocumentReply, DocumentsReply, FingerprintDocumentsReply, NamespaceReply, NamespacesReply,
    OriginalsReply, RemovedReply, as_json,
};
pub use explained::{
    BitReply, ComparisonExplanationReply, DecidingFeatureReply, DifferingBitReply,
    ExplanationReply, HeavyFeatureReply, differing_bits,
};
pub use groups::{GroupReply, GroupsReply, MemberReply, MembersReply};
pub use hex::Hex;
pub use jobs::{JobReply, JobsReply, State};
pub use look_up::{
    CheckAndInsertReply, FingerprintReply, HitDocumentReply, HitReply, InsertReply, Outcome,
    PackedInsertReply, PreviousReply, QueryReply,
};
pub use operations::{HealthReply, SnapshotReply, SnapshotsReply, StandsBackReply};
pub use problem::ProblemReply;
pub use read::Answer;
