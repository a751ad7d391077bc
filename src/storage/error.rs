//! What can go wrong on a disk, with the facts an operator needs: path, operation, offset,
//! sequence. The doc of each variant says what the operator does.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A fault of the disk or of the bytes on it.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The operating system refused an operation. When [`StorageError::is_full`]: make room. Else
    /// look at the disk (`dmesg`, SMART) and the permissions of the path, then restart.
    #[error("cannot {operation} {path}", path = path.display())]
    Io {
        /// What was tried, as a verb: "open", "write", "sync".
        operation: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The answer of the operating system.
        #[source]
        source: io::Error,
    },
    /// Another process has the directory. Stop it, or give this one a directory of its own.
    #[error("{path} is in use by another process", path = path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// Something else has the name of a data file. A link is not followed, since nobody can tell what
    /// becomes of its target. Nothing was changed. Put the file itself in its place.
    #[error(
        "{path} is {what}, not a file; nothing was changed; next: put the file itself in its place",
        path = path.display()
    )]
    NotAFile {
        /// Its path.
        path: PathBuf,
        /// What it is, with its article.
        what: &'static str,
    },
    /// Bytes that were durable are not what was written. Nothing was changed. Restore a snapshot
    /// or a copy of the named file; cutting it here would lose acknowledged records.
    #[error(
        "{file} is damaged at offset {offset} (sequence {sequence}): {why}; nothing was changed; \
         next: restore an export (nearprint snapshot restore), or see what a repair would lose \
         (nearprint repair)"
    )]
    Damaged {
        /// The file, by its name in the data directory.
        file: String,
        /// Where in the file the damage begins, in bytes.
        offset: u64,
        /// The first sequence that cannot be read.
        sequence: u64,
        /// What does not hold.
        why: Damage,
    },
    /// A journal file or a pack is missing. Nothing was changed. Put the file back from a copy, or
    /// restore an export.
    #[error(
        "{0}; nothing was changed; next: put the missing file back from a copy, restore an export \
         (nearprint snapshot restore), or see what a repair would lose (nearprint repair)"
    )]
    Missing(MissingRecords),
    /// A sealed file is not what was written. Nothing was changed. Derived files are rebuilt and an
    /// older snapshot is used by the floor above; when that says it cannot, restore a copy.
    #[error("{file} is damaged at offset {offset}: {why}")]
    DamagedSealed {
        /// The file, by its name in the data directory.
        file: String,
        /// The beginning of the block, or of the trailer, in bytes.
        offset: u64,
        /// What does not hold.
        why: Damage,
    },
    /// The file is intact but not for this directory, recipe, version or use. Nothing was changed.
    /// Remove the foreign file, or start the version or the recipe that wrote it.
    #[error("{file} is refused: {why}")]
    Refused {
        /// The file, by its name in the data directory.
        file: String,
        /// Why.
        why: Refusal,
    },
    /// No record under this sequence: it was never written, or not flushed yet. A bug of the
    /// caller, or a snapshot that does not belong to this journal.
    #[error("the journal has no record of sequence {sequence} (it ends at {last})")]
    NoRecord {
        /// The sequence asked for.
        sequence: u64,
        /// The last readable one.
        last: u64,
    },
    /// The record under this sequence is no longer needed and its space was given back. A reader
    /// with an old state has not pinned the records of that state.
    #[error("the record of sequence {sequence} was given back")]
    Reclaimed {
        /// The sequence asked for.
        sequence: u64,
    },
    /// The payload is above [`super::PAYLOAD_BYTES_MAX`]. Nothing was written; the caller's limits
    /// are wrong.
    #[error("a payload of {bytes} bytes is above the limit of the journal")]
    PayloadTooLarge {
        /// Its length.
        bytes: usize,
    },
    /// A write or sync failed before; writes have stopped for good. Restart: recovery starts from
    /// what the disk really holds.
    #[error("the journal stopped after a failed write or sync ({first})")]
    Poisoned {
        /// The message of the first failure.
        first: String,
    },
}

/// Sequences without a file that holds their records or stands for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRecords {
    /// The first of them.
    pub first: u64,
    /// The last of them, where something says how far the records went.
    pub last: Option<u64>,
    /// The file behind them, if there is one.
    pub followed_by: Option<String>,
}

impl fmt::Display for MissingRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some(last) => {
                write!(f, "no file holds the records of sequences {} to {last}", self.first)?;
            }
            None => write!(f, "no file holds the records from sequence {} on", self.first)?,
        }
        match &self.followed_by {
            Some(name) => write!(f, " (the next file is {name})"),
            None => Ok(()),
        }
    }
}

