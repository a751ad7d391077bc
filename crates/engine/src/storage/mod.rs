//! Durable bytes: payloads stored on disk under `u64` sequences.
//!
//! Knows no command, no document and no clock, and imports nothing else of this crate; the engine
//! gives payloads their meaning. There are two kinds of files: the *journal*, which grows at its
//! end and whose old files become *packs* of the records that are still needed, and *sealed files*,
//! which are written once and never changed.
//!
//! ```text
//!   Journal (one writer)      Records (many readers)      SealedWriter / SealedReader
//!        \   scan, Reclaimer      /                          /
//!         +------ frame --------+        header -----------+
//!                       \                  /
//!                        Disk (RealDisk)
//! ```
//!
//! Reading order: [`disk`], [`header`], [`journal`], [`sealed`], [`export`]. The byte diagrams are
//! in `docs/disk-format.md`.
//!
//! Promises: every byte has a checksum, which every read verifies before it decodes; recovery
//! distinguishes a torn tail from damage ([`mod@journal::recovery`]); nothing is retried after a
//! failed write or sync.
//!
//! Tested by seeded power cuts on a simulated disk (`tests/simulated`), by flipping every bit and
//! cutting at every byte of a small journal, by golden files, and by mutants that must each be
//! caught.

#![deny(clippy::indexing_slicing, reason = "lengths come from outside")]

pub(crate) mod disk;
pub(crate) mod error;
pub mod export;
pub(crate) mod header;
pub(crate) mod journal;
pub(crate) mod lock;
pub(crate) mod sealed;
pub(crate) mod sizes;

mod names;

pub(crate) use disk::reading::ReadingDisk;
pub use disk::real::RealDisk;
pub(crate) use disk::require_space;
pub use disk::{Disk, DiskFile};
pub use error::{BadFrame, Damage, MissingRecords, Refusal, StorageError};
pub use export::ExportFile;
pub use header::Identity;
pub(crate) use journal::frame::{FRAME_HEADER_BYTES, decode_header};
pub use journal::frame::{PAYLOAD_BYTES_MAX, RecordRef, StoredRecord};
pub(crate) use journal::header::JOURNAL_HEADER_BYTES;
pub use journal::reader::{Extent, Records};
pub use journal::reclaim::{Reclaimer, Sweep, SweepRange, Usage};
pub use journal::recovery::{Tail, TornTail, packed_before, scan};
pub(crate) use journal::window::FileWindow;
pub use journal::writer::Journal;
pub use lock::DirectoryLock;
pub(crate) use names::record_range;
pub use names::{FILE_NUMBER_MAX, file_number, holds_records};
pub use sealed::{FileKind, Sealed, SealedReader, SealedWriter};

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::simulated::{self, SimulatedDisk};
