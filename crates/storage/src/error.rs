//! The errors of storage, with the facts that an operator needs: path, operation, offset, sequence.
//! The doc of each variant tells the operator what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

use rustix::io::Errno;

/// A failure of the disk or of the bytes on it.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The operating system refused an operation. If the disk is full ([`StorageError::is_full`]),
    /// free some space. Otherwise check the disk (`dmesg`, SMART) and the permissions of the path,
    /// then restart.
    #[error("cannot {operation} {path}", path = path.display())]
    Io {
        /// The operation, as a verb: "open", "write", "sync".
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Another process uses the directory. Stop it, or give this one a directory of its own.
    #[error("{path} is in use by another process", path = path.display())]
    Locked { path: PathBuf },
    /// The name of a data file belongs to something else, such as a link. Links are not followed,
    /// because nothing protects their targets. Nothing was changed. Put the file itself in its
    /// place.
    #[error(
        "{path} is {what}, not a file; nothing was changed; next: put the file itself in its place",
        path = path.display()
    )]
    NotAFile {
        path: PathBuf,
        /// What it is, with an article.
        what: &'static str,
    },
    /// Bytes that were durable are not what was written. Nothing was changed. Restore an export or
    /// a copy of the named file; cutting it here would lose acknowledged records.
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
        why: Damage,
    },
    /// A journal file or a pack is missing. Nothing was changed. Put the file back from a copy, or
    /// restore an export.
    #[error(
        "{0}; nothing was changed; next: put the missing file back from a copy, restore an export \
         (nearprint snapshot restore), or see what a repair would lose (nearprint repair)"
    )]
    Missing(MissingRecords),
    /// A sealed file is not what was written. Nothing was changed. The engine rebuilds derived
    /// files and falls back to an older snapshot; if it reports that it cannot, restore a copy.
    #[error("{file} is damaged at offset {offset}: {why}")]
    DamagedSealed {
        /// The file, by its name in the data directory.
        file: String,
        /// Where the block or the trailer begins, in bytes.
        offset: u64,
        why: Damage,
    },
    /// The file is intact, but for another directory, recipe, version or use. Nothing was changed.
    /// Remove the file, or start the version or the recipe that wrote it.
    #[error("{file} is refused: {why}")]
    Refused {
        /// The file, by its name in the data directory.
        file: String,
        why: FileRefusal,
    },
    /// There is no record of this sequence: it was never written, or is not flushed yet. The caller
    /// has a bug, or the snapshot does not belong to this journal.
    #[error("the journal has no record of sequence {sequence} (it ends at {last})")]
    NoRecord {
        sequence: u64,
        /// The last readable one.
        last: u64,
    },
    /// The record of this sequence is no longer needed and its space was reclaimed. A reader with
    /// an old view has not pinned the records of that view.
    #[error("the record of sequence {sequence} was reclaimed")]
    Reclaimed { sequence: u64 },
    /// A reader of what is in memory ([`super::Records::in_memory`]) would have to wait for the
    /// disk. Read it from there.
    #[error("it is not in memory")]
    NotInMemory,
    /// The payload is longer than [`super::PAYLOAD_BYTES_MAX`]. Nothing was written; the limits of
    /// the caller are wrong.
    #[error("a payload of {bytes} bytes is above the limit of the journal")]
    PayloadTooLarge { bytes: usize },
    /// An earlier write or sync failed, and writes have stopped for good. Restart: recovery starts
    /// from what is really on the disk.
    #[error("the journal stopped after a failed write or sync ({first})")]
    Poisoned {
        /// The message of the first failure.
        first: String,
    },
}

/// A range of sequences that no file covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRecords {
    pub first: u64,
    /// The last of them, if another file shows how far the records went.
    pub last: Option<u64>,
    /// The file after them, if there is one.
    pub followed_by: Option<String>,
}

impl fmt::Display for MissingRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            Some(last) => {
                write!(f, "no file has the records of sequences {} to {last}", self.first)?;
            }
            None => write!(f, "no file has the records from sequence {} on", self.first)?,
        }
        match &self.followed_by {
            Some(name) => write!(f, " (the next file is {name})"),
            None => Ok(()),
        }
    }
}

/// What is wrong with a damaged file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// A file header is short or fails its checksum.
    #[error("the file header fails its checksum")]
    FileHeader,
    /// The first sequence in the header is not that in the file name.
    #[error("the file name and the file header disagree")]
    FileName,
    /// The bytes are not a frame, although later bytes show that one was durable here.
    #[error("no valid frame where a durable one was ({0})")]
    Frame(#[from] BadFrame),
    /// The frame is intact but does not continue the one before it.
    #[error("the frame does not continue the one before it")]
    Chain,
    /// The journal ends before this sequence, which was durable.
    #[error("the journal ends here although this sequence was durable")]
    EndsEarly,
    /// The records after a snapshot were packed since, so the journal cannot continue it.
    #[error("records after this sequence were reclaimed since")]
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
    /// Each block of a sealed file is intact, but they were not written together.
    #[error("the whole fails its checksum")]
    Whole,
}

