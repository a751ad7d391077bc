//! The engine: one writer, many readers, and their background work.
//!
//! ```text
//!   handle       Engine: what http and cli call; async, cheap to clone
//!   read         looking up documents, verifying and showing hits; how batches share the cores
//!   write        the one thread that decides and journals commands, in groups
//!   background   the threads that build and merge segments, take snapshots and reclaim space
//!   open         recovery: newest valid snapshot + journal -> a running engine; repair; reindexing
//! ```
//!
//! A write: the handle searches the published view, takes a permit of the queue, and waits. The
//! writer decides the waiting commands as one group, appends their records, syncs once, publishes
//! the view, and acknowledges them. So nothing is acknowledged or visible that a crash could take
//! back. A read loads the published view (one atomic load, no lock) and touches the disk only for
//! hits.
//!
//! After a failed write or sync the writer stops for good, because only a restart can find out what
//! is on the disk. A full disk is noticed before anything is decided, and refuses the group.
//!
//! An [`Engine`] journals every change and recovers after a crash. With
//! [`Durability::Always`], a write is acknowledged only once it is on disk.
//!
//! ```
//! use nearprint_engine::document::Document;
//! use nearprint_engine::{Admission, Criteria, Engine, Options, QueryOptions};
//! use nearprint_fingerprint::{Distance, Fingerprint};
//! use nearprint_fingerprint::recipe::Recipe;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let engine = Engine::open(Options::new(directory.path(), Recipe::Np2))?;
//! let document = Document::bare(Fingerprint::new(0b1011));
//! engine.begin_insert(document, Admission::Wait).await?.wait().await?;
//!
//! let distance = Distance::new(3).expect("at most 64");
//! let query = Document::bare(Fingerprint::new(0));
//! let criteria = Criteria::within(distance);
//! let options = QueryOptions { criteria, limit: 10, with_metadata: false };
//! let found = engine.query(&query, options).await?;
//! assert!(found.duplicate);
//! engine.close();
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! The simulation tests drive [`mod@write::core`] directly and crash it at every point.

pub(crate) mod api;
pub(crate) mod background;
#[doc(hidden)]
pub mod cluster;
#[doc(hidden)]
pub mod directory_file;
pub(crate) mod groups;
pub(crate) mod handle;
pub(crate) mod jobs;
#[doc(hidden)]
pub mod log;
#[doc(hidden)]
pub mod open;
pub(crate) mod published;
mod random;
pub(crate) mod read;
pub(crate) mod write;

mod blocking;
mod client;
mod clock;
pub(crate) mod originals;
mod shared;

#[cfg(test)]
mod simulation;

pub use crate::background::snapshot::snapshots::Export;
#[doc(hidden)]
pub use crate::background::snapshot::state_file::StateFile;
pub use crate::client::Client;
pub use crate::groups::pages::{GroupInfo, GroupPage, MemberInfo};
pub use crate::handle::listing::DocumentStream;
pub use crate::jobs::{GroupsRequest, GroupsWork, Job, Work, progress_of};
pub use crate::originals::query::{Original, OriginalsQuery};
pub use crate::read::found::{Checked, Found, Inserted, Shown};
pub use crate::read::listing::ListQuery;
pub use crate::read::previous::{Previous, PreviousUnread};
pub use crate::read::scheduler::Share;
pub use crate::write::queued::Pending;
pub use api::error::{OpenError, Refused};
pub use api::observer::Observer;
pub use api::options::{Durability, ModelCheck, Options, SMALL_SEGMENT_MAX};
pub use api::replies::{
    Admission, DiskStats, Findings, Freeing, MemoryStats, NamespaceInfo, PackedInserted,
    PackedQuery, Page, PageOptions, QueryOptions, Readiness, RecordSpace, Removed, SegmentStats,
    SnapshotInfo, Stats, StoreOptions, StoredDocument, Written,
};
pub use handle::{Engine, following};
pub use nearprint_machine::commands::{Insert, Verdict};
pub use nearprint_machine::document;
pub use nearprint_machine::jobs::{JobFailure, JobState, NamespaceFilter, Purge, PurgeWork};
pub use nearprint_machine::query::{
    Criteria, Hit, HitDocument, ListPlace, OriginalsOrder, SearchKind, Touch, Verification,
};
pub use nearprint_storage::operator_file;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
