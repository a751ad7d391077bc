//! Recovery: reads the journal in order and finds its end.

use super::{Disk, Identity, StorageError};

/// A record met by the scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// The sequence of its first change.
    pub first: u64,
    /// How many consecutive changes it stands for, at least 1.
    pub count: u32,
    /// The bytes as they were appended.
    pub payload: &'a [u8],
}

/// The unanswered rest that [`super::Journal::open`] cuts off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The newest journal file.
    pub file: String,
    /// Where it is cut, in bytes; 0 when the whole file goes.
    pub offset: u64,
    /// How many bytes go.
    pub bytes: u64,
}

/// Where the journal ends; what [`super::Journal::open`] needs to continue.
#[derive(Debug)]
pub struct Tail {
    /// The last whole record's last change; 0 for an empty journal.
    pub last: u64,
    /// What will be cut, for the log.
    pub torn: Option<TornTail>,
}

/// Visits every record with a change after `from`, in order, each verified; changes nothing.
///
/// The first record visited may begin at or before `from` when it covers several changes.
///
/// # Errors
/// [`StorageError::Damaged`], [`StorageError::Refused`], [`StorageError::Io`].
pub fn scan(
    disk: &dyn Disk,
    identity: &Identity,
    from: u64,
    visit: &mut dyn FnMut(RecordRef<'_>),
) -> Result<Tail, StorageError> {
    todo!()
}