/// The way out where a directory or an export is of another version.
const NEXT_OF_OTHER_VERSION: &str = "next: use the version that made it, or store the documents \
                                     again in an empty directory (--data DIR)";

/// Why an intact file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileRefusal {
    /// Not a file of this service, or not of this kind.
    #[error("it does not begin with the expected magic bytes")]
    Magic,
    /// Written by a newer program, or by an older one that is no longer read.
    #[error(
        "it was made by {age} version of nearprint (recipe {recipe}, format version {got}; this \
         program reads {expected}); nothing was changed; {next}",
        age = if got < expected { "an older" } else { "a newer" },
        next = NEXT_OF_OTHER_VERSION
    )]
    Version {
        /// The version that this program reads.
        expected: u32,
        /// The version of the file.
        got: u32,
        /// The recipe of the file.
        recipe: String,
    },
    /// The recipe of the directory is none of this program.
    #[error(
        "it was made by {age} version of nearprint (recipe {recipe}, which this program does not \
         have); nothing was changed; {next}",
        age = if *is_older { "an older" } else { "another" },
        next = NEXT_OF_OTHER_VERSION
    )]
    UnknownRecipe {
        recipe: String,
        /// Whether it is one that earlier versions had.
        is_older: bool,
    },
    /// An older version made a part of a snapshot in another form. What it has is in the records.
    #[error(
        "it was made by an older version of nearprint; nothing is lost: the next start rebuilds it \
         from the records"
    )]
    OlderPart,
    /// It belongs to another data directory.
    #[error("it belongs to another data directory")]
    Directory,
    /// Another recipe made its fingerprints.
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
        expected: u32,
        /// The kind of the file.
        got: u32,
    },
}

impl StorageError {
    /// The bytes of a record file are not what was written.
    pub(super) fn damaged(file: &str, offset: u64, sequence: u64, why: Damage) -> Self {
        Self::Damaged { file: file.to_owned(), offset, sequence, why }
    }

    /// Whether the disk or the quota is full: with free space the same operation would succeed.
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Io { source, .. }
            if matches!(source.kind(), StorageFull | QuotaExceeded))
    }

    /// Whether the process, or the system, may not open more files.
    pub fn is_out_of_files(&self) -> bool {
        matches!(self, Self::Io { source, .. } if is_out_of_files(source))
    }

    /// Turns an error after which nothing may be written any more into [`StorageError::Poisoned`].
    pub(super) fn fatal(self) -> Self {
        let source = std::error::Error::source(&self).map(|source| format!(": {source}"));
        Self::Poisoned { first: format!("{self}{}", source.unwrap_or_default()) }
    }

    /// Whether another version of nearprint wrote the file, so that it is not damaged.
    pub fn is_of_other_version(&self) -> bool {
        use FileRefusal::{OlderPart, UnknownRecipe, Version};
        matches!(self, Self::Refused { why, .. }
            if matches!(why, Version { .. } | UnknownRecipe { .. } | OlderPart))
    }

    /// Whether the file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// The storage error inside an `io::Error` of a sealed reader or writer, or else that error
    /// with the name of `file`.
    pub fn from_io(error: io::Error, operation: &'static str, file: &str) -> Self {
        error.downcast().unwrap_or_else(|source| Self::Io {
            operation,
            path: PathBuf::from(file),
            source,
        })
    }
}

/// Whether the process, or the system, may not open more files.
pub fn is_out_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

/// For the `Read` and `Write` of sealed files; [`StorageError::from_io`] is the way back.
impl From<StorageError> for io::Error {
    fn from(error: StorageError) -> Self {
        let kind = if let StorageError::Io { source, .. } = &error {
            source.kind()
        } else {
            io::ErrorKind::InvalidData
        };
        Self::new(kind, error)
    }
}

/// Why bytes are not a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// The first bytes are not the magic of a frame.
    #[error("no frame begins here")]
    Magic,
    /// The header fails its checksum.
    #[error("the frame header fails its checksum")]
    HeaderChecksum,
    /// The header is intact but its values are impossible.
    #[error("the frame header is impossible")]
    HeaderFields,
    /// The frame fails the checksum of its payload.
    #[error("the payload fails its checksum")]
    Payload,
    /// The file ends inside the frame.
    #[error("the file ends inside the frame")]
    Short,
}
