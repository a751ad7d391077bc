//! How far the log was read, as the file says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nearprint_storage::{Disk, Identity};

use crate::replication::position::ClusterFile;

/// The position is stored after this time, or after reading so many bytes, whichever is first. A
/// restart reads the log from there.
const STORED_AFTER: Duration = Duration::from_mins(1);
const STORED_AFTER_BYTES: usize = 64 << 20;

/// What the file says, and how old it is.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) file: ClusterFile,
    pub(super) at: Instant,
    /// Bytes that were read since.
    pub(super) bytes: usize,
}

impl Stored {
    /// Whether it is time to replace it.
    pub(super) fn is_due(&self) -> bool {
        self.at.elapsed() >= STORED_AFTER || self.bytes >= STORED_AFTER_BYTES
    }

    /// Without it a restart only reads more of the log.
    pub(super) fn write(&self, identity: Identity) {
        if let Err(error) = self.file.write(&self.disk, identity) {
            tracing::warn!(%error, "how far the log was read could not be stored");
        }
    }
}
