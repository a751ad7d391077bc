//! What the engine reports: why a data directory does not open, and why a request is refused.

use crate::machine::change::NotARecord;
use crate::recipe::Recipe;
use crate::storage::StorageError;

/// Why a data directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The disk failed, or what is on it is damaged or foreign; the source says which.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// There are files, but not the one that says what they are.
    #[error(
        "the data directory has files but no `directory` file; restore it from a copy, or choose \
         an empty directory"
    )]
    NoDirectoryFile,
    /// There is the file that says whose records these are, but no record file.
    #[error(
        "the data directory has a `directory` file but no journal file and no pack; nothing was changed; \
         next: restore an export into an empty directory (nearprint snapshot restore), or choose an \
         empty directory"
    )]
    NoRecords,
    /// A repair was cut short; what it would have done is not known to a service.
    #[error(
        "a repair of the data directory was not finished; next: run it again (nearprint repair)"
    )]
    RepairUnfinished,
    /// The directory was created for another largest distance.
    #[error(
        "the data directory was created with distance_max = {created}, the configuration says \
         {configured}; set data.distance_max to {created}, or choose an empty directory"
    )]
    DistanceMax {
        /// That of the directory.
        created: u8,
        /// That of the options.
        configured: u8,
    },
    /// The directory holds fingerprints of another recipe.
    #[error(
        "the data directory was created with recipe = {created}, the configuration says {configured}; \
         set data.recipe to {created}, or choose an empty directory"
    )]
    Recipe {
        /// That of the directory.
        created: String,
        /// That of the options.
        configured: Recipe,
    },
    /// The journal ends before the snapshot does.
    #[error(
        "the journal ends at sequence {journal} but the newest snapshot contains {snapshot}; \
         restore the missing journal files from a copy"
    )]
    JournalTooShort {
        /// The journal's last sequence.
        journal: u64,
        /// The snapshot's.
        snapshot: u64,
    },
    /// A record passed its checksum but cannot be read.
    #[error("the journal record at sequence {sequence} cannot be read by this version: {source}")]
    Record {
        /// Its first change.
        sequence: u64,
        /// Why.
        source: NotARecord,
    },
    /// Another environment failure, such as no random numbers or threads.
    #[error("{what}")]
    System {
        /// What failed.
        what: String,
    },
}

/// Why the engine did not do what was asked. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The write queue is full.
    #[error("the write queue is full")]
    Overloaded,
    /// The engine is stopping.
    #[error("the service is stopping")]
    Stopping,
    /// A write or sync failed; the process must be restarted.
    #[error("storage failed and writes have stopped")]
    Failed,
    /// The disk has less room than the configured reserve.
    #[error("the disk is full")]
    DiskFull,
    /// The index has reached the configured memory limit.
    #[error("the memory limit is reached")]
    MemoryFull,
    /// A stored record could not be read or failed its checksum.
    #[error("a stored record could not be read")]
    Unreadable,
    /// The distance is above the maximum of this data directory.
    #[error("distance {asked} is above the maximum {max} of this data directory")]
    DistanceAboveMax {
        /// What was asked.
        asked: u8,
        /// What the directory was created with.
        max: u8,
    },
}
