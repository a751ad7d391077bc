//! The replicated log that a cluster writes its messages to.
//!
//! Knows no message: entries are bytes at positions, numbered from 1 without gaps. Asked of a log
//! is one order for all readers, entries of [`MESSAGE_BYTES_MAX`] bytes, and reading from a
//! position. It may lose, repeat or reorder what is appended, and leave an append unanswered.
//! Nothing more is used: no conditional append, no deduplication, no state of readers.
//!
//! A log that forgets what it acknowledged is noticed by [`chain`](crate::replication::chain). A
//! reader reports it too where its log lets it see that; [`required`] is what a node asks of a log
//! before it begins.
//!
//! Implementations that need a client of a log are not in this crate. Tests use `simulated`, whose
//! faults are drawn from a seed.
//!
//! [`MESSAGE_BYTES_MAX`]: crate::replication::message::MESSAGE_BYTES_MAX

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::api::clock;

pub mod required;
#[cfg(test)]
pub(crate) mod simulated;

/// A replicated log.
pub trait Log: Debug + Send + Sync {
    /// Sends an entry, after those that were sent before, and returns without waiting. The answer
    /// is its position. Without one it may have been appended or not, or be appended later. Only
    /// [reading](Log::read) it shows that it was.
    fn append(&self, entry: Arc<[u8]>) -> oneshot::Receiver<Result<u64, LogError>>;

    /// Reads all entries from a position on.
    fn read(&self, from: u64) -> Box<dyn Reader>;

    /// The entry at a position, asked of the server that orders the entries; `None` if it has none.
    /// Readers may read from others, where an entry can be damaged.
    ///
    /// # Errors
    /// [`LogError::Unreachable`].
    fn entry(&self, at: u64) -> Result<Option<LogEntry>, LogError>;

    /// Which positions it has.
    ///
    /// # Errors
    /// [`LogError::Unreachable`], or [`LogError::Another`].
    fn bounds(&self) -> Result<LogBounds, LogError>;

    /// What it promises.
    ///
    /// # Errors
    /// [`LogError::Unreachable`], or [`LogError::Refused`] if it does not keep what it is given.
    fn settings(&self) -> Result<LogSettings, LogError>;
}

/// Reads entries in order.
pub trait Reader: Debug + Send {
    /// The next entry; waits for it this long. `None` if the log has confirmed that there is none,
    /// so the reader has come to the end.
    ///
    /// # Errors
    /// [`LogError::Unreachable`] if there is neither an entry nor an end; it can be asked again.
    /// All others say that there will be no next entry here.
    fn next(&mut self, wait: Duration) -> Result<Option<LogEntry>, LogError>;

    /// When the end was confirmed that [`Self::next`] has just told.
    fn confirmed_at(&self) -> Instant {
        clock::now()
    }
}

impl LogError {
    /// The oldest entry that the log has is `first`, and an older one was asked for.
    pub fn discarded_before(first: u64) -> Self {
        Self::Discarded(format!("the log begins at {first}; older entries were discarded"))
    }
}

/// What a log has at a position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// Its position. Readers check that it is the last one plus 1.
    pub at: u64,
    /// What was appended.
    pub bytes: Arc<[u8]>,
    /// What the log's clock said then, in milliseconds since 1970, if it has one.
    pub at_ms: Option<u64>,
}

/// The positions of a log. It is empty if the first one is after the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBounds {
    /// Its oldest entry; older ones were discarded.
    pub first: u64,
    /// Its newest entry.
    pub last: u64,
}

/// What a log is and promises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// Another number means another log, though it may have the same name.
    pub identity: u64,
    /// How many servers keep each entry.
    pub replicas: u32,
    /// Whether each of them has an entry on its disk before the log acknowledges it; `None` if it
    /// does not tell.
    pub syncs: Option<bool>,
    /// The size from which it discards its oldest entries.
    pub bytes_max: u64,
    /// Its size.
    pub bytes: u64,
    /// The server that orders its entries, as far as it tells.
    pub leader: Option<String>,
    /// The servers that do not follow that one.
    pub behind: Vec<String>,
    /// The largest entry that it takes, in bytes.
    pub entry_bytes_max: u64,
}

/// Why a log has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// It cannot be reached, or has not answered in time.
    #[error("the log cannot be reached: {0}")]
    Unreachable(String),
    /// It does not take an entry, or not any more, for this reason.
    #[error("the log refuses entries: {0}")]
    Refused(String),
    /// The entries that were asked for were discarded.
    #[error("{0}")]
    Discarded(String),
    /// Its history is another one than that of this copy.
    #[error("{0}")]
    Diverged(String),
    /// It has the next entry no more, though neither the entries before it nor those after it were
    /// discarded.
    #[error("the log has a gap: entry {got} comes after {read}")]
    Gap {
        /// The last entry that was read.
        read: u64,
        /// The one that came then.
        got: u64,
    },
    /// It ends before what was read.
    #[error("the log has regressed: it ends at {last}, and entry {read} has been read")]
    Regressed {
        /// Its last entry.
        last: u64,
        /// The last one that was read.
        read: u64,
    },
    /// It is another one than before, with the same name.
    #[error("the log was begun anew: its identity is {identity}")]
    Another {
        /// Which it is now.
        identity: u64,
    },
}
