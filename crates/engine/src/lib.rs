//! The engine: one writer, many readers, and their background work.
//!
//! A module imports only those on lines below its own; two on one line do not know each other:
//!
//! ```text
//!   handle                 Engine: what http and cli call; async, cheap to clone
//!   threads                the writer; the threads that merge, take snapshots, reclaim space ...
//!   directories | shared   recovery, repair, reindexing | what the handle and all threads share
//!   write                  deciding commands in groups, and journaling their changes
//!   read | snapshot        look-ups, hits, pages of lists | which files a snapshot has
//!   state                  the published state, jobs, counts of originals, queues
//!   api | replication      options, replies, errors | messages of a cluster, and which count
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

#[doc(hidden)]
pub mod directory_file;

mod api;
mod directories;
mod handle;
mod read;
mod replication;
mod shared;
mod snapshot;
mod state;
mod threads;
mod write;

#[cfg(test)]
mod simulation;

pub use api::client::Client;
pub use api::error::{OpenError, Refused};
pub use api::observer::Observer;
pub use api::options::{Durability, ModelCheck, Options, SMALL_SEGMENT_MAX};
pub use api::replies::{
    DiskStats, Findings, Freeing, MemoryStats, NamespaceInfo, PackedInserted, PackedQuery, Page,
    PageOptions, QueryOptions, Readiness, RecordSpace, Removed, SegmentStats, SnapshotInfo, Stats,
    StoreOptions, StoredDocument, Written,
};
pub use handle::Engine;
pub use handle::listing::DocumentStream;
pub use nearprint_machine::commands::{Insert, Verdict};
pub use nearprint_machine::document;
pub use nearprint_machine::jobs::{JobFailure, JobState, NamespaceFilter, Purge, PurgeWork};
pub use nearprint_machine::query::{
    Criteria, Hit, HitDocument, ListPlace, OriginalsOrder, SearchKind, Touch, Verification,
};
pub use nearprint_storage::operator_file;
pub use read::found::{Checked, Found, Inserted, Shown};
pub use read::groups::{GroupInfo, GroupPage, MemberInfo};
pub use read::listing::ListQuery;
pub use read::originals::{Original, OriginalsQuery};
pub use read::previous::{Previous, PreviousUnread};
#[doc(hidden)]
pub use replication::log;
pub use snapshot::snapshots::Export;
#[doc(hidden)]
pub use snapshot::state_file::StateFile;
pub use state::jobs::{GroupsRequest, GroupsWork, Job, Work, progress_of};
pub use state::scheduler::Share;
pub use write::outbox::{Admission, Outbox};
pub use write::queued::Pending;

/// How an engine is a copy of others: a node of a cluster, or a follower.
#[doc(hidden)]
pub mod replica {
    pub use crate::state::replica::{
        FollowerOptions, LeadCounts, LogHolding, NodeOptions, NodeState, NodeStatus, OpenLog,
        RefusedEntry, ReplicaOptions,
    };
}

/// What a program needs to run a follower, or to have some.
pub mod following {
    pub use crate::directories::follower;
    pub use crate::handle::changes::{Changes, ChangesEnd};
    pub use crate::replication::primary_reader::{ChangesError, FollowerPosition, OpenChanges};
}

/// What a program needs to run nodes of a cluster.
#[doc(hidden)]
pub mod cluster {
    pub use crate::directories::{node as offline, seeding};
    pub use crate::replication::{chain, message, position};
}

/// Data directories without a service.
#[doc(hidden)]
pub mod open {
    pub use crate::directories::offline;
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
