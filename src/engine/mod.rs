//! The engine: one writer, many readers, and the work behind them.
//!
//! ```text
//!   handle      Engine: what http and cli call; async, cheap to clone
//!     finder    a reader's work: search, verify, show
//!     found     what it found, until there is room for the ids
//!     lookups   how the look-ups of batches share the cores
//!     writer    the one thread that decides and journals, in groups
//!       core    decide a group, append, sync: synchronous, no thread, no clock
//!     flusher   a background thread: deltas to segments
//!     keeper    background threads: merges, snapshots
//!     reclaim   a background thread: the space of records that nobody needs (needed)
//!     spawn     starts these threads; a panic in one fails the engine
//!   recovery    newest valid snapshot + journal -> core
//!   snapshots, directory   the files beside the journal
//! ```
//!
//! A write: the handle searches the published view, takes a place in the queue, and waits; the
//! writer decides the commands that wait as one group, appends their records, syncs once,
//! publishes the view, answers. So nothing is answered or visible that a crash could take back. A
//! read loads the published view (one atomic load, no lock) and touches the disk only for hits.
//!
//! After a failed write or sync the writer stops for good: what the disk holds is known only to a
//! fresh start. A full disk is met before anything is decided and only refuses.
//!
//! [`core`] is driven directly by the simulation tests, which crash it at every point.

pub mod answers;
pub mod clock;
pub mod core;
pub mod directory;
pub mod finder;
pub mod found;
pub mod handle;
pub mod needed;
pub mod offline;
pub mod options;
pub mod published;
pub mod reclaim;
pub mod recovery;
pub mod repair;
pub mod snapshots;

mod blocking;
mod flusher;
mod keeper;
mod lookups;
mod pause;
mod shared;
mod sizes;
mod spawn;
mod stats;
mod writer;

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod threads;

pub use answers::{
    Admission, Findings, MemoryStats, PackedInserted, QueryOptions, Readiness, Refused, Removed,
    SegmentStats, SnapshotInfo, Stats, StoredDocument, WriteOutcome, Written,
};
pub use found::{Checked, Found, Shown};
pub use handle::{Engine, Pending};
pub use lookups::Share;
pub use options::{Durability, Options, SMALL_SEGMENT_MAX};
pub use recovery::OpenError;
pub use snapshots::Export;