/// What does not hold in a damaged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A file header is short or fails its checksum.
    #[error("the file header fails its checksum")]
    FileHeader,
    /// The header says another first sequence than the file name.
    #[error("the file name and the file header disagree")]
    FileName,
    /// The bytes at this place are no frame although later bytes say that one was durable here.
    #[error("no valid frame where a durable one was ({0})")]
    Frame(#[from] crate::storage::journal::frame::BadFrame),
    /// The frame is intact but does not continue the one before it.
    #[error("the frame does not continue the one before it")]
    Chain,
    /// The journal ends before this sequence, which was durable.
    #[error("the journal ends here although this sequence was durable")]
    EndsEarly,
    /// The records behind a snapshot were packed since: it cannot be continued.
    #[error("records behind this sequence were given back since")]
    Reclaimed,
    /// The number of changes in a pack's header is not that of its records.
    #[error("the header and the records disagree")]
    Changes,
    /// A block of a sealed file fails its checksum.
    #[error("the block fails its checksum")]
    Block,
    /// The trailer of a sealed file fails its checksum, or its length is not the file's.
    #[error("the trailer does not fit the file (cut, extended or overwritten)")]
    Trailer,
    /// The blocks of a sealed file are each intact but are not the ones written together.
    #[error("the whole fails its checksum")]
    Whole,
}

/// Why an intact file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not a file of this kind of storage at all.
    #[error("it does not begin with the expected magic bytes")]
    Magic,
    /// Written by a newer program (or an older one that is no longer read).
    #[error("it has format version {got}, this program reads {expected}")]
    Version {
        /// What is read.
        expected: u32,
        /// What the file says.
        got: u32,
    },
    /// It belongs to another data directory.
    #[error("it belongs to another data directory")]
    Directory,
    /// Its fingerprints were made by another recipe.
    #[error("it was written with recipe {got:?}, this directory has {expected:?}")]
    Recipe {
        /// The recipe of the directory.
        expected: String,
        /// The recipe of the file.
        got: String,
    },
    /// A sealed file of another use (such as a manifest where a segment is expected).
    #[error("it is a sealed file of kind {got}, expected {expected}")]
    Kind {
        /// The kind asked for.
        expected: u32,
        /// The kind of the file.
        got: u32,
    },
}

impl StorageError {
    /// Whether the disk (or the quota) is full: with room, the same operation would succeed.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::Locked { .. }
            | Self::NotAFile { .. }
            | Self::Damaged { .. }
            | Self::Missing(_)
            | Self::DamagedSealed { .. }
            | Self::Refused { .. }
            | Self::NoRecord { .. }
            | Self::Reclaimed { .. }
            | Self::PayloadTooLarge { .. }
            | Self::Poisoned { .. } => false,
        }
    }

    /// After this error nothing may be written any more.
    pub(super) fn fatal(self) -> Self {
        let source = std::error::Error::source(&self).map(|source| format!(": {source}"));
        Self::Poisoned { first: format!("{self}{}", source.unwrap_or_default()) }
    }

    /// Whether the named file is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// The storage error inside an `io::Error` of a sealed reader or writer, or that error as it
    /// is, under the name of `file`.
    pub fn from_io(error: io::Error, operation: &'static str, file: &str) -> Self {
        error.downcast().unwrap_or_else(|source| Self::Io {
            operation,
            path: PathBuf::from(file),
            source,
        })
    }
}

/// For the `Read` and `Write` of sealed files; [`StorageError::from_io`] is the way back.
impl From<StorageError> for io::Error {
    fn from(error: StorageError) -> Self {
        let kind = match &error {
            StorageError::Io { source, .. } => source.kind(),
            StorageError::NotAFile { .. }
            | StorageError::Damaged { .. }
            | StorageError::Missing(_)
            | StorageError::DamagedSealed { .. }
            | StorageError::Refused { .. } => io::ErrorKind::InvalidData,
            StorageError::Locked { .. } => io::ErrorKind::ResourceBusy,
            StorageError::NoRecord { .. } | StorageError::Reclaimed { .. } => {
                io::ErrorKind::NotFound
            }
            StorageError::PayloadTooLarge { .. } | StorageError::Poisoned { .. } => {
                io::ErrorKind::Other
            }
        };
        Self::new(kind, error)
    }
}
