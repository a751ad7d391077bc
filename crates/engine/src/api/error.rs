//! What the engine reports: why a data directory does not open, and why a request is refused.

use std::io;

use nearprint_fingerprint::recipe::Recipe;
use nearprint_machine::change::NotARecord;
use nearprint_storage::StorageError;

use crate::api::clock;

/// Why a data directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The disk failed, or its files are damaged or foreign; see the source.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// The directory has files, but not the one that identifies it.
    #[error(
        "the data directory has files but no `directory` file; restore it from a copy, or choose \
         an empty directory"
    )]
    NoDirectoryFile,
    /// The directory has the file that identifies it, but no record file.
    #[error(
        "the data directory has a `directory` file but no journal file and no pack; nothing was \
         changed; next: restore an export into an empty directory (nearprint snapshot restore), or \
         choose an empty directory"
    )]
    NoRecords,
    /// A repair was interrupted. Nothing opens the directory before a repair has finished.
    #[error(
        "a repair of the data directory was not finished; next: run it again (nearprint repair)"
    )]
    RepairUnfinished,
    /// The directory was created with another maximum distance.
    #[error(
        "the data directory has distance_max = {created}, the configuration says \
         {configured}; set data.distance_max to {created} or leave it out, or change the directory: \
         nearprint reindex --distance {configured} --data DIR"
    )]
    DistanceMax {
        /// The maximum distance of the directory.
        created: u8,
        /// The one in the options.
        configured: u8,
    },
    /// The directory has labels of its texts, or has none, against the options.
    #[error(
        "the data directory has search = \"{created}\", the configuration says \"{configured}\"; set \
         data.search to \"{created}\" or leave it out, or change the directory: nearprint reindex \
         --search {configured} --data DIR"
    )]
    Search {
        /// How texts of the directory are searched.
        created: &'static str,
        /// What the options say.
        configured: &'static str,
    },
    /// The directory was created with another recipe.
    #[error(
        "the data directory has recipe = {created}, the configuration says \
         {configured}; set data.recipe to {created} or leave it out, or store the texts again in an \
         empty directory"
    )]
    Recipe {
        /// The id of the directory's recipe.
        created: String,
        /// The one in the options.
        configured: Recipe,
    },
    /// The recipe needs a model for a new directory.
    #[error(
        "a new data directory of the recipe {recipe} needs a model; make one (nearprint train \
         spectral) and name its file: data.model_file"
    )]
    NoModel {
        /// The recipe of the new directory.
        recipe: Recipe,
    },
    /// The configured model cannot be used.
    #[error("the model {file} cannot be used: {why}")]
    Model {
        /// The path in [`Options::model_file`](crate::Options::model_file).
        file: String,
        /// What is wrong with the file, for people.
        why: String,
    },
    /// The copy of the model in the directory cannot be used.
    #[error("the file `model` of the data directory cannot be used: {0}; restore it from a copy")]
    StoredModel(String),
    /// The directory was created with another model.
    #[error(
        "the data directory was created with the model {created:032x}, and data.model_file is the \
         model {configured:032x}; leave data.model_file empty, or choose an empty directory"
    )]
    OtherModel {
        /// The checksum that names the model of the directory.
        created: u128,
        /// The one in the options.
        configured: u128,
    },
    /// The journal ends before the snapshot does.
    #[error(
        "the journal ends at sequence {journal} but the newest snapshot contains {snapshot}; \
         restore the missing journal files from a copy"
    )]
    JournalTooShort {
        /// The last sequence in the journal.
        journal: u64,
        /// The last sequence in the snapshot.
        snapshot: u64,
    },
    /// The newest change was made later than the clock says.
    #[error(
        "the newest change in the data directory was made at {stored}, and the clock of this \
         machine says {clock}, which is {behind} earlier, and more than {max} is too much; \
         nothing was changed; if the clock is wrong, set it right; if the clock was wrong then, \
         start once with `nearprint serve --accept-time`, which goes on with the time of the clock: \
         documents keep the expiries that they have, and count as stored now if they were stored \
         at a later time",
        stored = clock::utc(*.stored_ms),
        clock = clock::utc(*.clock_ms),
        behind = clock::duration(stored_ms.saturating_sub(*.clock_ms)),
        max = clock::duration(*.max_ms),
    )]
    ClockBehind {
        /// When the newest change was made, in milliseconds since 1970.
        stored_ms: u64,
        /// What the clock says, in milliseconds since 1970.
        clock_ms: u64,
        /// [`Options::clock_behind_ms_max`](crate::Options::clock_behind_ms_max).
        max_ms: u64,
    },
    /// A record has the right checksum but cannot be read.
    #[error("the journal record at sequence {sequence} cannot be read by this version: {source}")]
    Record {
        /// The sequence of the first change in the record.
        sequence: u64,
        /// Which part of the record could not be decoded.
        source: NotARecord,
    },
    /// The directory follows a primary, and may lack its newest changes.
    #[error(
        "the data directory is a copy that follows {primary}, so it takes no writes; `nearprint promote` \
         makes it the primary"
    )]
    Follower {
        /// The address of the primary.
        primary: String,
    },
    /// The directory is that of a node of a cluster. What it decided alone would be in no other
    /// node.
    #[error(
        "the data directory is that of a node of a cluster, so it does not start alone, and nothing in \
         it was changed; next: start it as that node, or take another directory (--data DIR)"
    )]
    NodeOfCluster,
    /// The directory is not that of a node of a cluster.
    #[error(
        "the data directory is not that of a node of a cluster; nothing was changed; next: make it \
         the first node (nearprint cluster create), or take an empty directory, which is filled from \
         another node"
    )]
    NotANode,
    /// What an empty node was filled from is not a node.
    #[error(
        "the export has no file `cluster`, so it is not that of a node of a cluster; next: name nodes \
         of the cluster in cluster.seeds"
    )]
    SeedIsNoNode,
    /// The journal ends before the change up to which the node has read the log.
    #[error(
        "the journal ends at change {journal}, and the file `cluster` says that the log was read up to \
         change {position}; restore the missing journal files from a copy, or take an empty directory, \
         which is filled from another node"
    )]
    BehindItsPosition {
        /// The last sequence in the journal.
        journal: u64,
        /// The last sequence that was read in the log.
        position: u64,
    },
    /// The directory has documents of its own, and cannot follow another.
    #[error(
        "the data directory is neither empty nor a follower's, so it cannot hold a copy; \
         nothing was changed"
    )]
    NotAFollower,
    /// The directory is not a follower's that could become a primary.
    #[error("{why}; nothing was changed")]
    NotPromoted {
        /// The directory and what it is instead, for people.
        why: String,
    },
    /// Another environment failure, such as no random numbers or threads.
    #[error("{what}")]
    System {
        /// What failed, for people.
        what: String,
    },
}

