//! Durable bytes: payloads stored on disk under `u64` sequences.
//!
//! Knows no command, no document and no clock; whoever writes the payloads gives them their
//! meaning. There are two kinds of files: the *journal*, which grows at its end and whose old files
//! become *packs* of the records that are still needed, and *sealed files*, which are written once
//! and never changed.
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
//! [`operator_file`] reads files outside a data directory: those that a configuration names.
//!
//! Promises: every byte has a checksum, which every read verifies before it decodes; recovery
//! distinguishes a torn tail from damage ([`mod@journal::recovery`]); nothing is retried after a
//! failed write or sync.
//!
//! Tested by seeded power cuts on a simulated disk (`simulated`), by flipping every bit and
//! cutting at every byte of a small journal, by golden files, and by mutants that must each be
//! caught.

#![deny(clippy::indexing_slicing, reason = "lengths come from outside")]
#![allow(missing_docs, reason = "what is public for the engine, and said by its name")]

pub(crate) mod disk;
pub(crate) mod error;
pub mod export;
pub mod frame;
pub(crate) mod header;
pub mod journal;
pub(crate) mod lock;
pub mod operator_file;
pub mod sealed;
pub mod sizes;
pub mod window;

mod names;

pub use disk::reading::ReadingDisk;
pub use disk::real::RealDisk;
pub use disk::{Disk, DiskFile, ExportFile, require_space};
pub use error::{BadFrame, Damage, FileRefusal, MissingRecords, StorageError, is_out_of_files};
pub use frame::{FRAME_HEADER_BYTES, PAYLOAD_BYTES_MAX, RecordRef, StoredRecord, decode_header};
pub use header::Identity;
pub use journal::header::JOURNAL_HEADER_BYTES;
pub use journal::reader::{Extent, Records};
pub use journal::reclaim::{Reclaimer, Sweep, SweepRange, Usage};
pub use journal::recovery::{Tail, TornTail, packed_before, scan};
pub use journal::writer::Journal;
pub use lock::DirectoryLock;
pub use names::{FILE_NUMBER_MAX, file_number, holds_records, record_range};
pub use sealed::pages::SealedPages;
pub use sealed::{BodyLayout, FileKind, Sealed, SealedReader, SealedWriter};
pub use window::FileWindow;

#[cfg(any(test, feature = "simulated"))]
pub mod simulated;
#[cfg(any(test, feature = "simulated"))]
pub use simulated::SimulatedDisk;

#[cfg(test)]
mod tests;
