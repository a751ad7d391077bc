//! Bytes that survive: byte payloads kept on disk under `u64` sequences.
//!
//! `storage` knows no command, no document and no clock. It imports nothing of this crate; what a
//! payload means is the business of the floors above. It keeps two kinds of files: the *journal*,
//! which grows at its end and whose old files become *packs* of what is still needed, and *sealed
//! files*, which are written once and never changed.
//!
//! ```text
//!   Journal (one writer)      Records (many readers)      SealedWriter / SealedReader
//!        \   scan, Reclaimer      /                          /
//!         +------ frame --------+        header -----------+
//!                       \                  /
//!                        Disk (RealDisk or SimulatedDisk)
//! ```
//!
//! Reading order: [`disk`], [`header`], [`journal`] (in it `frame`, `records`, `scan`, `continuity`, `pack`,
//! `reclaim`), [`sealed`].
//! The byte diagrams are in `docs/disk-format.md`.
//!
//! Promises: every byte is checksummed and checked before it is decoded, on every read; a torn
//! tail is told from damage ([`mod@journal::scan`]); nothing is retried after a failed write or sync.
//!
//! Tested by seeded power cuts on [`SimulatedDisk`], by flipping every bit and cutting at every
//! byte of a small journal, by golden files, and by mutants that each must be caught.

#![deny(clippy::indexing_slicing, reason = "lengths come from outside")]

pub mod disk;
pub mod error;
pub mod export;
pub mod header;
pub mod journal;
pub mod lock;
pub mod sealed;

mod names;

pub use crate::storage::disk::real::RealDisk;
pub use crate::storage::disk::simulated::SimulatedDisk;
pub use crate::storage::journal::frame::PAYLOAD_BYTES_MAX;
pub use crate::storage::journal::reclaim::{Reclaimer, Sweep, SweepRange, Usage};
pub use crate::storage::journal::records::{Extent, Record, Records};
pub use crate::storage::journal::scan::{RecordRef, Tail, TornTail, packed_before, scan};
pub use disk::{Disk, DiskFile};
pub use error::{Damage, MissingRecords, Refusal, StorageError};
pub use header::Identity;
pub use journal::{Journal, JournalOptions};
pub use lock::DirectoryLock;
pub use names::{FILE_NUMBER_MAX, file_number, holds_records};
pub use sealed::{FileKind, Sealed, SealedReader, SealedWriter};

#[cfg(test)]
mod tests;