/// Why the engine refused a request. Except for [`Self::OutcomeUnknown`] nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The write queue is full.
    #[error("the write queue is full")]
    Overloaded,
    /// The engine is closing, and takes no more writes.
    #[error("the service is stopping")]
    Stopping,
    /// A write or sync failed; the process must be restarted.
    #[error("storage failed and writes have stopped")]
    Failed,
    /// The disk has less free space than the configured reserve.
    #[error("the disk is full")]
    DiskFull,
    /// The data directory or files of it are gone, or cannot be written.
    #[error("the data directory cannot be used")]
    DirectoryUnusable,
    /// The engine follows a primary, which decides all writes.
    #[error("this is a follower; the primary takes the writes")]
    Follower,
    /// This node does not lead any more, and the write was not done.
    #[error("this node no longer leads the cluster, and the write was not done")]
    NoLeader,
    /// Whether the write is done depends on a log that this node can no longer read.
    #[error("this node cannot tell whether the write was done")]
    OutcomeUnknown,
    /// The index has reached the configured memory limit.
    #[error("the memory limit is reached")]
    MemoryFull,
    /// The clock is past the last second that an expiry can name, so the document would be gone as
    /// soon as it is stored.
    #[error("the clock is past the year 2106, in which every expiry ends")]
    ClockBeyondExpiries,
    /// A stored record could not be read or failed its checksum.
    #[error("a stored record could not be read")]
    Unreadable,
    /// A part of the index that is in a file could not be read or failed its checksum.
    #[error("a part of the index could not be read")]
    UnreadableIndex,
    /// As many jobs run or wait as may.
    #[error("{max} jobs run or wait already")]
    TooManyJobs {
        /// How many jobs may run or wait at one time.
        max: usize,
        /// These are those of the client alone, its share of all.
        is_of_owner: bool,
    },
    /// As many jobs that find groups run or wait as may.
    #[error("{max} jobs that find groups run or wait already")]
    TooManyGroups {
        /// [`Options::groups_kept_max`](crate::Options::groups_kept_max), or the share of the
        /// client.
        max: usize,
        /// These are those of the client alone.
        is_of_owner: bool,
    },
    /// The distance is above the maximum of this data directory.
    #[error("distance {asked} is above the maximum {max} of this data directory")]
    DistanceAboveMax {
        /// The distance of the request.
        asked: u8,
        /// The maximum distance of the directory.
        max: u8,
    },
}

/// The error behind one that the index met in a file.
pub(crate) fn storage_error(error: io::Error) -> StorageError {
    StorageError::from_io(error, "read", "the index")
}

impl OpenError {
    /// How a configuration names the search of a directory with or without labels.
    pub(crate) const fn name_of_search(has_labels: bool) -> &'static str {
        if has_labels { "likely" } else { "exact" }
    }
}
