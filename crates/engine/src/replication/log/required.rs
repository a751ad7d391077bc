//! What a node asks of a log before it begins.
//!
//! A log that keeps fewer copies than were meant, or acknowledges what only memory has, works until
//! it is needed. So a node refuses to begin with one.

use crate::replication::log::LogSettings;
use crate::replication::message::MESSAGE_BYTES_MAX;

/// What the configuration asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Required {
    /// The fewest servers that keep each entry.
    pub replicas: u32,
    /// Accept a log whose servers do not sync, or that does not tell.
    pub trust_sync: bool,
    /// The identity of the log that the node has read before.
    pub identity: Option<u64>,
}

/// Why a node does not begin with a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The identity is not the one that was read before.
    #[error("the log was begun anew: its identity is {identity}, and this node has read {read}")]
    Another {
        /// That of the log.
        identity: u64,
        /// That of the log that the node has read.
        read: u64,
    },
    /// Each entry is on fewer servers.
    #[error("the log keeps {replicas} copies of each entry, and {required} are required")]
    FewReplicas {
        /// On how many it is.
        replicas: u32,
        /// On how many it must be.
        required: u32,
    },
    /// Entries do not fit.
    #[error(
        "the log takes entries of up to {bytes_max} bytes, and messages have {MESSAGE_BYTES_MAX}"
    )]
    SmallEntries {
        /// The largest that it takes.
        bytes_max: u64,
    },
    /// What it has acknowledged can be lost.
    #[error("a server of the log acknowledges entries before they are on its disk")]
    LazySync,
    /// Perhaps what it has acknowledged can be lost.
    #[error(
        "not all servers of the log tell whether they sync entries before they acknowledge them"
    )]
    UnknownSync,
}

impl Required {
    /// Whether a node may begin with a log like that.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, log: &LogSettings) -> Result<(), Unfit> {
        if let Some(read) = self.identity.filter(|read| *read != log.identity) {
            return Err(Unfit::Another { identity: log.identity, read });
        }
        if log.replicas < self.replicas {
            let (replicas, required) = (log.replicas, self.replicas);
            return Err(Unfit::FewReplicas { replicas, required });
        }
        if log.entry_bytes_max < MESSAGE_BYTES_MAX as u64 {
            return Err(Unfit::SmallEntries { bytes_max: log.entry_bytes_max });
        }
        match log.syncs {
            _ if self.trust_sync => Ok(()),
            Some(true) => Ok(()),
            Some(false) => Err(Unfit::LazySync),
            None => Err(Unfit::UnknownSync),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUIRED: Required = Required { replicas: 3, trust_sync: false, identity: None };
    const LOG: LogSettings = LogSettings {
        identity: 7,
        replicas: 3,
        syncs: Some(true),
        bytes_max: 1 << 30,
        bytes: 0,
        leader: None,
        behind: Vec::new(),
        entry_bytes_max: MESSAGE_BYTES_MAX as u64,
    };

    #[test]
    fn what_fits_is_accepted() {
        assert_eq!(REQUIRED.check(&LOG), Ok(()));
        let known = Required { identity: Some(7), replicas: 1, ..REQUIRED };
        assert_eq!(known.check(&LOG), Ok(()));
    }

    #[test]
    fn another_log_is_refused() {
        let required = Required { identity: Some(8), ..REQUIRED };
        assert_eq!(required.check(&LOG), Err(Unfit::Another { identity: 7, read: 8 }));
    }

    #[test]
    fn fewer_copies_are_refused() {
        let refused = REQUIRED.check(&LogSettings { replicas: 2, ..LOG });
        assert_eq!(refused, Err(Unfit::FewReplicas { replicas: 2, required: 3 }));
    }

    #[test]
    fn entries_smaller_than_a_message_are_refused() {
        let bytes_max = MESSAGE_BYTES_MAX as u64 - 1;
        let refused = REQUIRED.check(&LogSettings { entry_bytes_max: bytes_max, ..LOG });
        assert_eq!(refused, Err(Unfit::SmallEntries { bytes_max }));
    }

    #[test]
    fn a_log_that_may_not_sync_is_refused_unless_trusted() {
        for (syncs, unfit) in [(Some(false), Unfit::LazySync), (None, Unfit::UnknownSync)] {
            let log = LogSettings { syncs, ..LOG };
            assert_eq!(REQUIRED.check(&log), Err(unfit));
            assert_eq!(Required { trust_sync: true, ..REQUIRED }.check(&log), Ok(()));
        }
    }
}
